/*
 * Knobs, the rows of the database, the world outside, and what must hold.
 * Included by interlock.pml.
 */

#ifndef MAXATT
#define MAXATT   2          /* max_attempts */
#endif
#ifndef LEASE
#define LEASE    1          /* ticks of the clock in a lease */
#endif
#ifndef RUNTIME
#define RUNTIME  LEASE      /* ticks in max_runtime */
#endif
#ifndef WORKERS
#define WORKERS  2
#endif
#ifndef CRASHES
#define CRASHES  1          /* workers killed, or started again, at most */
#endif
#ifndef LOST
#define LOST     1          /* answers lost on their way, at most */
#endif
#ifndef CANCELS
#define CANCELS  0          /* cancel calls */
#endif
#ifndef REPLACES
#define REPLACES 0          /* 1: a later submission under overlap replace */
#endif
#ifndef DECIDES
#define DECIDES  0          /* decide calls of a human */
#endif
#ifndef RELEASES
#define RELEASES 0          /* releases, counted for no attempt */
#endif
#ifndef ON_LOST
#define ON_LOST  retry      /* retry, check, hold, or any: spin's choice */
#endif
#ifndef EFFECT
#define EFFECT   1          /* 0: leases alone */
#endif
#ifndef KEYS
#define KEYS     0          /* the provider honours idempotency keys */
#endif
#ifndef WINDOW
#define WINDOW   0          /* 1: and forgets them after a while */
#endif
#ifndef LOOK
#define LOOK     0          /* 0 none, 1 a look-up, 2 an authoritative one */
#endif
#ifndef LATE
#define LATE     0          /* 1: a request may leave after its deadline, 2:
                               and those who settle do not wait for it */
#endif
#ifndef TRUTHFUL
#define TRUTHFUL 1          /* 0: a human may say what is not so */
#endif
#ifndef ROUNDS
#define ROUNDS   2
#endif
#ifndef IDS
#define IDS      5          /* acquisitions, at most, in the model */
#endif

/* job states; how an attempt ends (lost has both meanings); effect states */
mtype = { queued, running, checking, held, succeeded, failed, canceled,
          superseded };
mtype = { live, complete, fail, permanent, release, unclaim, lost };
mtype = { none, intended, confirmed, refused, unknown, needs_human };
mtype = { retry, check, hold, any };


/* ---- the database ---- */

mtype status = queued;      /* jobs.status */
byte  attempts;             /* jobs.attempts */
byte  allowed = MAXATT;     /* attempts until the job fails */
bool  ending;               /* leases.cancel_requested: cancel or replace */
bool  replaced;             /* jobs.revoked_by */
bool  waiting;              /* the job that replaces it stands blocked */
bool  result_check;         /* checking: for the kind's result_check */
mtype on_lost = ON_LOST;

byte  fence;                /* works.fence */
byte  l_id;                 /* leases.attempt_id, 0: no lease */
byte  l_fence;              /* leases.fence */
byte  l_who;                /* the worker that asked */
bool  l_unheard;            /* its claim has not been answered yet */
byte  l_left;               /* ticks until expires_at */
byte  l_run;                /* ticks until runtime_end */
mtype ended[IDS + 1];       /* attempts.call, while its token is held */

#if EFFECT
mtype eff = none;           /* effects.state */
byte  round;                /* its round */
byte  send_id;              /* the attempt that holds the newest send */
byte  send_who;
byte  sends;                /* sends of this round, 2 for more */
bool  window_over;          /* first_sent + window - deadline has passed */
#if LOOK
bool  looking;              /* a look-up is under way, ... */
bool  moved;                /* ... and the sequence number moved since */
#define MOVED moved = looking
#else
#define MOVED skip
#endif
#endif


/* ---- the world outside ---- */

#if EFFECT
chan  net = [2] of { byte, byte, byte, byte };  /* key, round, who, attempt */
byte  executed;             /* how often the effect happened */
bool  did[ROUNDS + 1];      /* by a request of this round */
bool  no[ROUNDS + 1];       /* this round was declared a definite no */
byte  memory[IDS + 1];      /* provider, by key: 0, 1 done, 2 refused */
bool  armed[2];             /* a worker may write, its deadline is ahead */
byte  await[2];             /* the attempt whose answer a worker waits for */
byte  answer[2];            /* 0, 1 done, 2 refused */

/* what settle_after stands for: no request is on its way any more */
#define QUIET (!armed[0] && !armed[1] && empty(net))
#endif


/* ---- what must hold ---- */

/* Each is named by a variable that is never true, so that spin's message
 * says which one it was. */
bool STALE_WRITE;           /* a write of an attempt that is not the live one */
bool FENCE_REUSED;          /* a fence given before, or below an earlier one */
bool SECOND_RESULT;         /* two results of one job */
bool PAST_END;              /* renew or begin after the lease's end */
bool LIVE_RECOVERED;        /* recovery ended a lease before its end */
bool AFTER_CANCEL;          /* complete, progress or begin after cancel */
bool REPEAT_REFUSED;        /* a repeated call did not get its first answer */
bool REPLACED_LATE;         /* replaced although its effect had begun */
bool PROMOTED_EARLY;        /* the next job runs before the effect is settled */
bool EXECUTED_TWICE;        /* the effect happened twice */
bool CONFIRMED_NOT_DONE;    /* confirmed, but it never happened */
bool FAILED_BUT_DONE;       /* a definite no of a round that happened */
bool SILENT_OPEN;           /* a send of an ended attempt still intended */
bool LEFT_OPEN;             /* nothing can happen any more, and yet not at rest */

#ifdef LIVENESS
#define MUST(bug, cond) skip
#else
#define MUST(bug, cond) bug = !(cond); assert(!bug)
#endif

byte newest;                /* the newest fence given */
byte ids;                   /* acquisitions so far */
byte results;               /* accepted results of this job */
byte crashes = CRASHES, losses = LOST, releases = RELEASES;

#define FINAL   (status == succeeded || status == failed \
                 || status == canceled || status == superseded)

#if EFFECT
#define OPEN    (eff == intended || eff == unknown || eff == needs_human)
#define BEGUN   (eff != none && eff != refused)
#define NO_OPEN_SEND (eff != intended || (l_id != 0 && send_id == l_id))
/* its own retry may repeat it: under the same key, inside the window */
#define REPEATABLE (KEYS && eff == unknown && !window_over)
#else
#define OPEN    false
#define BEGUN   false
#define NO_OPEN_SEND true
#define REPEATABLE false
#endif

/* G7: ended, or waits for a human; nothing open that nobody sees to */
#if EFFECT
#define REST ((FINAL || status == held \
               || (status == checking && eff == needs_human)) \
              && eff != intended && eff != unknown)
#else
#define REST (FINAL || status == held)
#endif


/* ---- BROKEN VARIANTS that are a judgement left out ---- */

#ifdef NO_FENCE
#define OWNER   (status == running)
#else
#define OWNER   (status == running && l_id == my && l_fence == my_fence)
#endif

#ifdef COMPLETE_AFTER_RECOVERY
#define MAY_COMPLETE ((OWNER && !ending) \
                      || (status == queued && ended[my] == lost))
#elif defined(COMPLETE_AFTER_CANCEL)
#define MAY_COMPLETE OWNER
#else
#define MAY_COMPLETE (OWNER && !ending)
#endif

#ifdef NO_ATTEMPT_CAP
#define CAP     255
#else
#define CAP     allowed
#endif

#ifdef BEGIN_AFTER_CANCEL
#define MAY_BEGIN (OWNER && l_left > 0)
#else
#define MAY_BEGIN (OWNER && !ending && l_left > 0)
#endif
