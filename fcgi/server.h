/*
 * server.h: what the parts of interlockd share: configuration, keys, lanes.
 * Filled by main() before any thread starts, read-only afterwards.
 */

#ifndef IL_SERVER_H
#define IL_SERVER_H

#include "conf.h"
#include "il_token.h"
#include "lane.h"

typedef struct {
    il_conf_t        conf;
    il_token_keys_t  keys;

    il_lane_t        submit;
    il_lane_t        submit_slow;
    il_lane_t        claim;
    il_lane_t        lease;
    il_lane_t        finish;
    il_lane_t        look;
    il_lane_t        read;
} il_server_t;

extern il_server_t  il_srv;

extern const il_lane_ops_t  il_submit_ops;
extern const il_lane_ops_t  il_claim_ops;
extern const il_lane_ops_t  il_lease_ops;
extern const il_lane_ops_t  il_finish_ops;
extern const il_lane_ops_t  il_look_ops;

/* Reads the token signing keys: the lexically last *.seed signs.  0, or -1
 * with a message. */
int il_keys_load(il_token_keys_t *keys, const char *dir, char *err,
    size_t cap) IL_MUST_CHECK;

/* The sweeper (recover, prune, is the server still good) and the poller
 * (what became runnable elsewhere).  0 or -1; stop waits for them. */
int il_sweep_start(void) IL_MUST_CHECK;
void il_sweep_stop(void);

#endif /* IL_SERVER_H */
