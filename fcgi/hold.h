/*
 * hold.h: what the edge is told about work keys that it may answer for.
 */

#ifndef IL_HOLD_H
#define IL_HOLD_H

#include "req.h"

/* Tells the edge, in the head of r's answer, that a job of r's tenant does
 * not count as active any more: Interlock-Work-Done is the work's name in hex
 * (il_work_hash), ";" and the job's id as text.  Nothing happens if work_key
 * or job has no data.  Any thread, before il_req_done(). */
void il_hold_ended(il_req_t *r, il_str_t work_key, il_str_t job);

#endif /* IL_HOLD_H */
