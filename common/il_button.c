/*
 * il_button.c: what a web page sends when a button is pressed.
 */

#include <strings.h>

#include "il_accept.h"
#include "il_button.h"
#include "il_form.h"


/* Where decoded fields go. */

typedef struct {
    il_sig_header_pt   header;
    void              *ctx;
    il_str_t           form;        /* data NULL: it is none */
    char              *buf;
    size_t             cap;
} il_button_in_t;

typedef enum {
    IL_BUTTON_NONE = 0,
    IL_BUTTON_ONE,
    IL_BUTTON_BAD                   /* twice, or it cannot be read */
} il_button_rc_e;


static int
il_button_form(const il_button_in_t *in)
{
    size_t    i, n;
    il_str_t  type;

    static const char  form[] = "application/x-www-form-urlencoded";

    type = il_str_trim(in->header(in->ctx, "content-type", &n));

    if (n != 1) {
        return 0;
    }

    for (i = 0; i < type.len && type.data[i] != ';'; i++) { /* void */ }

    type = il_str_trim(il_str(type.data, i));

    return type.len == sizeof(form) - 1
           && strncasecmp(type.data, form, type.len) == 0;
}


/* The header, or else the field; a header that is empty is none. */

static il_button_rc_e
il_button_value(il_button_in_t *in, const char *header, const char *field,
    il_str_t *value)
{
    size_t    n;
    il_str_t  raw;

    *value = il_str_trim(in->header(in->ctx, header, &n));

    if (n > 1) {
        return IL_BUTTON_BAD;
    }

    if (n == 1 && value->len != 0) {
        return IL_BUTTON_ONE;
    }

    *value = il_str(NULL, 0);

    if (in->form.data == NULL) {
        return IL_BUTTON_NONE;
    }

    switch (il_form_find(in->form, il_cstr(field), &raw)) {

    case IL_FORM_OK:
        break;

    case IL_FORM_MISSING:
        return IL_BUTTON_NONE;

    default:
        return IL_BUTTON_BAD;
    }

    if (raw.len == 0) {
        return IL_BUTTON_NONE;
    }

    if (il_form_decode(raw, in->buf, in->cap, &n) != 0) {
        return IL_BUTTON_BAD;
    }

    *value = il_str(in->buf, n);
    in->buf += n;
    in->cap -= n;

    return IL_BUTTON_ONE;
}


/* 0, or -1. */

static int
il_button_flag(il_str_t value, int *flag)
{
    size_t  i;

    static const struct {
        il_str_t  text;
        int       flag;
    } words[] = {
        { il_string("true"), 1 },
        { il_string("1"), 1 },
        { il_string("on"), 1 },
        { il_string("yes"), 1 },
        { il_string("false"), 0 },
        { il_string("0"), 0 },
        { il_string("off"), 0 },
        { il_string("no"), 0 },
        { il_string("?1"), 1 },         /* RFC 8941, section 3.3.6 */
        { il_string("?0"), 0 }
    };

    for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (il_str_eq(value, words[i].text)) {
            *flag = words[i].flag;
            return 0;
        }
    }

    return -1;
}


static void
il_button_wrong(il_button_t *b, il_problem_e p, const char *detail)
{
    if (b->problem == IL_P_NONE) {
        b->problem = p;
        b->detail = detail;
    }
}


void
il_button_read(il_button_t *b, il_sig_header_pt header, void *ctx,
    il_str_t body, char *buf, size_t cap)
{
    size_t          n;
    il_str_t        value;
    il_button_in_t  in;

    memset(b, 0, sizeof(*b));

    in.header = header;
    in.ctx = ctx;
    in.buf = buf;
    in.cap = cap;
    in.form = il_str(NULL, 0);

    if (body.len > IL_BUTTON_BODY_MAX) {
        il_button_wrong(b, IL_P_BODY_TOO_LARGE,
                        "The body is longer than a press of a button needs.");

    } else if (il_button_form(&in)) {
        in.form = body.len == 0 ? il_str("", 0) : body;

        value = header(ctx, "accept", &n);
        b->page = (n == 1
                   && il_accept_prefers(value, "text/html",
                                        "application/json"));
    }

    if (il_button_value(&in, "interlock-ticket", "ticket", &value)
        == IL_BUTTON_ONE)
    {
        b->ticket = value;
    }

    switch (il_button_value(&in, "idempotency-key", "idempotency_key",
                            &value))
    {
    case IL_BUTTON_ONE:
        b->key = value;
        break;

    case IL_BUTTON_BAD:
        il_button_wrong(b, IL_P_IDEMPOTENCY_KEY_INVALID,
                        "The idempotency key is there twice, or its form "
                        "cannot be read.");
        break;

    default: /* IL_BUTTON_NONE */
        break;
    }

    switch (il_button_value(&in, "interlock-fresh", "fresh", &value)) {

    case IL_BUTTON_ONE:
        if (il_button_flag(value, &b->fresh) == 0) {
            break;
        }

        /* fall through */

    case IL_BUTTON_BAD:
        il_button_wrong(b, IL_P_FIELD_INVALID,
                        "\"fresh\" must be true or false, and be there once.");
        break;

    default: /* IL_BUTTON_NONE */
        break;
    }
}


void
il_button_fp(uint8_t fp[IL_FP_BYTES], il_str_t kind, il_str_t work_key,
    il_str_t user, int fresh)
{
    il_fp_t  state;

    /* neither work keys nor users have a NUL in them */

    il_fp_init(&state, il_cstr("POST"), il_cstr("button"), kind);
    il_fp_update(&state, work_key.data, work_key.len);
    il_fp_update(&state, "", 1);
    il_fp_update(&state, user.data, user.len);
    il_fp_update(&state, fresh ? "\0001" : "\0000", 2);
    il_fp_final(&state, fp);
}
