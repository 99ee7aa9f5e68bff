/*
 * One work key, its jobs, leases and fence, and one effect of it.  README.md
 * says what each step stands for, what is left out, and how to read a trail.
 *
 * A function of sql/ is one atomic step: its transaction locks first, judges
 * in a later statement and writes before it lets go.  Between two steps of a
 * process anything may happen, so a pause of any length needs no code.
 *
 * Knobs (-D): how large the model is, and what the provider can.  Names in
 * capitals under BROKEN VARIANTS leave out one rule each; spin must find what
 * that does.
 *
 * An "if" is never the first statement of an option: spin would merge its
 * options with those outside, and an "else" in it would never be taken.
 */

#include "state.pml"
#include "functions.pml"


/* ---- workers ---- */

#define FORGET  ended[my] = 0; my = 0; my_fence = 0; call = 0

/* finish, by the owner of my; the answer may be lost */
inline finish()
{
    MUST(STALE_WRITE, my == l_id);
    attempt_end(call);
    if
    :: losses > 0 -> losses--
    :: true -> FORGET
    fi
}

proctype worker(byte me)
{
    byte  my, my_fence;     /* the owner token: attempt and fence */
    mtype call;             /* the call whose answer was lost */
#if EFFECT
    byte  my_round;         /* the send that it holds */
    byte  said;             /* what the provider answered */
#endif

end_idle:
    if
    :: atomic { status == queued && ids < IDS ->
        grant();
        my = l_id;
        my_fence = l_fence;
        ended[my] = live }
    :: atomic { losses > 0 && status == queued && ids < IDS ->
        losses--;
        grant();
        l_unheard = true }
        goto end_idle
    :: atomic { l_unheard && l_who == me ->     /* asks again, same claim_id */
        l_unheard = false;
        my = l_id;
        my_fence = l_fence;
        ended[my] = live }
    fi;

working:
    if
    :: atomic { crashes > 0 -> crashes--; FORGET }
        goto end_idle

    /* renew, progress */
#ifdef EXPIRY_BEFORE_LOCK
    :: OWNER && l_left > 0 ->
        if
        :: atomic { OWNER ->
            MUST(PAST_END, l_left > 0);
            l_left = LEASE }
        :: !OWNER
        fi;
        goto working
#endif
#if LEASE > 1
    :: atomic { OWNER && l_left > 0 && !ending ->
        MUST(STALE_WRITE, my == l_id);
        MUST(PAST_END, l_left > 0);
#ifdef NO_RUNTIME_CAP
        l_left = LEASE }
#else
        if
        :: l_run < LEASE -> l_left = l_run
        :: else -> l_left = LEASE
        fi }
#endif
        goto working
#endif
    :: atomic { OWNER && l_left > 0 && !ending ->       /* progress */
        MUST(STALE_WRITE, my == l_id);
        MUST(AFTER_CANCEL, !ending) }
        goto working

    /* complete, fail, release; after a cancel the latter mean "I yield" */
#ifdef JUDGE_THEN_WRITE
    :: MAY_COMPLETE ->
        atomic { true -> call = complete; finish() }
        goto finished
#endif
    :: atomic { OWNER || MAY_COMPLETE ->
        if
        :: MAY_COMPLETE ->
            call = complete;
            MUST(AFTER_CANCEL, !ending)
        :: OWNER -> call = fail
        :: OWNER -> call = permanent
        :: OWNER && releases > 0 -> releases--; call = release
        fi;
        finish() }
        goto finished

    /* told that the lease is lost, or the fence stale */
    :: atomic { !OWNER -> FORGET }
        goto end_idle

#if EFFECT
    /* effect_begin */
    :: atomic { MAY_BEGIN && eff == none ->
        round = 1;
        sends = 1;
        new_send() }
        goto send
    :: atomic { losses > 0 && MAY_BEGIN && eff == none ->
        losses--;
        round = 1;
        sends = 1;
        new_send();
        armed[me] = false }         /* it does not know that it may */
        goto asked
    :: atomic { MAY_BEGIN && eff == refused && round < ROUNDS ->
        round++;
        sends = 1;
        window_over = false;
        new_send() }
        goto send
#if KEYS
    :: atomic { MAY_BEGIN && eff == unknown && (!window_over
#ifdef WINDOW_IGNORED
        || true
#endif
        ) ->
        sends = 2;
        new_send() }
        goto send
    /* once more by the same attempt: another send of the round */
    :: atomic { (MAY_BEGIN && eff == intended && send_id == my
        && !window_over) ->
#ifndef REPEAT_SAME_SEND
        sends = 2;
#endif
        new_send() }
        goto send
#endif
#ifdef JUDGE_THEN_BEGIN
    :: MAY_BEGIN && eff == none ->
        atomic {
            round = 1;
            sends = 1;
            new_send() }
        goto send
#endif
#ifdef RETRY_WITHOUT_KEYS
    :: atomic { MAY_BEGIN && eff == unknown -> sends = 2; new_send() }
        goto send
#endif
#ifdef ROUND_AFTER_UNKNOWN
    :: atomic { MAY_BEGIN && eff == unknown && round < ROUNDS ->
        round++;
        sends = 1;
        new_send() }
        goto send
#endif
#ifdef REPEAT_SENDS
    :: atomic { MAY_BEGIN && eff == intended && send_id == my ->
        new_send() }
        goto send
#endif
#ifdef INTENT_AFTER_SEND
    :: atomic { MAY_BEGIN && eff == none && nfull(net) ->
        my_round = 1;
        net!1,1,me,my }
        if
        :: atomic { MAY_BEGIN && eff == none ->
            round = 1;
            sends = 1;
            new_send();
            armed[me] = false;
            await[me] = my }
            goto wait
        :: !(MAY_BEGIN && eff == none) -> goto working
        fi
#endif
#endif
    fi;
    goto working;

finished:
    if
    :: call == 0 -> goto end_idle
    :: call != 0            /* no answer: the same call, the same content */
    fi;
    atomic { true ->
#ifdef REPEAT_UNKNOWN
        MUST(REPEAT_REFUSED, l_id == my);
#else
        MUST(REPEAT_REFUSED, ended[my] == call);
#endif
        FORGET };
    goto end_idle;

#if EFFECT
asked:                              /* no answer: the same begin once more */
    if
    :: atomic { (MAY_BEGIN && eff == intended && send_id == my) ->
        armed[me] = true }
        goto send
    :: atomic { !(MAY_BEGIN && eff == intended && send_id == my) -> skip }
        goto working
    fi;

send:                               /* it holds the answer "send" */
    if
    :: atomic { crashes > 0 -> crashes--; armed[me] = false; FORGET }
        goto end_idle
    /* the last look at the deadline and the write are one step: README */
    :: atomic { (armed[me] || LATE) && nfull(net) ->
        armed[me] = false;
        await[me] = my;
        answer[me] = 0;
#ifdef KEY_FROM_FENCE
        net!my_fence,my_round,me,my
#else
        net!my_round,my_round,me,my
#endif
        }
    :: atomic { !armed[me] && !LATE -> skip }
        goto working
    fi;

wait:
    if
    :: atomic { crashes > 0 -> crashes--; await[me] = 0; answer[me] = 0;
        FORGET }
        goto end_idle
    /* started again with its token, without knowing what it had done */
    :: atomic { crashes > 0 -> crashes--; await[me] = 0; answer[me] = 0 }
        goto working
    :: atomic { answer[me] != 0 -> said = answer[me] }
    :: said = 0                     /* time out, reset, 5xx */
    fi;

report:
    if
    :: atomic { crashes > 0 -> crashes--; said = 0; await[me] = 0;
        answer[me] = 0; FORGET }
        goto end_idle
    :: atomic { true -> outcome(); said = 0; await[me] = 0; answer[me] = 0 }
        goto working
    :: atomic { losses > 0 -> losses--; outcome() }
        goto report
    fi
#endif
}


/* ---- recovery, sweeps, clock ---- */

proctype recovery()
{
    mtype how;

end_recovery:
    do
#ifdef EXPIRY_BEFORE_RECOVERY
    :: l_id != 0 && l_left == 0 ->
        if
        :: atomic { l_id != 0 ->
            MUST(LIVE_RECOVERED, l_left == 0);
            how = lost;
            attempt_end(how);
            how = 0 }
        :: l_id == 0
        fi
#endif
    :: atomic { l_unheard || (l_id != 0 && l_left == 0) ->
        if
        :: l_left == 0 ->
            MUST(LIVE_RECOVERED, l_left == 0);
            how = lost
        :: l_unheard -> how = unclaim
        fi;
        attempt_end(how);
        how = 0 }
    od
}

/* result_check: job_checked */
proctype result_checker()
{
end_checker:
    do
#ifdef CHECK_JUDGED_EARLY
    :: status == checking && result_check ->
        atomic { true ->
            results++;
            MUST(SECOND_RESULT, results <= 1);
            status = succeeded }
#endif
    :: atomic { status == checking && result_check ->       /* found */
        result_check = false;
        fence++;
        newest = fence;
        results++;
        MUST(SECOND_RESULT, results <= 1);
        status = succeeded;
        advance() }
    :: atomic { status == checking && result_check ->       /* not found */
        result_check = false;
        again();
        advance() }
    :: atomic { status == checking && result_check ->       /* exhausted */
        result_check = false;
        status = held }
    od
}

proctype clock()
{
end_clock:
    do
    :: atomic { l_left > 0 ->
        l_left--;
        if
        :: l_run > 0 -> l_run--
        :: else
        fi }
#if EFFECT
    /* a send deadline passes, the sender's attempt being over */
    :: atomic { armed[0] && LATE != 1 && !(eff == intended && send_who == 0) ->
        armed[0] = false }
    :: atomic { armed[1] && LATE != 1 && !(eff == intended && send_who == 1) ->
        armed[1] = false }
#if WINDOW
    :: atomic { round > 0 && !window_over && eff != refused ->
        window_over = true }
    :: atomic { window_over && QUIET && memory[round] != 0 ->
        memory[round] = 0 }
#endif
#endif
    od
}

#if EFFECT

/* effects_overdue; and look-ups that are at their end */
proctype sweeper()
{
end_sweeper:
    do
    :: atomic { eff == intended ->
        if
        :: LATE != 1 -> armed[send_who] = false
        :: else
        fi;
        eff = unknown;
        MOVED }
#ifndef UNKNOWN_FORGOTTEN
    :: atomic { eff == unknown -> eff = needs_human; MOVED }
#endif
    od
}

#if LOOK
/* checks_take, the call, effect_looked_up */
proctype looker()
{
    bool found, quiet;

end_looker:
    do
    :: atomic { eff == unknown || eff == needs_human ->
        looking = true;
        moved = false;
        found = did[round];
        quiet = QUIET };
        atomic {
#ifdef SETTLE_JUDGED_LATE
            quiet = QUIET;
#endif
            if
#ifdef NO_COMPARE
            :: OPEN && found -> settle_yes()
            :: OPEN && !found && quiet && LOOK == 2 -> settle_no()
#else
            :: !moved && found -> settle_yes()
#ifdef TRUST_NOT_FOUND
            :: !moved && !found -> settle_no()
#else
            :: !moved && !found && quiet && LOOK == 2 -> settle_no()
#endif
#endif
            :: else
            fi;
            looking = false;
            moved = false;
            found = false;
            quiet = false }
    od
}
#endif


/* ---- the provider ---- */

proctype provider()
{
    byte key, rnd, who, att, says;

end_provider:
    do
    :: atomic { net?key,rnd,who,att ->
        if
        :: KEYS && memory[key] != 0 -> says = memory[key]
        :: !(KEYS && memory[key] != 0) ->       /* acts */
            memory[key] = 1;
            says = 1;
            executed++;
            did[rnd] = true;
            MUST(EXECUTED_TWICE, executed <= 1);
            MUST(FAILED_BUT_DONE, !no[rnd])
        :: !(KEYS && memory[key] != 0) ->       /* refuses, and stays so */
            memory[key] = 2 * KEYS;
            says = 2
        :: says = 2                             /* 429, 401 of a gateway */
        :: says = 0                             /* lost on the way */
        fi;
        if
        :: await[who] == att -> answer[who] = says
        :: else
        fi;
        key = 0;
        rnd = 0;
        who = 0;
        att = 0;
        says = 0 }
    od
}

#endif


/* ---- people ---- */

#if CANCELS || REPLACES
proctype operator()
{
    byte c = CANCELS, r = REPLACES;

end_operator:
    do
#if CANCELS
    :: atomic { c > 0 && status == running && !ending ->
        c--;
        ending = true }
    :: atomic { c > 0 && (status == queued || status == checking
                          || status == held) ->
        c--;
        result_check = false;
        status = canceled;
        advance() }
#endif
#if REPLACES
#ifdef REPLACE_JUDGED_EARLY
    :: r > 0 && status == running && !ending && !BEGUN ->
        if
        :: atomic { status == running && !ending ->
            r--;
            MUST(REPLACED_LATE, !BEGUN);
            ending = true;
            replaced = true;
            waiting = true }
        :: status != running || ending
        fi
#endif
    :: atomic { r > 0 && status == running && !ending && !BEGUN ->
        r--;
        MUST(REPLACED_LATE, !BEGUN);
        ending = true;
        replaced = true;
        waiting = true }
    :: atomic { r > 0 && (ending || BEGUN || status == checking
                          || status == held) && !FINAL ->
        r--;
        waiting = true }
    :: atomic { r > 0 && status == queued ->    /* superseded at once */
        r--;
        waiting = true;
        status = superseded;
        advance() }
#endif
    od
}
#endif

proctype human()
{
    byte d = DECIDES;
#if EFFECT
    bool once;

end_human:
    do
    /* effect_resolve: happened, not_happened (send_again is that, too) */
    :: atomic { ((eff == unknown || eff == needs_human) && did[round]
        && QUIET) -> settle_yes() }
    :: atomic { ((eff == unknown || eff == needs_human) && !did[round]
        && QUIET) -> settle_no() }
#ifdef SETTLE_DURING_SEND
    /* the attempt has ended, the deadline of its send is ahead */
    :: atomic { ((eff == unknown || eff == needs_human) && !did[round]) ->
        settle_no() }
#endif
#if !TRUTHFUL
    :: atomic { eff == needs_human -> settle_yes() }
    :: atomic { eff == needs_human -> settle_no() }
#endif
#if KEYS
    /* send_again under a key that the provider still knows */
    :: atomic { eff == needs_human && !window_over && !once ->
        once = true;
        eff = unknown;
        MOVED;
        if
        :: status == checking && !result_check -> status = queued
        :: else
        fi }
#endif
#else

end_human:
    do
#endif
#if DECIDES
    /* job_decide */
    :: atomic { d > 0 && (status == held || status == checking
                          || status == failed) ->       /* retry */
        d--;
        result_check = false;
        allowed = attempts + 1;
        status = queued }
    :: atomic { d > 0 && (status == held || status == checking) ->
        d--;                                            /* succeed */
        result_check = false;
        fence++;
        newest = fence;
        results++;
        MUST(SECOND_RESULT, results <= 1);
        status = succeeded;
        advance() }
    :: atomic { d > 0 && (status == held || status == checking) ->
        d--;                                            /* fail */
        result_check = false;
        status = failed;
        advance() }
#endif
    :: break                        /* nobody is there any more */
    od
}

/* Where nothing can happen any more, all must be at rest; and (for liveness)
 * standing still there is a run without end. */
proctype stillness()
{
end_stillness:
    do
    :: atomic { timeout -> MUST(LEFT_OPEN, REST) }
    od
}

init
{
    atomic {
        if
        :: on_lost == any -> on_lost = retry
        :: on_lost == any -> on_lost = check
        :: on_lost == any -> on_lost = hold
        :: on_lost != any
        fi;
        run worker(0);
#if WORKERS > 1
        run worker(1);
#endif
        run recovery();
        run result_checker();
        run clock();
#if EFFECT
        run sweeper();
        run provider();
#if LOOK
        run looker();
#endif
#endif
#if CANCELS || REPLACES
        run operator();
#endif
        run human();
        run stillness() }
}

ltl ends { <> [] REST }
