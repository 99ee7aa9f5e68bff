/*
 * server.h: what the parts of interlockd share: configuration, lanes, keys.
 * il_srv is filled by main() before any thread starts, read-only afterwards.
 */

#ifndef IL_SERVER_H
#define IL_SERVER_H

#include "conf.h"
#include "il_ticket.h"
#include "il_token.h"
#include "lane.h"
#include "seen.h"

typedef struct {
    il_conf_t        conf;

    il_lane_t        submit;
    il_lane_t        submit_slow;
    il_lane_t        claim;
    il_lane_t        lease;
    il_lane_t        finish;
    il_lane_t        begin;
    il_lane_t        outcome;
    il_lane_t        look;
    il_lane_t        read;
    il_lane_t        edge;
} il_server_t;

extern il_server_t  il_srv;

extern const il_lane_ops_t  il_submit_ops;
extern const il_lane_ops_t  il_claim_ops;
extern const il_lane_ops_t  il_lease_ops;
extern const il_lane_ops_t  il_finish_ops;
extern const il_lane_ops_t  il_begin_ops;
extern const il_lane_ops_t  il_outcome_ops;
extern const il_lane_ops_t  il_look_ops;
extern const il_lane_ops_t  il_edge_ops;

/* The token signing keys (keys.c); any thread may call these.  Reads them, at
 * the start and again: the lexically last *.seed signs.  0, or -1 with a
 * message, and those read before stay. */
int il_keys_load(const char *dir, char *err, size_t cap) IL_MUST_CHECK;

/* Reads them again from where the configuration says, and logs it. */
void il_keys_reload(void);

void il_keys_wipe(void);

/* il_owner_issue() and il_owner_verify() with these keys.  A token that was
 * signed here or was good before is only looked up (seen.h).  One signed by
 * a key that is not known here makes them be read again, if the directory has
 * changed or a second has passed: another host may have a new one already. */
int il_keys_issue(char *out, size_t cap, size_t *outlen,
    const il_owner_claims_t *claims) IL_MUST_CHECK;
int il_keys_verify(il_seen_t *who, il_str_t token, int64_t now)
    IL_MUST_CHECK;

/* The same for tickets. */
int il_keys_issue_ticket(char *out, size_t cap, size_t *outlen,
    const il_ticket_claims_t *claims) IL_MUST_CHECK;
int il_keys_verify_ticket(il_ticket_claims_t *claims, char *buf, size_t cap,
    il_str_t ticket, int64_t now) IL_MUST_CHECK;

/* Calls with key id and public key (PASERK) of each; the first one signs. */
void il_keys_each(void (*each)(void *ctx, size_t i, const char *kid,
    const char *paserk), void *ctx);

/* The sweeper (recover, prune, is the server still good), the scheduler (slots
 * that are due, gaps, alerts) and the poller (what became runnable
 * elsewhere).  0 or -1; stop waits for them. */
int il_sweep_start(void) IL_MUST_CHECK;
void il_sweep_stop(void);

#endif /* IL_SERVER_H */
