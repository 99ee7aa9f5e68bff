/*
 * effect.c: begin and outcome of an effect, told from within a worker's
 * command.
 *
 * The owner token comes from the environment that `interlock work` makes.
 */

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "call.h"
#include "cmds.h"
#include "effect.h"
#include "il_json.h"
#include "il_uuid.h"

#define IL_EFFECT_TIMEOUT  15000        /* ms, of one call */
#define IL_EFFECT_TRIES    8            /* with pauses: some 12 s */
#define IL_EFFECT_PAUSE    100          /* ms, doubling */


typedef struct {
    il_common_t       common;
    il_effect_what_t  what;
    const char       *send;
    const char       *ref;
    const char       *detail;
    const char       *response;
} il_effect_opts_t;


static int il_effect_begin_main(void *opts, const il_args_t *args);
static int il_effect_tell_main(void *opts, const il_args_t *args);


static const il_opt_t  il_effect_begin_opts[] = {
    { "name", IL_OPT_STR, offsetof(il_effect_opts_t, what.name), "NAME",
      "what it is called within this work", 0, 0, 0 },
    { "kind", IL_OPT_STR, offsetof(il_effect_opts_t, what.kind), "KIND",
      "its effect kind", 0, 0, 0 },
    { "target", IL_OPT_STR, offsetof(il_effect_opts_t, what.target), "TEXT",
      "whom or what it is about, for people", 0, 0, 0 },
    { "digest", IL_OPT_STR, offsetof(il_effect_opts_t, what.digest), "TEXT",
      "a text that differs when the request differs", 0, 0, 0 },
    { "compensates", IL_OPT_STR, offsetof(il_effect_opts_t, what.compensates),
      "EFFECT", "the effect that this one undoes", 0, 0, 0 },
    { "call", IL_OPT_STR, offsetof(il_effect_opts_t, what.call), "UUID",
      "of this call; the same again gets the same send (a new one)", 0, 0, 0 },
    IL_OPT_END
};

static const il_opt_t  il_effect_tell_opts[] = {
    { "send", IL_OPT_STR, offsetof(il_effect_opts_t, send), "SEND",
      "the send, as begin named it", 0, 0, 0 },
    { "ref", IL_OPT_STR, offsetof(il_effect_opts_t, ref), "TEXT",
      "how the provider calls it", 0, 0, 0 },
    { "detail", IL_OPT_STR, offsetof(il_effect_opts_t, detail), "TEXT",
      "a word about it, for people", 0, 0, 0 },
    { "response", IL_OPT_STR, offsetof(il_effect_opts_t, response), "FILE",
      "the provider's answer, JSON (- for standard input)", 0, 0, 0 },
    IL_OPT_END
};


const il_cmd_t  il_cmd_effect_begin = {
    "effect begin", il_effect_begin_main,
    "may this be sent now, and under which key?",
    "--name NAME --kind KIND [options]",
    "Called by a command of `interlock work` before it changes something\n"
    "outside.  Exit code 0: send it now, once, with the idempotency_key that\n"
    "is printed, and then tell the outcome; 1: it has happened already; 75:\n"
    "somebody else is sending it, or it is not known whether it happened, or\n"
    "this attempt has ended.  A second begin is somebody else, unless it has\n"
    "the first one's --call.",
    il_effect_begin_opts, sizeof(il_effect_opts_t), 0, 0, 0
};

const il_cmd_t  il_cmd_effect_confirm = {
    "effect confirm", il_effect_tell_main, "tell that a send has happened",
    "EFFECT --send SEND [options]",
    "Heard also when the lease has ended meanwhile.",
    il_effect_tell_opts, sizeof(il_effect_opts_t), 0, 1, 1
};

const il_cmd_t  il_cmd_effect_fail = {
    "effect fail", il_effect_tell_main,
    "tell that a send has certainly not happened",
    "EFFECT --send SEND [options]",
    "Only for a definite no; otherwise say unknown.",
    il_effect_tell_opts, sizeof(il_effect_opts_t), 0, 1, 1
};

const il_cmd_t  il_cmd_effect_unknown = {
    "effect unknown", il_effect_tell_main,
    "tell that nobody knows whether a send has happened",
    "EFFECT --send SEND [options]",
    "It is looked into, as its effect kind says, and not sent again before.",
    il_effect_tell_opts, sizeof(il_effect_opts_t), 0, 1, 1
};


int
il_effect_open(il_http_t *h, const il_common_t *c, const char *command)
{
    const char  *token;

    token = getenv("INTERLOCK_OWNER_TOKEN");

    if (token == NULL || token[0] == '\0') {
        memset(h, 0, sizeof(il_http_t));
        il_err("%s: INTERLOCK_OWNER_TOKEN is not set: this is for commands of"
               " interlock work", command);
        return EX_USAGE;
    }

    return il_http_open_bearer(h, c->url, il_cstr(token));
}


/* While nobody answers, or nobody can: again. */
static int
il_effect_call(il_http_t *h, const il_common_t *c, const char *path,
    il_str_t body)
{
    int              rc;
    long             pause;
    struct timespec  ts;

    pause = IL_EFFECT_PAUSE;

    for (int i = 1; /* void */; i++) {
        rc = il_http_call(h, "POST", path, body, IL_EFFECT_TIMEOUT);

        if ((rc == 0 && h->answer.status < 500) || i == IL_EFFECT_TRIES) {
            return il_http_check(h, rc, c->json);
        }

        ts.tv_sec = pause / 1000;
        ts.tv_nsec = (pause % 1000) * 1000000;
        (void) nanosleep(&ts, NULL);
        pause *= 2;
    }
}


int
il_effect_begin(il_http_t *h, const il_common_t *c,
    const il_effect_what_t *what, il_effect_begun_t *begun)
{
    int       rc;
    char      call[IL_UUID_TEXT + 1];
    uint8_t   id[IL_UUID_BYTES];
    il_buf_t  body;
    il_str_t  json;

    memset(begun, 0, sizeof(il_effect_begun_t));

    if (what->name == NULL || what->kind == NULL) {
        il_err("effect: --name and --kind are needed");
        return EX_USAGE;
    }

    /* Another process, after this one was killed, may not take this one's
     * send for its own: what is sent may have been sent. */

    if (what->call == NULL) {
        il_uuid7(id, (uint64_t) time(NULL) * 1000);

    } else if (il_uuid_parse(id, il_cstr(what->call)) != 0) {
        il_err("effect: --call is not a UUID: %s", what->call);
        return EX_USAGE;
    }

    il_uuid_format(call, id);

    memset(&body, 0, sizeof(body));
    il_buf_puts(&body, "{");
    il_call_member(&body, "name", what->name);
    il_call_member(&body, "kind", what->kind);
    il_call_member(&body, "target", what->target);
    il_call_member(&body, "request_digest", what->digest);
    il_call_member(&body, "compensates", what->compensates);
    il_call_member(&body, "call", call);
    il_buf_puts(&body, "}");

    rc = il_effect_call(h, c, "/v1/effects", il_buf_str(&body));
    il_buf_free(&body);

    if (rc != 0) {
        return rc;
    }

    json = il_buf_str(&h->answer.body);
    begun->effect_id = il_json_text(json, "/effect_id");
    begun->send_id = il_json_text(json, "/send_id");
    begun->state = il_json_text(json, "/state");
    begun->decision = il_json_text(json, "/decision");
    begun->key = il_json_text(json, "/idempotency_key");
    begun->deadline_ms = il_json_int(json, "/deadline_ms", -1);

    if (begun->effect_id == NULL || begun->decision == NULL
        || (strcmp(begun->decision, "send") == 0
            && (begun->send_id == NULL || begun->key == NULL)))
    {
        il_err("effect: the answer is not one of interlock's");
        return EX_PROTOCOL;
    }

    return 0;
}


void
il_effect_begun_free(il_effect_begun_t *begun)
{
    free(begun->effect_id);
    free(begun->send_id);
    free(begun->state);
    free(begun->decision);
    free(begun->key);
    memset(begun, 0, sizeof(il_effect_begun_t));
}


int
il_effect_decided(const il_effect_begun_t *begun)
{
    if (strcmp(begun->decision, "send") == 0) {
        return 0;
    }

    if (strcmp(begun->decision, "already_confirmed") == 0) {
        return IL_EXIT_NO;
    }

    if (strcmp(begun->decision, "in_progress") == 0) {
        il_err("effect %s: somebody else is sending it", begun->effect_id);

    } else if (strcmp(begun->decision, "check_first") == 0) {
        il_err("effect %s: it is not known whether it happened; it is being"
               " looked up", begun->effect_id);

    } else {
        il_err("effect %s: it is not known whether it happened; a human has"
               " to say", begun->effect_id);
    }

    return EX_TEMPFAIL;
}


int
il_effect_tell(il_http_t *h, const il_common_t *c, const char *effect_id,
    const char *send_id, const char *state, il_str_t more)
{
    int       rc;
    char      path[sizeof("/v1/effects//outcome") + IL_UUID_TEXT];
    char      id[IL_UUID_TEXT + 1];
    il_buf_t  body;

    rc = il_call_id(id, effect_id, "an effect's");
    if (rc != 0) {
        return rc;
    }

    (void) snprintf(path, sizeof(path), "/v1/effects/%s/outcome", id);

    memset(&body, 0, sizeof(body));
    il_buf_puts(&body, "{");
    il_call_member(&body, "send_id", send_id);
    il_call_member(&body, "state", state);
    il_buf_add(&body, more.data, more.len);
    il_buf_puts(&body, "}");

    rc = il_effect_call(h, c, path, il_buf_str(&body));
    il_buf_free(&body);

    return rc;
}


/* ----------------------------------------------------------------- commands */


static int
il_effect_begin_main(void *opts, const il_args_t *args)
{
    int                 rc;
    il_http_t           h;
    il_effect_begun_t   begun;
    il_effect_opts_t   *o;

    (void) args;

    o = opts;
    memset(&begun, 0, sizeof(begun));
    rc = il_effect_open(&h, &o->common, "effect begin");

    if (rc == 0) {
        rc = il_effect_begin(&h, &o->common, &o->what, &begun);

        if (rc == 0) {
            il_call_print(&o->common, il_buf_str(&h.answer.body));
            rc = il_effect_decided(&begun);
        }
    }

    il_effect_begun_free(&begun);
    il_http_close(&h);

    return il_out_end(rc);
}


/* The members of an outcome behind its state. */
static int
il_effect_more(il_buf_t *more, const il_effect_opts_t *o)
{
    int       rc;
    il_buf_t  text;

    if (o->ref != NULL) {
        il_buf_puts(more, ",\"provider_ref\":");
        il_buf_json(more, il_cstr(o->ref));
    }

    if (o->detail != NULL) {
        il_buf_puts(more, ",\"detail\":");
        il_buf_json(more, il_cstr(o->detail));
    }

    if (o->response == NULL) {
        return 0;
    }

    memset(&text, 0, sizeof(text));
    rc = il_file_read(&text, o->response, IL_EFFECT_RESPONSE_MAX);

    if (rc == 0 && il_json_check(il_buf_str(&text)) != IL_JSON_OK) {
        il_err("%s is not JSON", o->response);
        rc = EX_DATAERR;
    }

    if (rc == 0) {
        il_buf_puts(more, ",\"response\":");
        il_buf_add(more, text.data, text.len);
    }

    il_buf_free(&text);

    return rc;
}


static int
il_effect_tell_main(void *opts, const il_args_t *args)
{
    int                rc;
    il_http_t          h;
    il_buf_t           more;
    const char        *word, *state;
    il_effect_opts_t  *o;

    o = opts;
    word = args->cmd->name + sizeof("effect ") - 1;
    state = strcmp(word, "confirm") == 0 ? "confirmed"
            : strcmp(word, "fail") == 0 ? "failed" : "unknown";

    if (o->send == NULL) {
        il_err("%s: --send is needed", args->cmd->name);
        return EX_USAGE;
    }

    memset(&more, 0, sizeof(more));
    rc = il_effect_more(&more, o);

    if (rc != 0) {
        il_buf_free(&more);
        return rc;
    }

    rc = il_effect_open(&h, &o->common, args->cmd->name);

    if (rc == 0) {
        rc = il_effect_tell(&h, &o->common, args->pos.v[0], o->send, state,
                            il_buf_str(&more));

        if (rc == 0) {
            il_call_print(&o->common, il_buf_str(&h.answer.body));
        }
    }

    il_http_close(&h);
    il_buf_free(&more);

    return il_out_done(rc);
}
