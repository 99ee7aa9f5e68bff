/*
 * actions/job.js: what a person may do about one job, and about many that
 * failed.
 */

import { action, effectLink, jobLink, row, workLink } from '../lib/action.js';
import { get, post } from '../lib/api.js';
import { el } from '../lib/dom.js';
import { enc, plural, points, table } from '../lib/facts.js';
import { badge } from '../lib/state.js';
import { duration, time } from '../lib/time.js';

const FINAL = ['succeeded', 'failed', 'canceled', 'superseded', 'expired'];

const DECISIONS = {
    held: ['retry', 'succeed', 'fail', 'release'],
    checking: ['retry', 'succeed', 'fail', 'release'],
    failed: ['retry', 'succeed'],
    parked: ['fail', 'release'],
};

const DECISION_LABELS = {
    retry: 'Run again',
    succeed: 'Count as done',
    fail: 'Count as failed',
    release: 'Hand back',
};


async function maybe(path) {
    try {
        return (await get(path)).body;
    } catch (e) {
        if (e.status === 404 || e.status === 403) {
            return null;
        }
        throw e;
    }
}


/* The job as it is now, with its work and its kind. */
async function around(id) {
    const job = (await get(`/v1/jobs/${enc(id)}`)).body;
    const [work, kind] = await Promise.all([
        maybe(`/v1/works/${enc(job.work_key)}`),
        maybe(`/v1/kinds/${enc(job.kind)}`)]);

    return { job, work, kind };
}


/* What that does not settle: it only ends the job. */
function unsettled(work) {
    const open = Number(work?.effects?.unknown ?? 0)
        + Number(work?.effects?.needs_human ?? 0);

    return open === 0 ? null
        : `${plural(open, 'effect')} of this work may have happened. This `
            + 'settles none: what is open stays open.';
}


/* What the next attempt does about effects, as the server decides it. */
function again(work, kind) {
    const { unknown = 0, needs_human: human = 0, confirmed = 0 }
        = work?.effects ?? {};

    return [
        unknown > 0 ? `${plural(unknown, 'effect')} of this work may have`
            + ' happened. The next attempt may send such a one again, under'
            + ' the key that it has, as long as its provider honours that'
            + ' key; where it does not, it is looked up or settled first.'
            : null,
        human > 0 ? `${plural(human, 'effect')} of this work`
            + ` ${human === 1 ? 'waits' : 'wait'} for a person, and`
            + ` ${human === 1 ? 'is' : 'are'} not sent again before that.`
            : null,
        confirmed > 0 ? `${plural(confirmed, 'effect')} of this work`
            + ` ${confirmed === 1 ? 'is' : 'are'} confirmed`
            + (kind?.effect_scope === 'work' ? ', and not sent again.'
                : '; what this job has done is not sent again.') : null,
    ];
}


function behind(work) {
    const n = work?.waiting?.length ?? 0;

    return n === 0 ? 'Nothing waits behind it.'
        : `${plural(n, 'job')} of this work key ${n === 1 ? 'waits' : 'wait'}`
            + ' behind it; the first of these is next.';
}


function now(job) {
    return [
        'Job ', jobLink(job.job_id, job.job_id.slice(-12)), ' of ',
        workLink(job.work_key), ' is ', badge(job.status), '.',
    ];
}


const outcome = (done) => (job) => el('p', {}, done, ' ',
    jobLink(job.job_id, 'The job'), ' is now ', badge(job.status), '.');


/* ------------------------------------------------------------------ cancel */


export function cancelAction(job, { session, done }) {
    const what = async () => {
        const { job: j, work, kind } = await around(job.job_id);

        if (FINAL.includes(j.status)) {
            return { node: el('p', {}, now(j)),
                blocked: 'It has ended; there is nothing to cancel.' };
        }

        return points(now(j), j.status === 'running'
            ? ['It is asked to end. It may complete nothing and begin no effect'
                + ' from now on, learns of it with its next renewal, and is'
                + ' canceled at the latest after ',
                kind ? duration(kind.cancel_grace) : 'its kind’s grace', '.']
            : 'It ends at once, as canceled. Its worker is none: nothing runs.',
            behind(work), unsettled(work));
    };

    return action({
        label: 'Cancel', title: 'Cancel this job', danger: true, session, done,
        not: FINAL.includes(job.status) ? 'It has ended.' : null,
        what, path: `/v1/jobs/${enc(job.job_id)}/cancel`,
        said: (j) => el('p', {}, j.status === 'canceled'
            ? 'It is canceled. ' : 'It was asked to end. ',
            jobLink(j.job_id, 'The job'), ' is now ', badge(j.status), '.'),
    });
}


/* ------------------------------------------------------------------ decide */


function decided(what, { job, work, kind }) {
    const revision = work?.result?.revision;
    const tries = kind ? `, at most ${kind.max_attempts} within `
        + duration(kind.retry_for) : '';

    switch (what) {
    case 'retry':
        return [
            `It is queued again, with attempts and time as if it were new${tries}.`,
            `So far it had ${plural(job.attempt, 'attempt')}; the next one has`
                + ' a higher fence, so that a late owner changes nothing.',
            revision ? `Revision ${revision} stands until it has succeeded.`
                : null,
        ];
    case 'succeed':
        return [
            'It counts as done, with no result (null).',
            revision ? `Revision ${revision} stands now. The null result takes`
                + ' its place only if nothing of a later attempt stands.'
                : 'No result stands now; the null result will.',
            behind(work),
        ];
    case 'fail':
        return ['It ends as failed, for the reason that you give.',
            behind(work)];
    default:
        return job.status === 'parked' ? [
            'It is let into its line now, before the others that are parked'
                + ` (${plural(work?.parked?.length ?? 0, 'job')} of this work`
                + ' key).',
        ] : [
            'It is queued again as if its last attempt had not been: that one'
                + ' is not counted.',
        ];
    }
}


export function decideAction(job, decision, { session, done, label }) {
    const can = DECISIONS[job.status] ?? [];

    return action({
        label: label ?? (job.status === 'parked' && decision === 'release'
            ? 'Let in now' : DECISION_LABELS[decision]),
        title: `Decide: ${DECISION_LABELS[decision].toLowerCase()}`,
        session, done, danger: decision === 'fail',
        not: can.includes(decision) ? null
            : `Of a job that is ${job.status} this cannot be decided.`,
        fields: [{ name: 'assignee', label: 'Who looks after it from now on',
            value: job.assignee ?? '', max: 255 }],
        what: async () => {
            const all = await around(job.job_id);

            if (!(DECISIONS[all.job.status] ?? []).includes(decision)) {
                return { node: el('p', {}, now(all.job)),
                    blocked: 'This cannot be decided any more, as it stands'
                        + ' now.' };
            }

            return points(now(all.job),
                all.job.error ? ['Its error: ', el('q', {}, all.job.error)]
                    : null,
                ...decided(decision, all),
                ...(decision === 'retry' || decision === 'release'
                    ? again(all.work, all.kind) : [unsettled(all.work)]));
        },
        path: `/v1/jobs/${enc(job.job_id)}/decide`,
        body: (v) => ({
            action: decision,
            ...(v.assignee ? { assignee: v.assignee } : {}),
            requested_by: v.requested_by, reason: v.reason,
        }),
        said: outcome('It is decided.'),
    });
}


/* ----------------------------------------------------------- release lease */


const LOST = {
    retry: 'The job runs again, by its kind’s rules for retries.',
    check: 'Before it runs again, its kind has somebody look whether its'
        + ' result is there already.',
    hold: 'The job is then held until a person decides.',
};


/* Takes the lease away as if it had been lost. */
export function revokeAction(job, { session, done, label }) {
    return action({
        label: label ?? 'Take the lease away', danger: true, session, done,
        title: 'Take the lease away from its worker',
        not: job.status !== undefined && job.status !== 'running'
            ? 'It does not run: nobody has a lease of it.' : null,
        what: async () => {
            const { job: j, work, kind } = await around(job.job_id);
            const held = work?.active?.find((a) => a.job_id === j.job_id
                && a.expires_at);

            if (j.status !== 'running') {
                return { node: el('p', {}, now(j)),
                    blocked: 'It does not run any more.' };
            }

            return points(now(j),
                held ? ['Worker ', el('b', {}, held.worker ?? 'without a name'),
                    ` has it with fence ${held.fence}, until `,
                    time(held.expires_at), ' unless it renews.'] : null,
                'The lease ends now, as if it had been lost. What its worker'
                    + ' brings after that is refused. It is not stopped: what'
                    + ' it does to the outside world by itself, it may still'
                    + ' do.',
                kind ? LOST[kind.on_lost] : null,
                kind ? `Attempt ${j.attempt} of ${kind.max_attempts} counts as`
                    + ' used.' : null,
                'Sends without an outcome become unknown, and are settled'
                    + ' first.');
        },
        path: `/v1/jobs/${enc(job.job_id)}/revoke`,
        said: outcome('The lease is taken away.'),
    });
}


/* ----------------------------------------------------------------- redrive */


function plan(p) {
    const left = p.succeeded_since?.count ?? 0;

    return [
        points(
            `${plural(p.count, 'failed job')} would be queued again, each with`
                + ' attempts and time as if it were new.',
            left ? `${plural(left, 'job')} stay as they are: a later job of`
                + ' their work key has succeeded since, and their old payload'
                + ' would run over that result.' : null,
            p.truncated ? 'More jobs match than the plan takes.' : null,
            ['Only these jobs: the plan holds until ', time(p.expires_at),
                ', and leaves out what is no longer failed by then.']),
        table('Jobs of the plan', ['Job', 'Work', 'Kind', 'Failed', 'Error'],
            p.jobs.map((j) => [jobLink(j.job_id, j.job_id.slice(-12)),
                workLink(j.work_key), j.kind, time(j.finished_at), j.error]),
            'The plan has no job.'),
        p.count > p.jobs.length ? el('p', { class: 'quiet' },
            `The first ${p.jobs.length} are shown.`) : null,
    ];
}


function redriven(a) {
    return [
        el('p', {}, `${plural(a.redriven, 'job')} of ${a.count} queued again.`),
        a.skipped.length > 0 ? table('Left out', ['Job', 'Why'],
            a.skipped.map((s) => [jobLink(s.job_id, s.job_id.slice(-12)),
                String(s.reason).replaceAll('_', ' ')])) : null,
    ];
}


/*
 * redriveAction({session, filter, label, done}): failed jobs run again, by a
 * plan.  filter: {kind, work_key, error, since, until, job_ids}; with job_ids
 * just these, else a form whose fields it presets.
 */
export function redriveAction({ session, filter = {}, label, done, not }) {
    const fixed = Array.isArray(filter.job_ids);
    const of = (v) => fixed ? { job_ids: filter.job_ids } : {
        ...Object.fromEntries(['kind', 'work_key', 'error'].filter((n) => v[n])
            .map((n) => [n, v[n]])),
        ...(filter.since ? { since: filter.since } : {}),
        ...(filter.until ? { until: filter.until } : {}),
        max: Number(v.max),
        ...(v.since_succeeded === 'yes' ? { succeeded_since: true } : {}),
    };
    const field = (name, text, more) => ({ name, label: text, affects: true,
        value: filter[name] ?? '', ...more });

    return action({
        label: label ?? 'Requeue failed jobs …', session, done, not,
        title: 'Run failed jobs again',
        ask: fixed ? null : 'Make a plan',
        fields: fixed ? [] : [
            field('kind', 'Of this kind'),
            field('work_key', 'Of this work key'),
            field('error', 'With this in their error'),
            { name: 'max', label: 'At most', kind: 'number', value: '100',
                min: 1, highest: 10000, required: true, affects: true },
            { name: 'since_succeeded', label: 'Jobs whose work has succeeded'
                + ' since', kind: 'select', affects: true, options: [
                { value: 'no', label: 'leave out' },
                { value: 'yes', label: 'run again as well' }] },
        ],
        what: async (v) => {
            const p = (await post('/v1/redrive', { filter: of(v) })).body;
            return { node: plan(p), seen: p.plan_id,
                blocked: p.count === 0
                    ? 'No failed job is meant by this.' : null };
        },
        path: '/v1/redrive',
        body: (v, seen) => ({ plan_id: seen, requested_by: v.requested_by,
            reason: v.reason }),
        said: redriven,
    });
}


/* --------------------------------------------------------------- all of it */


/*
 * jobActions(job, {session, done}): what may be done about a job, for its
 * page.  job: as GET /v1/jobs/{id} shows it.
 */
export function jobActions(job, options) {
    const can = DECISIONS[job.status] ?? [];

    return row(
        can.map((d) => decideAction(job, d, options)),
        job.status === 'failed' ? redriveAction({ ...options,
            filter: { job_ids: [job.job_id] }, label: 'Requeue by a plan' })
            : null,
        job.status === 'running' ? revokeAction(job, options) : null,
        FINAL.includes(job.status) ? null : cancelAction(job, options));
}


/* effectsSeen(list): the effects of an impact, as a table. */
export function effectsSeen(list) {
    return table('Effects', ['Effect', 'Kind', 'State', 'Provider’s reference'],
        list.map((e) => [effectLink(e.effect_id, e.name ?? 'without a name'),
            e.kind, badge(e.state), e.provider_ref]),
        'It has changed nothing of the outside world.');
}
