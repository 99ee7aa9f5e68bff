/*
 * effect_mail.h: a message with the Message-ID of its effect, so that it can
 * be found again wherever it went.
 */

#ifndef IL_CLI_EFFECT_MAIL_H
#define IL_CLI_EFFECT_MAIL_H

#include "cli.h"

#define IL_EFFECT_MAIL_MAX  (64u * 1024 * 1024)

/* Reads the message from standard input.  0, or an exit code with a message:
 * too long, not a message, or no name of a domain. */
int il_effect_mail_read(il_buf_t *mail, const char *domain);

/* "<key@domain>", a new string. */
char *il_effect_mail_id(const char *key, const char *domain);

/* Puts the Message-ID in the place of those that the message has. */
void il_effect_mail_set_id(il_buf_t *mail, const char *id);

#endif /* IL_CLI_EFFECT_MAIL_H */
