/*
 * edge.h: what nginx answered alone is put on record.
 *
 * nginx sends one datagram for those of a round of its event loop: lines as the
 * file ngx_module/interlock_audit has them (ngx_http_interlock_record.c), or
 * one of its access log as syslog, to the socket `edge_socket`.  A datagram may
 * be lost; so each request has a number, counted by the edge, and what is
 * missing shows (see sql/functions/edge_record.sql).
 */

#ifndef IL_EDGE_H
#define IL_EDGE_H

#include "edge_line.h"

/* Opens the socket, if there is one in the configuration: before any other
 * thread.  0, or -1 with a message in err. */
int il_edge_init(char *err, size_t cap) IL_MUST_CHECK;

/* Starts its reader and its lane.  0 or -1. */
int il_edge_start(void) IL_MUST_CHECK;

/* Takes what is in the socket still, has it recorded, and ends. */
void il_edge_stop(void);

/*
 * How far each zone of an edge has counted: the value of the parameter
 * INTERLOCK_EDGE of any request, "ZONE:NUMBER,..." with the zone in 32 hex
 * digits.  So the loss of the last datagrams shows, too.  Any thread; what is
 * not of this form is passed over.
 */
void il_edge_counts(il_str_t value);

#endif /* IL_EDGE_H */
