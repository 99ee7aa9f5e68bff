/*
 * fcgx.h: one FastCGI connection, by stock libfcgi.  fcgx.c is the one file
 * that touches it.
 *
 * The descriptor is the caller's: it accepts, waits and closes; libfcgi only
 * reads and writes requests.  A connection is used by one thread at a time.
 */

#ifndef IL_FCGX_H
#define IL_FCGX_H

#include "buf.h"
#include "il_str.h"

typedef struct il_fcgx_s  il_fcgx_t;

/* Once, before threads start.  0 or -1. */
int il_fcgx_init(void) IL_MUST_CHECK;

/* A connection over an accepted, blocking socket; NULL if out of memory. */
il_fcgx_t *il_fcgx_new(int fd);

/* Frees it; the descriptor stays open, unless il_fcgx_accept failed. */
void il_fcgx_free(il_fcgx_t *f);

/* Reads the head of one request; blocks no longer than the socket's receive
 * timeout for each read.  0; or -1, and then the descriptor may be closed:
 * il_fcgx_fd says. */
int il_fcgx_accept(il_fcgx_t *f) IL_MUST_CHECK;
int il_fcgx_fd(const il_fcgx_t *f);

/* A parameter, or data NULL; valid until il_fcgx_finish. */
il_str_t il_fcgx_param(const il_fcgx_t *f, const char *name);

/* All parameters, "NAME=value", ended by NULL. */
char **il_fcgx_params(const il_fcgx_t *f);

/* Reads from the body: the number of bytes, 0 at its end, -1 if the peer
 * broke the stream off. */
int il_fcgx_read(il_fcgx_t *f, char *buf, size_t n) IL_MUST_CHECK;

/* Frees the reading half while the request waits. */
void il_fcgx_settle(il_fcgx_t *f);

/* Writes the answer, which is these n parts, and ends the request.  1: the
 * connection may be used again; 0: the peer wants it closed; -1: the answer
 * could not be written. */
int il_fcgx_finish(il_fcgx_t *f, const il_str_t *parts, size_t n)
    IL_MUST_CHECK;

/* For an answer that is written in pieces, with nobody waiting: libfcgi's own
 * buffers are freed, and nothing of it writes any more.  From here on the
 * caller writes what these two add to out: data as records of the request, and
 * those that end it (FastCGI Specification 1.0, 3.3, 5.3, 5.5).  Then
 * il_fcgx_abort. */
void il_fcgx_detach(il_fcgx_t *f);
void il_fcgx_frame(const il_fcgx_t *f, il_buf_t *out, il_str_t data);
void il_fcgx_frame_end(const il_fcgx_t *f, il_buf_t *out);

/* Ends the request without an answer. */
void il_fcgx_abort(il_fcgx_t *f);

#endif /* IL_FCGX_H */
