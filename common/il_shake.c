/*
 * il_shake.c: handshakes, by scheme.
 */

#include "il_enc.h"
#include "il_form.h"
#include "il_hash.h"
#include "il_json.h"
#include "il_mac.h"
#include "il_shake.h"


typedef il_shake_rc_e (*il_shake_get_pt)(const il_shake_conf_t *conf,
    const il_sig_conf_t *sig, il_str_t query, il_shake_answer_t *answer);
typedef il_shake_rc_e (*il_shake_post_pt)(const il_sig_conf_t *sig,
    il_str_t body, il_shake_answer_t *answer);

typedef struct {
    il_str_t          scheme;
    il_shake_get_pt   get;
    il_shake_post_pt  post;
    il_shake_taken_t  taken;          /* status 0: none of its own */
} il_shake_scheme_t;


static il_shake_rc_e il_shake_meta(const il_shake_conf_t *conf,
    const il_sig_conf_t *sig, il_str_t query, il_shake_answer_t *answer);
static il_shake_rc_e il_shake_x(const il_shake_conf_t *conf,
    const il_sig_conf_t *sig, il_str_t query, il_shake_answer_t *answer);
static il_shake_rc_e il_shake_slack(const il_sig_conf_t *sig, il_str_t body,
    il_shake_answer_t *answer);
static il_shake_rc_e il_shake_zoom(const il_sig_conf_t *sig, il_str_t body,
    il_shake_answer_t *answer);
static il_shake_rc_e il_shake_discord(const il_sig_conf_t *sig, il_str_t body,
    il_shake_answer_t *answer);


#define IL_SHAKE_OWN_NONE    { 0, 0, 0, NULL, { NULL, 0 } }
#define IL_SHAKE_OWN_200     { 200, 1, 0, NULL, { NULL, 0 } }

static const il_shake_scheme_t  il_shake_schemes[] = {
    { il_string("slack"), NULL, il_shake_slack,
      /* what an answer to a command or a button says is shown to people */
      { 200, 0, 1, NULL, { NULL, 0 } } },
    { il_string("meta"), il_shake_meta, NULL, IL_SHAKE_OWN_200 },
    { il_string("paddle"), NULL, NULL, IL_SHAKE_OWN_200 },
    { il_string("zoom"), NULL, il_shake_zoom, IL_SHAKE_OWN_NONE },
    { il_string("x"), il_shake_x, NULL, IL_SHAKE_OWN_NONE },
    { il_string("discord"), NULL, il_shake_discord,
      { 204, 0, 0, NULL, { NULL, 0 } } },
    { il_string("adyen"), NULL, NULL,
      { 200, 0, 0, "text/plain", il_string("[accepted]") } },
};


static const il_shake_scheme_t *
il_shake_find(const il_sig_scheme_t *scheme)
{
    size_t    i;
    il_str_t  name;

    name = il_sig_scheme_name(scheme);

    for (i = 0; i < sizeof(il_shake_schemes) / sizeof(il_shake_schemes[0]);
         i++)
    {
        if (il_str_eq(il_shake_schemes[i].scheme, name)) {
            return &il_shake_schemes[i];
        }
    }

    return NULL;
}


il_shake_arg_e
il_shake_arg(const il_sig_scheme_t *scheme, il_str_t name, const char **wrong)
{
    const il_shake_scheme_t  *s;

    *wrong = NULL;

    /* CloudEvents' handshake goes with any way to sign. */

    if (il_str_eq(name, il_cstr("allowed_origin"))) {
        return IL_SHAKE_ARG_ALLOWED_ORIGIN;
    }

    if (il_str_eq(name, il_cstr("allowed_rate"))) {
        return IL_SHAKE_ARG_ALLOWED_RATE;
    }

    if (!il_str_eq(name, il_cstr("verify_token"))) {
        return IL_SHAKE_ARG_NONE;
    }

    s = il_shake_find(scheme);

    if (s == NULL || s->get != il_shake_meta) {
        *wrong = "only scheme \"meta\" has it";
    }

    return IL_SHAKE_ARG_VERIFY_TOKEN;
}


/* A header's value as it may be sent: printable ASCII. */

static int
il_shake_printable(il_str_t s)
{
    size_t  i;

    for (i = 0; i < s.len; i++) {
        if (s.data[i] < 0x20 || s.data[i] > 0x7e) {
            return 0;
        }
    }

    return s.len != 0;
}


static const char *
il_shake_set_token(il_shake_conf_t *conf, il_str_t text)
{
    if (text.len != 0 && text.data[text.len - 1] == '\n') {
        text.len--;
    }

    if (text.len != 0 && text.data[text.len - 1] == '\r') {
        text.len--;
    }

    if (text.len > IL_SHAKE_TOKEN_MAX) {
        return "the token is longer than 512 bytes";
    }

    if (!il_shake_printable(text) || text.data[0] == ' '
        || text.data[text.len - 1] == ' ')
    {
        return "it must be one line of printable text, without white space "
               "around it";
    }

    conf->verify_token = text;

    return NULL;
}


const char *
il_shake_conf_set(il_shake_conf_t *conf, il_shake_arg_e arg, il_str_t value)
{
    size_t  i;

    switch (arg) {

    case IL_SHAKE_ARG_VERIFY_TOKEN:
        return il_shake_set_token(conf, value);

    case IL_SHAKE_ARG_ALLOWED_ORIGIN:
        if (!il_shake_printable(value)
            || memchr(value.data, ' ', value.len) != NULL)
        {
            return "it is \"*\", or host names with \",\" between them";
        }

        conf->allowed_origin = value;
        return NULL;

    case IL_SHAKE_ARG_ALLOWED_RATE:
        for (i = 0; i < value.len; i++) {
            if (value.data[i] < '0' || value.data[i] > '9') {
                break;
            }
        }

        if (value.len == 0 || value.len > 9 || i != value.len
            || value.data[0] == '0')
        {
            return "it is a number of requests a minute";
        }

        conf->allowed_rate = value;
        return NULL;

    case IL_SHAKE_ARG_NONE:
        break;
    }

    return "there is no such argument";
}


il_shake_rc_e
il_shake_get(const il_shake_conf_t *conf, const il_sig_conf_t *sig,
    il_str_t query, il_shake_answer_t *answer)
{
    const il_shake_scheme_t  *s;

    s = il_shake_find(sig->scheme);

    if (s == NULL || s->get == NULL || query.len > IL_SHAKE_BODY_MAX) {
        return IL_SHAKE_NONE;
    }

    return s->get(conf, sig, query, answer);
}


il_shake_rc_e
il_shake_post(const il_sig_conf_t *sig, il_str_t body,
    il_shake_answer_t *answer)
{
    const il_shake_scheme_t  *s;

    s = il_shake_find(sig->scheme);

    if (s == NULL || s->post == NULL || body.len == 0
        || body.len > IL_SHAKE_BODY_MAX)
    {
        return IL_SHAKE_NONE;
    }

    return s->post(sig, body, answer);
}


int
il_shake_taken(const il_sig_scheme_t *scheme, il_shake_taken_t *taken)
{
    const il_shake_scheme_t  *s;

    s = il_shake_find(scheme);

    if (s == NULL || s->taken.status == 0) {
        return 0;
    }

    *taken = s->taken;

    return 1;
}


/* Adds to the answer's body: 0, or -1 if there is no room. */

static int
il_shake_add(il_shake_answer_t *answer, il_str_t text)
{
    if (text.len > sizeof(answer->body) - answer->len) {
        return -1;
    }

    if (text.len != 0) {
        memcpy(answer->body + answer->len, text.data, text.len);
        answer->len += text.len;
    }

    return 0;
}


static il_shake_rc_e
il_shake_text(il_shake_answer_t *answer, int status, const char *type,
    il_str_t text)
{
    answer->status = status;
    answer->type = type;
    answer->len = 0;

    return il_shake_add(answer, text) == 0 ? IL_SHAKE_ANSWER
                                           : IL_SHAKE_REFUSED;
}


/* A query's parameter, decoded: IL_SHAKE_NONE if there is none. */

static il_shake_rc_e
il_shake_parameter(il_str_t query, const char *name, char *out, size_t cap,
    size_t *len)
{
    il_str_t  value;

    switch (il_form_find(query, il_cstr(name), &value)) {

    case IL_FORM_OK:
        return il_form_decode(value, out, cap, len) == 0 ? IL_SHAKE_ANSWER
                                                         : IL_SHAKE_REFUSED;

    case IL_FORM_MISSING:
        return IL_SHAKE_NONE;

    case IL_FORM_MALFORMED:
    case IL_FORM_TOO_MANY:
    case IL_FORM_DUPLICATE:
        break;
    }

    return IL_SHAKE_REFUSED;
}


/*
 * GET ?hub.mode=subscribe&hub.challenge=C&hub.verify_token=T.  The token is
 * compared by digests, so that not even its length shows.
 */

static il_shake_rc_e
il_shake_meta(const il_shake_conf_t *conf, const il_sig_conf_t *sig,
    il_str_t query, il_shake_answer_t *answer)
{
    char           mode[16], challenge[IL_SHAKE_TOKEN_MAX];
    char           token[IL_SHAKE_TOKEN_MAX];
    int            same;
    size_t         nmode, nchallenge, ntoken;
    uint8_t        given[32], known[32];
    il_shake_rc_e  rc;

    (void) sig;

    if (conf->verify_token.len == 0) {
        return IL_SHAKE_NONE;
    }

    rc = il_shake_parameter(query, "hub.mode", mode, sizeof(mode), &nmode);

    if (rc != IL_SHAKE_ANSWER) {
        return rc;
    }

    if (!il_str_eq(il_str(mode, nmode), il_cstr("subscribe"))
        || il_shake_parameter(query, "hub.challenge", challenge,
                              sizeof(challenge), &nchallenge)
           != IL_SHAKE_ANSWER
        || il_shake_parameter(query, "hub.verify_token", token, sizeof(token),
                              &ntoken)
           != IL_SHAKE_ANSWER
        || !il_shake_printable(il_str(challenge, nchallenge)))
    {
        return IL_SHAKE_REFUSED;
    }

    il_digest(given, il_str(token, ntoken));
    il_digest(known, conf->verify_token);

    same = sodium_memcmp(given, known, sizeof(known)) == 0;
    sodium_memzero(known, sizeof(known));

    if (!same) {
        return IL_SHAKE_REFUSED;
    }

    return il_shake_text(answer, 200, "text/plain",
                         il_str(challenge, nchallenge));
}


/*
 * What is signed for whoever asks must be no text that could be a delivery:
 * il_sig_x takes JSON objects only, and il_sig_zoom signs what has ":" in it.
 * Letters, digits and base64's other characters can be neither.
 */

static int
il_shake_token_valid(il_str_t s)
{
    char    c;
    size_t  i;

    for (i = 0; i < s.len; i++) {
        c = s.data[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
              || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '+'
              || c == '/' || c == '=' || c == '.'))
        {
            return 0;
        }
    }

    return s.len != 0 && s.len <= IL_SHAKE_TOKEN_MAX;
}


/* By the current secret, the first one of the file. */

static void
il_shake_sign(const il_sig_conf_t *sig, il_str_t text, uint8_t *out)
{
    il_mac_t  mac;

    il_mac_init(&mac, IL_SIG_SHA256, sig->secrets[0].data,
                sig->secrets[0].len);
    il_mac_update(&mac, text);
    il_mac_final(&mac, out);
}


/* GET ?crc_token=c: anybody may ask, the answer proves that we know the
 * secret.  A "+" that was not escaped is meant as one. */

static il_shake_rc_e
il_shake_x(const il_shake_conf_t *conf, const il_sig_conf_t *sig,
    il_str_t query, il_shake_answer_t *answer)
{
    char           token[IL_SHAKE_TOKEN_MAX];
    char           b64[il_b64_encoded_cap(IL_MAC_MAX)];
    size_t         i, n;
    uint8_t        mac[IL_MAC_MAX];
    il_shake_rc_e  rc;

    (void) conf;

    rc = il_shake_parameter(query, "crc_token", token, sizeof(token), &n);

    if (rc != IL_SHAKE_ANSWER) {
        return rc;
    }

    for (i = 0; i < n; i++) {
        if (token[i] == ' ') {
            token[i] = '+';
        }
    }

    if (!il_shake_token_valid(il_str(token, n)) || sig->nsecrets == 0) {
        return IL_SHAKE_REFUSED;
    }

    il_shake_sign(sig, il_str(token, n), mac);
    n = il_b64_encode(b64, sizeof(b64), mac, il_mac_len(IL_SIG_SHA256),
                      IL_B64_STD);

    answer->status = 200;
    answer->type = "application/json";
    answer->len = 0;

    if (il_shake_add(answer, il_cstr("{\"response_token\":\"sha256=")) != 0
        || il_shake_add(answer, il_str(b64, n)) != 0
        || il_shake_add(answer, il_cstr("\"}")) != 0)
    {
        return IL_SHAKE_REFUSED;
    }

    return IL_SHAKE_ANSWER;
}


/* A string of the body, unescaped: 0, or -1 if it is none or too long. */

static int
il_shake_member(il_str_t body, const char *pointer, char *out, size_t cap,
    size_t *len)
{
    il_json_value_t  value;

    if (il_json_find(body, il_cstr(pointer), &value) != IL_JSON_OK
        || value.type != IL_JSON_STRING)
    {
        return -1;
    }

    return il_json_unescape(value.raw, out, cap, len);
}


static int
il_shake_member_is(il_str_t body, const char *pointer, const char *text)
{
    char    value[64];
    size_t  n;

    return il_shake_member(body, pointer, value, sizeof(value), &n) == 0
           && il_str_eq(il_str(value, n), il_cstr(text));
}


/* {"type":"url_verification","challenge":X,...} */

static il_shake_rc_e
il_shake_slack(const il_sig_conf_t *sig, il_str_t body,
    il_shake_answer_t *answer)
{
    char    challenge[IL_SHAKE_TOKEN_MAX];
    size_t  n;

    (void) sig;

    /* Commands and interactivity are forms. */

    if (body.data[0] != '{'
        || !il_shake_member_is(body, "/type", "url_verification"))
    {
        return IL_SHAKE_NONE;
    }

    if (il_shake_member(body, "/challenge", challenge, sizeof(challenge), &n)
        != 0
        || !il_shake_printable(il_str(challenge, n)))
    {
        return IL_SHAKE_REFUSED;
    }

    return il_shake_text(answer, 200, "text/plain", il_str(challenge, n));
}


/* {"event":"endpoint.url_validation","payload":{"plainToken":p},...} */

static il_shake_rc_e
il_shake_zoom(const il_sig_conf_t *sig, il_str_t body,
    il_shake_answer_t *answer)
{
    char     token[IL_SHAKE_TOKEN_MAX], hex[2 * IL_MAC_MAX + 1];
    size_t   n;
    uint8_t  mac[IL_MAC_MAX];

    if (!il_shake_member_is(body, "/event", "endpoint.url_validation")) {
        return IL_SHAKE_NONE;
    }

    if (il_shake_member(body, "/payload/plainToken", token, sizeof(token), &n)
        != 0
        || !il_shake_token_valid(il_str(token, n)) || sig->nsecrets == 0)
    {
        return IL_SHAKE_REFUSED;
    }

    il_shake_sign(sig, il_str(token, n), mac);
    il_hex_encode(hex, mac, il_mac_len(IL_SIG_SHA256));

    answer->status = 200;
    answer->type = "application/json";
    answer->len = 0;

    if (il_shake_add(answer, il_cstr("{\"plainToken\":\"")) != 0
        || il_shake_add(answer, il_str(token, n)) != 0
        || il_shake_add(answer, il_cstr("\",\"encryptedToken\":\"")) != 0
        || il_shake_add(answer, il_cstr(hex)) != 0
        || il_shake_add(answer, il_cstr("\"}")) != 0)
    {
        return IL_SHAKE_REFUSED;
    }

    return IL_SHAKE_ANSWER;
}


/*
 * Two kinds of requests come to one address, and number their types
 * differently: a webhook's ping is 0 and its event is 1, an interaction's
 * ping is 1.  Events have a member "event".
 */

static il_shake_rc_e
il_shake_discord(const il_sig_conf_t *sig, il_str_t body,
    il_shake_answer_t *answer)
{
    il_json_value_t  type, event;

    (void) sig;

    if (il_json_find(body, il_cstr("/type"), &type) != IL_JSON_OK
        || type.type != IL_JSON_NUMBER)
    {
        return IL_SHAKE_NONE;
    }

    if (il_str_eq(type.raw, il_cstr("0"))) {
        return il_shake_text(answer, 204, NULL, il_str(NULL, 0));
    }

    if (il_str_eq(type.raw, il_cstr("1"))
        && il_json_find(body, il_cstr("/event"), &event) == IL_JSON_MISSING)
    {
        return il_shake_text(answer, 200, "application/json",
                             il_cstr("{\"type\":1}"));
    }

    return IL_SHAKE_NONE;
}


/* Host names, compared without case. */

static int
il_shake_same_name(il_str_t a, il_str_t b)
{
    char    x, y;
    size_t  i;

    if (a.len != b.len) {
        return 0;
    }

    for (i = 0; i < a.len; i++) {
        x = a.data[i];
        y = b.data[i];

        x = (char) (x >= 'A' && x <= 'Z' ? x | 0x20 : x);
        y = (char) (y >= 'A' && y <= 'Z' ? y | 0x20 : y);

        if (x != y) {
            return 0;
        }
    }

    return 1;
}


il_shake_rc_e
il_shake_options(const il_shake_conf_t *conf, il_str_t origin, il_str_t rate,
    il_str_t *allowed, il_str_t *granted)
{
    size_t    i, start;
    il_str_t  name;

    if (conf->allowed_origin.len == 0 || origin.len == 0) {
        return IL_SHAKE_NONE;
    }

    /* A rate is to be told if one was asked for. */

    *granted = conf->allowed_rate;

    if (granted->len == 0 && rate.len != 0) {
        *granted = il_cstr("*");
    }

    if (il_str_eq(conf->allowed_origin, il_cstr("*"))) {
        *allowed = conf->allowed_origin;
        return IL_SHAKE_ANSWER;
    }

    start = 0;

    for (i = 0; i <= conf->allowed_origin.len; i++) {

        if (i < conf->allowed_origin.len
            && conf->allowed_origin.data[i] != ',')
        {
            continue;
        }

        name = il_str(conf->allowed_origin.data + start, i - start);
        start = i + 1;

        if (il_shake_same_name(name, origin)) {
            *allowed = name;
            return IL_SHAKE_ANSWER;
        }
    }

    return IL_SHAKE_REFUSED;
}
