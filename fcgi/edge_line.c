/*
 * edge_line.c: one line about a request that the edge answered alone.
 */

#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "edge_line.h"
#include "il_enc.h"
#include "il_json.h"
#include "il_time.h"


typedef enum {
    IL_EDGE_ZONE = 0,
    IL_EDGE_SEQ,
    IL_EDGE_AT,
    IL_EDGE_TENANT,
    IL_EDGE_SOURCE,
    IL_EDGE_KIND,
    IL_EDGE_WORK_KEY,
    IL_EDGE_KEY,
    IL_EDGE_FINGERPRINT,
    IL_EDGE_DECISION,
    IL_EDGE_ANSWER,
    IL_EDGE_FIELDS
} il_edge_field_e;


/* as they stand in the line, with their quotes */

static const char *const  il_edge_fields[IL_EDGE_FIELDS] = {
    "\"zone\"", "\"seq\"", "\"at\"", "\"tenant\"", "\"source\"", "\"kind\"",
    "\"work_key\"", "\"key\"", "\"fingerprint\"", "\"decision\"",
    "\"answer\""
};


/* Takes every field out, unescaped, into texts; fields that are not known are
 * passed over.  0, or -1: one is missing, there twice, or no string. */

static int
il_edge_take(il_str_t text, char *texts, size_t cap, il_str_t *fields)
{
    size_t           i, len, pos, used;
    il_str_t         name;
    il_json_value_t  object, value;

    if (il_json_find(text, il_str("", 0), &object) != IL_JSON_OK
        || object.type != IL_JSON_OBJECT)
    {
        return -1;
    }

    memset(fields, 0, IL_EDGE_FIELDS * sizeof(il_str_t));

    pos = 0;
    used = 0;

    while (il_json_next(object, &pos, &name, &value)) {

        for (i = 0; i < IL_EDGE_FIELDS; i++) {
            if (il_str_eq(name, il_cstr(il_edge_fields[i]))) {
                break;
            }
        }

        if (i == IL_EDGE_FIELDS) {
            continue;
        }

        if (fields[i].data != NULL || value.type != IL_JSON_STRING
            || il_json_unescape(value.raw, texts + used, cap - used, &len)
               != 0)
        {
            return -1;
        }

        fields[i] = il_str(texts + used, len);
        used += len;
    }

    for (i = 0; i < IL_EDGE_FIELDS; i++) {
        if (fields[i].data == NULL) {
            return -1;
        }
    }

    return 0;
}


/* nginx's $msec: seconds with three digits behind the point */

static int
il_edge_time(il_str_t s, int64_t *ms)
{
    int64_t      seconds, part;
    const char  *p;

    p = s.len == 0 ? NULL : memchr(s.data, '.', s.len);

    if (p == NULL || s.len - (size_t) (p - s.data) != 4
        || il_digits_parse(il_str(s.data, (size_t) (p - s.data)), 12,
                           &seconds) != 0
        || il_digits_parse(il_str(p + 1, 3), 3, &part) != 0)
    {
        return -1;
    }

    *ms = seconds * 1000 + part;

    return 0;
}


/* The id of the row comes from zone and number, so that a line that is
 * recorded twice is one row; as a UUID of version 7 it sorts by time. */

static void
il_edge_id(il_edge_record_t *rec)
{
    size_t                    i;
    uint8_t                   seq[8];
    crypto_generichash_state  st;

    for (i = 0; i < 8; i++) {
        seq[i] = (uint8_t) ((uint64_t) rec->seq >> (8 * i));
    }

    (void) crypto_generichash_init(&st, NULL, 0, IL_UUID_BYTES);
    (void) crypto_generichash_update(&st, rec->zone, sizeof(rec->zone));
    (void) crypto_generichash_update(&st, seq, sizeof(seq));
    (void) crypto_generichash_final(&st, rec->id, IL_UUID_BYTES);

    for (i = 0; i < 6; i++) {
        rec->id[i] = (uint8_t) ((uint64_t) rec->at >> (40 - 8 * i));
    }

    rec->id[6] = (uint8_t) (0x70 | (rec->id[6] & 0x0f));
    rec->id[8] = (uint8_t) (0x80 | (rec->id[8] & 0x3f));
}


static int
il_edge_numbers(il_edge_record_t *rec, const il_str_t *fields)
{
    return il_hex_decode(rec->zone, sizeof(rec->zone), fields[IL_EDGE_ZONE])
           == 0
           && il_digits_parse(fields[IL_EDGE_SEQ], 18, &rec->seq) == 0
           && rec->seq > 0
           && il_edge_time(fields[IL_EDGE_AT], &rec->at) == 0 ? 0 : -1;
}


static int
il_edge_fp(il_edge_record_t *rec, const il_str_t *fields)
{
    if (fields[IL_EDGE_FINGERPRINT].len == 0) {
        return rec->decision == IL_D_DUPLICATE ? 0 : -1;
    }

    rec->has_fp = 1;

    return il_hex_decode(rec->fp, sizeof(rec->fp),
                         fields[IL_EDGE_FINGERPRINT]);
}


/* What a request's row may hold: the same that is checked of a request that
 * comes to the backend itself. */

static int
il_edge_names(il_edge_record_t *rec, const il_str_t *fields)
{
    rec->tenant = fields[IL_EDGE_TENANT];
    rec->source = fields[IL_EDGE_SOURCE];
    rec->kind = fields[IL_EDGE_KIND];
    rec->work_key = fields[IL_EDGE_WORK_KEY];
    rec->idem = fields[IL_EDGE_KEY];

    if (rec->idem.len == 0) {
        rec->idem.data = NULL;
    }

    return il_name_valid(rec->tenant) && il_name_valid(rec->source)
           && il_name_valid(rec->kind)
           && il_key_check(rec->work_key) == IL_KEY_OK
           && rec->idem.len <= IL_IDEM_MAX
           && il_utf8_valid(rec->idem) && !il_has_control(rec->idem)
           ? 0 : -1;
}


static int
il_edge_answer(il_edge_record_t *rec, const il_str_t *fields)
{
    rec->decision = il_decision_find(fields[IL_EDGE_DECISION]);

    if (il_answer_parse(fields[IL_EDGE_ANSWER], &rec->answer, &rec->code) != 0
        || rec->code < 200 || rec->code > 299)
    {
        return -1;
    }

    switch (rec->decision) {

    case IL_D_DUPLICATE:
        return rec->idem.data != NULL ? 0 : -1;

    case IL_D_SKIPPED:
        return rec->answer.decision == IL_D_SKIPPED
               && (rec->answer.has & IL_ANSWER_HAS_JOB) ? 0 : -1;

    default:
        return -1;
    }
}


il_str_t
il_edge_next(il_str_t *datagram)
{
    il_str_t     line;
    const char  *p;

    line = *datagram;

    p = line.len == 0 ? NULL : memchr(line.data, '\n', line.len);

    if (p == NULL) {
        *datagram = il_str(NULL, 0);
        return line;
    }

    line.len = (size_t) (p - line.data);
    *datagram = il_str(p + 1, datagram->len - line.len - 1);

    return line;
}


il_edge_record_t *
il_edge_parse(il_str_t line)
{
    il_str_t           fields[IL_EDGE_FIELDS], text;
    const char        *p;
    il_edge_record_t  *rec;

    if (line.len == 0 || line.len > IL_EDGE_LINE_MAX) {
        return NULL;
    }

    /* no header has a brace: neither a time, nor a host's name, nor a tag */

    p = memchr(line.data, '{', line.len);
    if (p == NULL) {
        return NULL;
    }

    text = il_str(p, line.len - (size_t) (p - line.data));

    rec = calloc(1, sizeof(il_edge_record_t) + text.len);
    if (rec == NULL) {
        return NULL;
    }

    rec->item.bytes = sizeof(il_edge_record_t) + text.len;

    if (il_edge_take(text, (char *) (rec + 1), text.len, fields) != 0
        || il_edge_numbers(rec, fields) != 0
        || il_edge_names(rec, fields) != 0
        || il_edge_answer(rec, fields) != 0
        || il_edge_fp(rec, fields) != 0)
    {
        free(rec);
        return NULL;
    }

    il_edge_id(rec);

    return rec;
}


il_edge_record_t *
il_edge_told(const uint8_t zone[IL_EDGE_ZONE_BYTES], int64_t seq)
{
    il_edge_record_t  *rec;

    rec = calloc(1, sizeof(il_edge_record_t));
    if (rec == NULL) {
        return NULL;
    }

    rec->item.bytes = sizeof(il_edge_record_t);
    rec->told = 1;
    rec->seq = seq;
    memcpy(rec->zone, zone, sizeof(rec->zone));

    return rec;
}
