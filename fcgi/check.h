/*
 * check.h: look-ups over HTTP: is the result of a lost job there already, did
 * an unclear effect happen?
 *
 * Threads of their own take look-ups from the database, one each at a time,
 * so that no more than check_threads are under way.  Who may be called is up
 * to the configuration, and what is there is up to nobody else: an answer
 * that is not clear settles nothing.
 */

#ifndef IL_CHECK_H
#define IL_CHECK_H

#include "conf.h"
#include "outcall.h"


typedef struct {
    il_outcall_t  out;
    char          body[IL_URL_MAX + 1];
} il_check_call_t;


/* Whom look-ups may call. */
void il_check_rules(const il_conf_t *conf, il_outrules_t *rules);

/* Are the settings about look-ups well-formed?  0, or -1 with a message. */
int il_check_conf(const il_conf_t *conf, char *err, size_t cap)
    IL_MUST_CHECK;

/* The member of a policy that describes a look-up ("result_check", "lookup"):
 * what an operator is told if it may not be called.  0, or -1 with a detail
 * in why.  What is no such description is left to the database. */
int il_check_policy(const il_conf_t *conf, il_str_t body, const char *member,
    char *why, size_t cap) IL_MUST_CHECK;

/* Makes the request of a description, secrets included.  0 (free call->out
 * with il_outcall_free), or -1 with a reason in call->out.why. */
int il_check_build(const il_conf_t *conf, il_str_t spec, il_str_t vars,
    il_check_call_t *call) IL_MUST_CHECK;

/* Starts the threads, if any; stop makes them give up what is under way and
 * waits for them.  0 or -1. */
int il_check_start(void) IL_MUST_CHECK;
void il_check_stop(void);

/* 1 once il_check_stop has begun. */
int il_check_stopping(void);

#endif /* IL_CHECK_H */
