/*
 * look.h: looking a job up, with or without waiting for its end.
 */

#ifndef IL_LOOK_H
#define IL_LOOK_H

#include "il_uuid.h"
#include "req.h"

/* Who may see a job, and as what.  doc is job_get()'s object; it is gone
 * after the call. */
typedef struct {
    int   (*may)(il_req_t *r, il_str_t doc);    /* NULL: the whole tenant */
    void  (*show)(il_req_t *r, il_str_t doc);   /* answers r */
} il_look_view_t;

/* Looks up a job of r->who's tenant, and answers by the view, or 404; with
 * wait (seconds) not before the job has ended, or that time is over.  Takes
 * r->op, and the body is gone then; view must outlive the request. */
void il_look_start(il_req_t *r, const uint8_t job_id[IL_UUID_BYTES],
    int64_t wait, const il_look_view_t *view);

/* The seconds of `Prefer: wait=N`, at most 30; or 0. */
int64_t il_look_prefer(const il_req_t *r);

#endif /* IL_LOOK_H */
