/*
 * doctor_kind.c: what nobody has decided yet about a kind.
 *
 * A field at its default may be meant so, but nobody said it: it is shown
 * with what it means, to be looked at.
 */

#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "http.h"
#include "il_answer.h"
#include "il_json.h"
#include "il_key.h"

#define IL_DOCTOR_TIMEOUT  10000    /* ms */
#define IL_DOCTOR_SHOWN    120      /* bytes of a value */


typedef struct {
    const char  *check;
    const char  *field;
    const char  *dflt;              /* NULL: null is what is undecided */
    const char  *advice;
} il_doctor_rule_t;


static const il_doctor_rule_t  il_doctor_rules[] = {
    { "key", "key_template", NULL,
      "say how its work keys are built, like org:{org}:report:{date}; a key"
      " that is not so is then refused" },

    { "policy", "overlap", "skip",
      "what a request gets while its work key is active: allow, skip,"
      " buffer_one, buffer_first, buffer_all, replace" },
    { "policy", "when_completed", "run",
      "what it gets when the work is done: run again, or return the result" },
    { "policy", "protects", NULL,
      "write down what goes wrong if two of one key run at once" },
    { "policy", "examples", NULL,
      "write down which requests conflict and which run side by side;"
      " POST /v1/kinds/NAME/explain tells what each would get" },

    { "bounds", "max_waiting", "1000", "how many may wait for one work key" },
    { "bounds", "max_queued", "100000", "how many may wait in all" },
    { "bounds", "max_wait", "86400",
      "seconds until a job that was not started is of no use any more" },

    { "lease", "lease_seconds", "30",
      "seconds that a worker may be silent before its job is taken away" },
    { "lease", "max_runtime", "21600",
      "seconds after which a run is ended though its worker renews" },

    { "cancel", "cancel_grace", "30",
      "seconds that a worker has to yield when it is asked to end" },

    { "recovery", "max_attempts", "5", "how often it is tried" },
    { "recovery", "retry_for", "86400",
      "seconds after which it is not tried again" },
    { "recovery", "on_lost", "retry",
      "what happens when a worker is lost in the middle" },

    { "check", "result_check", NULL,
      "name a look-up that finds whether lost work was done after all" },

    { NULL, NULL, NULL, NULL }
};


/* The value of a field as text, or NULL for null or none; a new string. */
static char *
il_doctor_value(il_str_t doc, const char *field)
{
    char              pointer[64], *text;
    il_json_value_t   v;

    (void) snprintf(pointer, sizeof(pointer), "/%s", field);

    if (il_json_find(doc, il_cstr(pointer), &v) != IL_JSON_OK
        || v.type == IL_JSON_NULL)
    {
        return NULL;
    }

    text = il_json_text(doc, pointer);

    return text != NULL ? text : il_xstrndup(v.raw.data, v.raw.len);
}


static void
il_doctor_rule(il_doctor_t *d, const il_doctor_rule_t *rule, il_str_t doc)
{
    char  *value;

    value = il_doctor_value(doc, rule->field);

    if (value == NULL) {
        il_doctor_say(d, IL_DOCTOR_WARN, rule->check, rule->advice,
                      "%s is not set", rule->field);
        return;
    }

    if (rule->dflt != NULL && strcmp(value, rule->dflt) == 0) {
        il_doctor_say(d, IL_DOCTOR_WARN, rule->check, rule->advice,
                      "%s is %s, as for any kind", rule->field, value);

    } else {
        il_doctor_say(d, IL_DOCTOR_OK, rule->check, NULL, "%s is %.*s",
                      rule->field, IL_DOCTOR_SHOWN, value);
    }

    free(value);
}


/* A limit that a kind names and nobody made holds nothing back. */
static void
il_doctor_limit(il_doctor_t *d, il_http_t *h, const char *name)
{
    char       path[1024], *text;
    char       enc[3 * 255];
    int        rc;
    size_t     len;

    len = il_path_encode(enc, sizeof(enc), il_cstr(name));
    (void) snprintf(path, sizeof(path), "/v1/limits/%.*s", (int) len, enc);

    rc = il_http_call(h, "GET", path, il_str("", 0), IL_DOCTOR_TIMEOUT);

    if (rc == 0 && h->answer.status == 200) {
        text = il_json_text(il_buf_str(&h->answer.body), "/capacity");
        il_doctor_say(d, IL_DOCTOR_OK, "limits", NULL, "%s has capacity %s",
                      name, text == NULL ? "?" : text);
        free(text);

    } else if (rc == 0 && h->answer.status == 404) {
        il_doctor_say(d, IL_DOCTOR_WARN, "limits",
                      "nothing holds it back: interlock limit put",
                      "%s is named, but there is no such limit", name);

    } else {
        text = il_http_explain(&h->answer);
        il_doctor_say(d, IL_DOCTOR_FAIL, "limits", NULL, "%s: %s", name,
                      text);
        free(text);
    }
}


static void
il_doctor_limits(il_doctor_t *d, il_http_t *h, il_str_t doc)
{
    char            *name;
    size_t           pos;
    il_str_t         unused;
    il_json_value_t  limits, v;

    if (il_json_find(doc, il_cstr("/limits"), &limits) != IL_JSON_OK
        || limits.type != IL_JSON_ARRAY)
    {
        return;
    }

    pos = 0;

    while (il_json_next(limits, &pos, &unused, &v)) {
        name = il_json_text(v.raw, "");

        if (name != NULL) {
            il_doctor_limit(d, h, name);
            free(name);
        }
    }
}


int
il_doctor_kind(il_doctor_t *d, const il_common_t *c, const char *kind)
{
    int                      rc;
    char                     path[sizeof("/v1/kinds/") + IL_NAME_MAX];
    il_buf_t                 doc;
    il_http_t                h;
    const il_doctor_rule_t  *rule;

    if (!il_name_valid(il_cstr(kind))) {
        il_err("not a name of a kind: %s", kind);
        return EX_USAGE;
    }

    (void) snprintf(path, sizeof(path), "/v1/kinds/%s", kind);
    memset(&doc, 0, sizeof(doc));

    rc = il_http_open(&h, c, 1);

    if (rc == 0) {
        rc = il_http_call(&h, "GET", path, il_str("", 0), IL_DOCTOR_TIMEOUT);
        rc = il_http_check(&h, rc, c->json);
    }

    if (rc == 0) {
        il_buf_add(&doc, h.answer.body.data, h.answer.body.len);

        for (rule = il_doctor_rules; rule->check != NULL; rule++) {
            il_doctor_rule(d, rule, il_buf_str(&doc));
        }

        il_doctor_limits(d, &h, il_buf_str(&doc));
    }

    il_http_close(&h);
    il_buf_free(&doc);

    return rc;
}
