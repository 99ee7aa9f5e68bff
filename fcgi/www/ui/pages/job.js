/* job.js: one job: how far it is, what it was given, what it made. */

import { jobActions } from '../actions/job.js';
import { get } from '../lib/api.js';
import { clear, el, link } from '../lib/dom.js';
import { facts } from '../lib/facts.js';
import { apiPath, jobName, workName, workPath, copyButton }
    from '../lib/id.js';
import { textOf } from '../lib/json.js';
import { row, table, tableBox } from '../lib/list.js';
import { onJob } from '../lib/live.js';
import { guard, problemBox } from '../lib/problem.js';
import { progress } from '../lib/progress.js';
import { raw, stored } from '../lib/raw.js';
import { badge } from '../lib/state.js';
import { ago, between, duration, time } from '../lib/time.js';

const FINAL = ['succeeded', 'failed', 'canceled', 'superseded', 'expired'];

export const title = ({ args }) => `Job ${args[0].slice(-8)}`;


const ATTEMPTS = [
    { label: 'Attempt', class: 'number tight', head: true,
        cell: (a) => a.attempt },
    { label: 'Fence', class: 'number tight', cell: (a) => a.fence },
    { label: 'Worker', class: 'key', cell: (a) => a.worker ?? '–' },
    { label: 'Began', class: 'tight', cell: (a) => time(a.started_at) },
    { label: 'Ran', class: 'number tight', cell: (a) =>
        duration(between(a.started_at, a.ended_at)) },
    { label: 'Ended by', class: 'tight', cell: (a) =>
        badge({ complete: 'done' }[a.call] ?? a.call, a.call) },
    { label: 'Step', class: 'text', cell: (a) => a.step ?? '' },
    { label: 'Error', class: 'text', cell: (a) => [a.error ?? '',
        a.log_url ? el('div', null, link(a.log_url, 'Log')) : null] },
];


function attempts(job) {
    const all = job.attempts ?? [];

    if (all.length === 0) {
        return el('p', { class: 'quiet' }, job.status === 'running'
            ? 'Its first attempt is under way.'
            : 'None has ended.');
    }

    const grid = table(ATTEMPTS, 'Attempts that ended, the last ten');
    clear(grid.body, all.map((a) => row(ATTEMPTS, a)));

    return tableBox(grid.node);
}


function stands(job) {
    const waits = job.waits_for && !FINAL.includes(job.status);

    return facts(
        ['Status', el('span', null, badge(job.status),
            job.cancel_requested ? ' asked to end' : null)],
        job.lease ? ['Run by', [job.lease.worker,
            `, attempt ${job.lease.attempt}, fence ${job.lease.fence}`]] : null,
        waits ? ['Waits for', [job.waits_for, job.retry_at
            ? [', ', ago(job.retry_at)] : null]] : null,
        job.paused ? ['Paused', [badge('paused', 'its kind is paused'), ' ',
            job.paused.reason ?? '']] : null,
        ['Work', workName(job.work_key)],
        ['Kind', el('a', { href: `/ui/kinds/${encodeURIComponent(job.kind)}` },
            job.kind)],
        ['Error', job.error],
        ['Message to the user', job.user_message],
        ['Log', job.log_url ? link(job.log_url) : null],
        ['Result at', job.result_url ? link(job.result_url) : null],
        ['Delivery', job.delivery ? badge(job.delivery) : null],
        ['Looked after by', job.assignee],
        ['Superseded by', job.superseded_by ? jobName(job.superseded_by)
            : null],
        ['Rerun of', job.rerun_of ? jobName(job.rerun_of) : null]);
}


function asked(job) {
    return facts(
        ['Asked', time(job.created_at, { full: true })],
        ['By', job.requested_by],
        ['Reason', job.reason],
        ['Source', job.source],
        ['Decision', badge(job.decision)],
        ['Version', job.version === null || job.version === undefined ? null
            : String(job.version)],
        ['Priority', String(job.priority ?? 0)],
        ['Began', job.started_at ? time(job.started_at, { full: true })
            : null],
        ['Ended', job.finished_at ? time(job.finished_at, { full: true })
            : null],
        ['Waited', job.started_at ? duration(between(job.created_at,
            job.started_at)) : null],
        ['Ran', job.started_at && job.finished_at
            ? duration(between(job.started_at, job.finished_at)) : null],
        ['Attempts', String(job.attempt)]);
}


/* What it made, if that is what stands. */
async function result(job, signal) {
    if (job.status !== 'succeeded') {
        return FINAL.includes(job.status)
            ? el('p', { class: 'quiet' }, 'It made none.')
            : el('p', { class: 'quiet' }, 'None yet.');
    }

    try {
        const { body } = await get(
            apiPath('/v1/works', job.work_key, '/result'), { signal });

        if (body.job_id !== job.job_id) {
            return el('p', null, 'Another job\'s result stands: ',
                jobName(body.job_id), '. The work\'s page has all '
                + 'revisions.');
        }

        return [
            facts(['Revision', String(body.revision)],
                ['At', body.result_url ? link(body.result_url) : null],
                ['Counts', body.counts ? el('code', null,
                    textOf(body, 'counts')) : null]),
            body.result === null
                ? el('p', { class: 'quiet' }, 'It brought no value.')
                : raw(textOf(body, 'result'), 'The result as stored'),
        ];
    } catch (error) {
        if (error.status === 404) {
            return el('p', { class: 'quiet' }, 'None stands.');
        }
        throw error;
    }
}


export async function page(root, { args, session, signal }) {
    const id = args[0];
    const path = apiPath('/v1/jobs', id);
    const parts = { stands: el('div'), acts: el('div'), asked: el('div'),
        progress: el('div'), attempts: el('div'), payload: el('div'),
        result: el('div') };
    const running = el('section', { class: 'card', hidden: true,
        'aria-label': 'Progress' }, el('h2', null, 'Progress'),
    parts.progress);

    const section = (head, ...inside) => el('section',
        { 'aria-label': head }, el('h2', null, head), inside);

    const said = el('p', { class: 'unseen', role: 'status' });

    let job = null;
    let last = null;
    let events = 0;
    let acts = '';
    let ended = '';

    function show() {
        clear(parts.stands, stands(job));
        clear(parts.asked, asked(job));
        clear(parts.attempts, attempts(job));

        const far = progress(job.progress, job.step);
        running.hidden = far.length === 0;
        clear(parts.progress, far);

        const now = `${job.status} ${job.cancel_requested}`;
        if (acts !== now) {
            acts = now;
            clear(parts.acts, jobActions(job, { session,
                done: () => look() }));
        }

        if (ended !== job.status) {
            said.textContent = ended === '' ? '' : `It is ${job.status}.`;
            ended = job.status;
            result(job, signal).then((node) => clear(parts.result, node),
                (error) => clear(parts.result, problemBox(error)));
        }
    }

    async function payload() {
        try {
            clear(parts.payload, await stored(`${path}/payload`,
                { label: 'The payload as stored', signal }));
        } catch (error) {
            if (error.type === 'aborted') {
                return;
            }
            clear(parts.payload, error.status === 404
                ? el('p', { class: 'quiet' }, 'It has none.')
                : problemBox(error, payload));
        }
    }

    async function look() {
        const seen = events;
        const { body } = await get(path, { signal });

        /* an event that came meanwhile is newer, or one that is will come */
        job = events === seen ? body : { ...body, ...last };

        if (!root.contains(parts.stands)) {
            clear(root,
                said,
                el('p', { class: 'lead' }, el('span', { class: 'code' },
                    body.job_id), copyButton(body.job_id, 'job id')),
                el('div', { class: 'columns' },
                    el('section', { class: 'card',
                        'aria-label': 'How it stands' },
                    el('h2', null, 'How it stands'), parts.stands,
                    parts.acts),
                    el('section', { class: 'card', 'aria-label': 'Asked' },
                        el('h2', null, 'Asked'), parts.asked)),
                running,
                section('Attempts', parts.attempts),
                el('div', { class: 'columns' },
                    section('Payload', parts.payload),
                    section('Result', parts.result)),
                el('p', { class: 'after' }, el('a', {
                    href: workPath(body.work_key) },
                'Everything about this work, in one time line')));
            payload();
        }

        show();
    }

    await guard(root, look, signal);

    /* Its progress comes with the event; how its attempts ended does not. */
    onJob((event) => {
        if (event === null || job === null) {
            look().catch(() => {});
            return;
        }

        if (event.job_id === id) {
            const before = job;

            events += 1;
            last = event;
            job = { ...job, ...event };
            show();
            if (before.status !== job.status
                || before.attempt !== job.attempt)
            {
                look().catch(() => {});
            }
        }
    });
}
