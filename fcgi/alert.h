/*
 * alert.h: events of alerts and their receivers.
 *
 * What is to be told is found out by the database; threads of their own take
 * what is due, sign it as a Standard Webhook and send it.
 */

#ifndef IL_ALERT_H
#define IL_ALERT_H

#include "conf.h"
#include "outcall.h"

/* Are the settings about alerts well-formed?  0, or -1 with a message. */
int il_alert_conf(const il_conf_t *conf, char *err, size_t cap)
    IL_MUST_CHECK;

/* Whom alerts may be sent to. */
void il_alert_rules(const il_conf_t *conf, il_outrules_t *rules);

/* Is there a secret of that name, and is it one?  0, or -1 and why. */
int il_alert_secret_known(il_str_t name, char *why, size_t cap)
    IL_MUST_CHECK;

/* Starts the threads, if any; stop makes them give up what is under way and
 * waits for them.  0 or -1. */
int il_alert_start(void) IL_MUST_CHECK;
void il_alert_stop(void);

#endif /* IL_ALERT_H */
