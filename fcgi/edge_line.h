/*
 * edge_line.h: one line about a request that the edge answered alone.
 */

#ifndef IL_EDGE_LINE_H
#define IL_EDGE_LINE_H

#include "il_answer.h"
#include "il_hash.h"
#include "il_key.h"
#include "lane.h"

#define IL_EDGE_ZONE_BYTES  16
#define IL_EDGE_LINE_MAX    16384      /* bytes of one line */
#define IL_EDGE_GRAM_MAX    32768      /* and of a datagram of them, as the
                                          edge makes it */

/* A record; its texts lie behind it, in one allocation with it. */
typedef struct {
    il_item_t      item;                /* first */
    uint8_t        zone[IL_EDGE_ZONE_BYTES];
    int64_t        seq;                 /* from 1 */
    int            told;                /* only says how far the zone is:
                                           nothing of the below is set */
    uint8_t        id[IL_UUID_BYTES];   /* of the request's row */
    int64_t        at;                  /* unix ms, by the edge's clock */
    il_decision_e  decision;            /* duplicate or skipped */
    int            code;                /* of the answer, as all below */
    il_answer_t    answer;
    uint8_t        fp[IL_FP_BYTES];
    int            has_fp;              /* else it is the first request's */
    il_str_t       tenant;
    il_str_t       source;
    il_str_t       kind;
    il_str_t       work_key;
    il_str_t       idem;                /* data NULL: skipped, with none */
} il_edge_record_t;

/*
 * The next line of a datagram, which has at least one; there is another one
 * behind it if *datagram is not empty then.
 */
il_str_t il_edge_next(il_str_t *datagram);

/*
 * Reads a line: perhaps a syslog header (RFC 3164, as nginx writes it), then a
 * JSON object of strings, the format interlock_audit of ngx_module/interlock_
 * audit; a duplicate's fingerprint may be empty.  All of it is checked as if a
 * stranger had sent it.  A record to be freed with free(), or NULL: not such a
 * line, or out of memory.
 */
il_edge_record_t *il_edge_parse(il_str_t line) IL_MUST_CHECK;

/* A record that only says how far a zone is; as above. */
il_edge_record_t *il_edge_told(const uint8_t zone[IL_EDGE_ZONE_BYTES],
    int64_t seq) IL_MUST_CHECK;

#endif /* IL_EDGE_LINE_H */
