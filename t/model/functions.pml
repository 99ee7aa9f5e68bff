/*
 * The functions of sql/, each to be used within one atomic step.  Included by
 * interlock.pml.
 */

/* key_advance: the job that waits for the key starts */
inline advance()
{
    if
#ifdef PROMOTE_UNSETTLED
    :: waiting && FINAL ->
#else
    :: waiting && FINAL && !OPEN ->
#endif
        MUST(PROMOTED_EARLY, !OPEN);
        waiting = false;
        status = queued;
        attempts = 0;
        allowed = MAXATT;
        results = 0
#ifdef FENCE_RESET
        ; fence = 0
#endif
    :: else
    fi
}

/* claim */
inline grant()
{
    ids++;
    attempts++;
#ifdef FENCE_FROM_ATTEMPTS
    fence = attempts;
#else
    fence++;
#endif
    MUST(FENCE_REUSED, fence > newest);
    newest = fence;
    status = running;
    l_id = ids;
    l_fence = fence;
    l_who = me;
    l_left = LEASE;
    l_run = RUNTIME
}

/* retry_fate, twin_of, effects_unsettled: a job that may run again */
inline again()
{
    if
    :: attempts < CAP && waiting -> status = superseded
#ifndef NO_ATTEMPT_CAP
    :: attempts >= allowed -> status = failed
#endif
    :: attempts < CAP && !waiting && !(OPEN && !REPEATABLE) ->
        status = queued
    :: attempts < CAP && !waiting && (OPEN && !REPEATABLE) ->
        status = checking
    fi
#ifdef NO_ATTEMPT_CAP
    ; attempts = 0;         /* so that spin need not count for ever */
    ids = 0;
    fence = 0;
    newest = 0
#endif
}

/* attempt_end */
inline attempt_end(by)
{
#if EFFECT
    if
    :: eff == intended && send_id == l_id ->
#ifndef LOST_LEAVES_INTENDED
        eff = unknown;
        MOVED
#else
        skip
#endif
    :: else
    fi;
#endif
    if
    :: ended[l_id] != 0 -> ended[l_id] = by
    :: else                 /* nobody holds its token any more */
    fi;
    if
    :: by == complete ->
        status = succeeded;
        results++;
        MUST(SECOND_RESULT, results <= 1)
    :: by != complete && replaced -> status = superseded
    :: by != complete && !replaced && ending -> status = canceled
    :: by == unclaim && !ending ->
        attempts--;
        status = queued
    :: by == release && !ending ->
        attempts--;
        if
        :: waiting -> status = superseded
        :: !waiting && OPEN && !REPEATABLE -> status = checking
        :: else -> status = queued
        fi
    :: by == permanent && !ending -> status = failed
    :: by == fail && !ending -> again()
    :: by == lost && !ending && on_lost == retry -> again()
    :: by == lost && !ending && on_lost == check ->
        status = checking;
        result_check = true
    :: by == lost && !ending && on_lost == hold -> status = held
    fi;
    l_id = 0;
    l_fence = 0;
    l_who = 0;
    l_unheard = false;
    l_left = 0;
    l_run = 0;
    ending = false;
    replaced = false;
    MUST(SILENT_OPEN, NO_OPEN_SEND);
    advance()
}

#if EFFECT

/* job_resume, and the key goes on, once the effect is settled */
inline resume()
{
    if
    :: status == checking && !result_check && !OPEN -> status = queued
    :: else
    fi;
    advance()
}

inline settle_yes()
{
    eff = confirmed;
    MOVED;
    MUST(CONFIRMED_NOT_DONE, did[round]);
    resume()
}

inline settle_no()
{
    eff = refused;
    MOVED;
    no[round] = true;
    MUST(FAILED_BUT_DONE, !did[round]);
    resume()
}

/* effect_begin: a new send; what it does to the effect */
inline new_send()
{
    MUST(STALE_WRITE, my == l_id);
    MUST(AFTER_CANCEL, !ending);
    MUST(PAST_END, l_left > 0);
    eff = intended;
    MOVED;
    send_id = my;
    send_who = me;
    armed[me] = true;
    my_round = round
}

/* effect_outcome, by whoever held a send of my_round, however late */
inline outcome()
{
    if
    :: my_round == round && OPEN && said == 1 -> settle_yes()
#ifdef UNCLEAR_IS_YES
    :: my_round == round && OPEN && said == 0 -> settle_yes()
#endif
#ifdef TRUST_REFUSAL
    :: my_round == round && OPEN && said == 2 -> settle_no()
#else
    :: my_round == round && OPEN && said == 2 && sends == 1 -> settle_no()
    :: (my_round == round && eff == intended && send_id == my && said == 2
        && sends > 1) -> eff = unknown; MOVED
#endif
    :: my_round == round && eff == intended && send_id == my && said == 0 ->
        eff = unknown;
        MOVED
    :: else
    fi
}

#endif
