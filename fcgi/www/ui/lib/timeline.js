/*
 * timeline.js: the entries of GET /v1/audit in words, oldest first.
 */

import { el, link } from './dom.js';
import { effectName, jobName, name } from './id.js';
import { textOf } from './json.js';
import { raw } from './raw.js';
import { badge, tone } from './state.js';
import { time } from './time.js';

const words = (text) => String(text ?? '').replaceAll('_', ' ');

/* what the filter of a time line offers: an entry's sort */
export const SORTS = [
    ['request', 'requests'],
    ['attempt', 'attempts'],
    ['effect', 'effects'],
    ['result', 'results'],
    ['person', 'people'],
];


/* sort(entry): request, attempt, effect, result or person. */
export function sort(entry) {
    const what = String(entry.what);

    if (what === 'action' || entry.token_name) {
        return 'person';
    }

    if (what.startsWith('effect') || entry.subject === 'effect') {
        return 'effect';
    }

    return {
        request: 'request', expired: 'request', claimed: 'attempt',
        ended: 'attempt', held: 'attempt', checked: 'attempt',
        refused: 'result', published: 'result',
    }[what] ?? 'attempt';
}


const ENDS = {
    complete: 'completed', fail: 'failed', release: 'was handed back',
    lost: 'was lost: its lease ended', cancel: 'was canceled',
    canceled: 'was canceled', unclaim: 'never reached its worker',
    revoke: 'was taken away', replace: 'was replaced',
};

const ACTIONS = {
    job_cancel: 'asked the job to end', job_decide: 'decided about the job',
    job_revoke: 'took the lease away', redrive: 'requeued the job',
    work_rerun: 'had the work run again',
    work_publish: 'chose the revision that stands',
    effect_check: 'had the effect looked up',
    effect_resolve: 'settled the effect',
    gap_approve: 'approved the gap', gap_dismiss: 'dismissed the gap',
    kind_pause: 'paused the kind', kind_resume: 'resumed the kind',
    source_pause: 'paused the source', source_resume: 'resumed the source',
    schedule_pause: 'paused the schedule',
    schedule_resume: 'resumed the schedule',
    inbox_assign: 'said who looks after it',
    inbox_dismiss: 'took it off the inbox',
};

const WORDS = {
    request: (e) => ({
        tone: tone(e.decision),
        text: [e.requested_by ? `${e.requested_by} asked` : 'Asked',
            ` by ${e.source}: `, badge(e.decision)],
    }),

    claimed: (e) => ({
        tone: 'run',
        text: [`Attempt ${e.attempt} begins at `,
            el('span', { class: 'code' }, e.worker ?? 'a worker'),
            fence(e)],
    }),

    ended: (e) => ({
        tone: tone(e.call === 'complete' ? 'succeeded' : e.status ?? e.call),
        text: [`Attempt ${e.attempt} ${ENDS[e.call] ?? words(e.call)}`,
            fence(e), ' ', badge(e.status)],
    }),

    refused: (e) => ({
        tone: 'warn',
        text: [`A late ${words(e.call)} was refused: ${words(e.refusal)}`,
            fence(e)],
    }),

    checked: (e) => ({
        tone: tone(e.outcome),
        text: [`Look-up ${e.try ?? ''} of the ${words(e.subject)}: `,
            words(e.answer)],
    }),

    held: () => ({
        tone: 'warn',
        text: ['From now on it waits for a person'],
    }),

    published: (e) => ({
        tone: 'ok',
        text: [`Revision ${e.revision} stands`, fence(e)],
    }),

    action: (e) => ({
        tone: 'run',
        text: [el('strong', null, e.requested_by ?? e.token_name
            ?? 'Somebody'), ' ', ACTIONS[e.action] ?? words(e.action)],
    }),

    expired: () => ({ tone: 'bad', text: ['It waited too long'] }),
};

/* said by the badge, the head or the place already */
const SAID = new Set(['at', 'what', 'decision', 'source', 'call', 'status',
    'attempt', 'fence', 'worker', 'revision', 'state', 'from', 'name', 'kind',
    'action', 'requested_by', 'attempt_id', 'seq', 'code', 'subject', 'try',
    'answer', 'refusal', 'response_status', 'round', 'token_id']);

/* these have a line of their own */
const LONG = new Set(['error', 'detail', 'user_message', 'log_url',
    'result_url', 'result']);

const LABELS = {
    job_id: 'Job', active_job_id: 'Active job',
    superseded_job_id: 'Superseded job', first_request: 'First request',
    request_id: 'Request', idempotency_key: 'Idempotency key',
    request_reason: 'Reason given', reason: 'Reason', detail: 'Detail',
    error: 'Error', user_message: 'Message to the user', log_url: 'Log',
    result_url: 'Result at', retry_at: 'Tried again at',
    provider_ref: 'Provider’s reference', effect_id: 'Effect',
    token_name: 'Token', target: 'Of',
};

const SHORT = { short: true };
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

const VALUES = {
    job_id: (v) => jobName(v, SHORT),
    active_job_id: (v) => jobName(v, SHORT),
    superseded_job_id: (v) => jobName(v, SHORT),
    effect_id: (v) => effectName(v, SHORT),
    id: (v, e) => (e.subject === 'effect' ? effectName : jobName)(v, SHORT),
    request_id: (v) => name(v, { what: 'request id', short: true }),
    first_request: (v) => name(v, { what: 'request id', short: true }),
    send_id: (v) => name(v, { what: 'send id', short: true }),
    idempotency_key: (v) => name(v, { what: 'idempotency key' }),
    provider_ref: (v) => name(v, { what: 'reference' }),
    log_url: (v) => link(v),
    result_url: (v) => link(v),
    retry_at: (v) => time(v),
    target: (v, e) => (!UUID.test(v) ? String(v)
        : String(e.action).startsWith('effect') ? effectName(v, SHORT)
            : jobName(v, SHORT)),
    retryable: (v) => (v ? 'yes' : 'no'),
    reason: (v, e) => (e.what === 'request' ? words(v) : String(v)),
};


function fence(e) {
    return e.fence === null || e.fence === undefined ? null
        : el('span', { class: 'quiet' }, ` fence ${e.fence}`);
}


function effect(e) {
    return {
        tone: tone(e.state),
        text: [e.requested_by ? `${e.requested_by}: ` : null,
            `${words(e.what)[0].toUpperCase()}${words(e.what).slice(1)}: `,
            el('span', { class: 'code' }, e.name), ' ',
            e.state ? badge(e.state) : null, fence(e)],
    };
}


function details(e) {
    const pairs = [];

    for (const [key, value] of Object.entries(e)) {
        if (SAID.has(key) || value === null || value === undefined
            || value === '' || value === false && key === 'contradiction'
            || key === 'request_id' && value === e.job_id)
        {
            continue;
        }

        if (key === 'said' && value === e.state) {
            continue;
        }

        const show = VALUES[key] ?? ((v) => (typeof v === 'object'
            ? raw(textOf(e, key), words(key)) : String(v)));

        pairs.push(el('div', { class: LONG.has(key)
            || typeof value === 'object' ? 'long' : null },
        el('dt', null, LABELS[key] ?? words(key)[0].toUpperCase()
            + words(key).slice(1)),
        el('dd', null, show(value, e))));
    }

    return pairs.length === 0 ? null : el('dl', { class: 'pairs' }, pairs);
}


/* entry(e): one entry as a <li>. */
export function entry(e) {
    const { tone: t, text } = (WORDS[e.what] ?? effect)(e);

    return el('li', { class: [`is-${t}`], data: { what: e.what,
        sort: sort(e) } },
    el('div', { class: 'when' }, time(e.at)),
    el('div', { class: 'event' },
        el('p', { class: 'said' }, text), details(e)));
}


const isDuplicate = (e) => e.what === 'request' && e.decision === 'duplicate';


/*
 * entries(list): its <li>s; duplicates that follow each other are one, with
 * all of them inside.
 */
export function entries(all) {
    const out = [];

    for (let i = 0; i < all.length; i++) {
        let end = i;

        while (end < all.length && isDuplicate(all[end])) {
            end += 1;
        }

        if (end - i < 3) {
            out.push(entry(all[i]));
            continue;
        }

        out.push(el('li', { class: 'is-off', data: { what: 'duplicates',
            sort: 'request' } },
        el('div', { class: 'when' }, time(all[i].at)),
        el('div', { class: 'event' },
            el('details', null,
                el('summary', null, `${end - i} duplicates, until `,
                    time(all[end - 1].at)),
                el('ol', { class: 'timeline' },
                    all.slice(i, end).map(entry))))));
        i = end - 1;
    }

    return out;
}
