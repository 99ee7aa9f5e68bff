/*
 * ticket.c: a ticket, with which a web page may press one button.
 */

#include <stdlib.h>

#include "call.h"
#include "cmds.h"
#include "http.h"
#include "il_ticket.h"


typedef struct {
    il_common_t  common;
    const char  *kind;
    const char  *key;
    const char  *user;
    int64_t      seconds;
} il_ticket_opts_t;


static int il_ticket(void *opts, const il_args_t *args);


#define il_ticket_str(field)  IL_OPT_STR, offsetof(il_ticket_opts_t, field)

static const il_opt_t  il_ticket_opts[] = {
    { "kind", il_ticket_str(kind), "NAME", "kind of work", 0, 0, 0 },
    { "key", il_ticket_str(key), "KEY",
      "work key, parts joined by \":\"", 0, 0, 0 },
    { "user", il_ticket_str(user), "WHO",
      "who will press the button, for the audit (default: your login name)",
      0, 0, 0 },
    { "seconds", IL_OPT_INT, offsetof(il_ticket_opts_t, seconds), "N",
      "how long it is good", 1, IL_TICKET_SECONDS_MAX, IL_TICKET_SECONDS },
    IL_OPT_END
};


const il_cmd_t  il_cmd_ticket = {
    "ticket", il_ticket, "make a ticket for a web page's button",
    "--kind K --key KEY [--user WHO] [--seconds N]",
    "Prints a ticket, with which a page may ask for this work, as a header\n"
    "Interlock-Ticket or a form's field \"ticket\" of POST /button/K.\n"
    "Give it to the page it is for, and put it into no URL.",
    il_ticket_opts, sizeof(il_ticket_opts_t), IL_CMD_CLIENT, 0, 0
};


static int
il_ticket_print(const il_http_t *h, const il_ticket_opts_t *o)
{
    char  *ticket;

    if (o->common.json) {
        il_out_line(stdout, il_buf_str(&h->answer.body));
        return 0;
    }

    ticket = il_json_text(il_buf_str(&h->answer.body), "/ticket");

    if (ticket == NULL) {
        il_err("the server's answer has no ticket");
        return EX_PROTOCOL;
    }

    il_out_line(stdout, il_cstr(ticket));
    free(ticket);

    return 0;
}


static int
il_ticket(void *opts, const il_args_t *args)
{
    int                rc;
    il_buf_t           body;
    il_http_t          h;
    il_ticket_opts_t  *o;

    (void) args;
    o = opts;

    if (o->kind == NULL || o->key == NULL) {
        il_err("ticket: --kind and --key are needed");
        return EX_USAGE;
    }

    if (o->user == NULL) {
        o->user = il_call_login();
    }

    memset(&body, 0, sizeof(body));
    memset(&h, 0, sizeof(h));

    il_buf_puts(&body, "{");
    il_call_member(&body, "kind", o->kind);
    il_call_member(&body, "work_key", o->key);
    il_call_member(&body, "user", o->user);
    il_buf_printf(&body, ",\"seconds\":%lld}", (long long) o->seconds);

    rc = il_http_open(&h, &o->common, 1);

    if (rc == 0) {
        rc = il_http_call(&h, "POST", "/v1/tickets", il_buf_str(&body),
                          IL_CALL_TIMEOUT);
        rc = il_http_check(&h, rc, o->common.json);
    }

    if (rc == 0) {
        rc = il_ticket_print(&h, o);
    }

    il_http_close(&h);
    il_buf_free(&body);

    return il_out_end(rc);
}
