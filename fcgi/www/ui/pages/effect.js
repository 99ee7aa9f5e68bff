/* effect.js: one effect: what was sent, what came back, how it is known. */

import { effectActions } from '../actions/effect.js';
import { get } from '../lib/api.js';
import { clear, el } from '../lib/dom.js';
import { facts, plural } from '../lib/facts.js';
import { apiPath, copyButton, effectName, jobName, name, workName }
    from '../lib/id.js';
import { row, table, tableBox } from '../lib/list.js';
import { awake, onJob } from '../lib/live.js';
import { guard } from '../lib/problem.js';
import { raw } from '../lib/raw.js';
import { badge } from '../lib/state.js';
import { ago, between, duration, time } from '../lib/time.js';
import { entries } from '../lib/timeline.js';

export const title = ({ args }) => `Effect ${args[0].slice(-8)}`;

const SETTLE = 400;
const LOOK = 3000;              /* ms; a look-up ends without a job's event */

const SENDS = [
    { label: 'Send', class: 'number tight', head: true, cell: (s) => s.n },
    { label: 'Round', class: 'number tight', cell: (s) => s.round },
    { label: 'Begun', class: 'tight',
        cell: (s) => time(s.begun_at, { full: true }) },
    { label: 'Ended', class: 'tight', cell: (s) => (s.ended_at
        ? [time(s.ended_at), ' after ',
            duration(between(s.begun_at, s.ended_at))]
        : ['under way, until ', time(s.deadline)]) },
    { label: 'Outcome', class: 'tight',
        cell: (s) => badge(s.outcome ?? 'sending') },
    { label: 'Told by', class: 'text', cell: (s) => s.ended_by ?? '–' },
    { label: 'Its owner said later', class: 'text', cell: (s) => (s.heard
        ? [badge(s.heard), ' ', time(s.heard_at)] : '–') },
    { label: 'Provider’s reference', class: 'key',
        cell: (s) => s.provider_ref ?? '–' },
    { label: 'Job', class: 'tight',
        cell: (s) => jobName(s.job_id, { short: true }) },
    { label: 'Fence', class: 'number tight', cell: (s) => s.fence },
];

const ANSWERS = { found: 'succeeded', not_found: 'missing',
    unclear: 'unknown' };

const CHECKS = [
    { label: 'Look-up', class: 'number tight', head: true,
        cell: (c) => c.try },
    { label: 'Asked', class: 'tight',
        cell: (c) => time(c.started_at, { full: true }) },
    { label: 'Answered', class: 'tight', cell: (c) => time(c.at) },
    { label: 'Answer', class: 'tight', cell: (c) =>
        badge(ANSWERS[c.answer] ?? c.answer, c.answer.replaceAll('_', ' ')) },
    { label: 'What it said', class: 'text', cell: (c) => c.detail ?? '–' },
    { label: 'Provider’s reference', class: 'key',
        cell: (c) => c.provider_ref ?? '–' },
    { label: 'What that made of it', class: 'tight',
        cell: (c) => String(c.outcome).replaceAll('_', ' ') },
];


function grid(columns, rows, caption, none) {
    if (rows.length === 0) {
        return el('p', { class: 'quiet' }, none);
    }

    const t = table(columns, caption);
    clear(t.body, rows.map((r) => row(columns, r)));

    return tableBox(t.node);
}


function stands(e) {
    return facts(
        ['State', badge(e.state)],
        ['What it waits for', e.why],
        ['Unknown since', e.unknown_since ? ago(e.unknown_since) : null],
        ['Work', workName(e.work_key)],
        ['Job', jobName(e.job_id)],
        ['Belongs to', e.scope === 'work'
            ? 'its work: every attempt and rerun of it shares this effect'
            : 'its job, with its retries and reruns'],
        ['Provider’s reference', e.provider_ref
            ? name(e.provider_ref, { what: 'provider’s reference' }) : null],
        ['Said otherwise', e.duplicates > 0
            ? badge('unknown', `${plural(e.duplicates, 'time')} something `
                + 'contradicted what was known') : null],
        ['Undoes', e.compensates ? effectName(e.compensates) : null]);
}


function sent(e, kind) {
    return facts(
        ['Effect kind', e.kind],
        ['Target', e.target],
        ['Key for the provider', name(e.idempotency_key,
            { what: 'idempotency key' })],
        ['Sent in', kind ? `the header ${kind.key_header}` : null],
        ['Provider honours keys', !kind ? null : kind.idempotent
            ? ['yes, for ', duration(kind.key_window)] : 'no'],
        ['Digest of the request', e.request_digest
            ? name(e.request_digest, { what: 'digest' }) : null],
        ['Round', `${e.round}: a new one begins only after a definite no`],
        ['First sent', time(e.first_sent, { full: true })],
        ['Last sent', time(e.last_sent, { full: true })],
        ['Can be looked up', !kind ? null
            : { http: 'over HTTP', worker: 'by a worker' }[kind.lookup?.type]
                ?? 'no: only a person can settle it']);
}


function answer(e) {
    const text = e.response_text ?? null;

    if (e.response_status === null && !e.response_bytes) {
        return el('p', { class: 'quiet' },
            'None is kept: there was no answer, or it said nothing.');
    }

    return [
        facts(['Status', e.response_status === null ? null
            : String(e.response_status)],
        ['Type', e.response_type],
        ['Size', e.response_bytes === null || e.response_bytes === undefined
            ? null : plural(e.response_bytes, 'byte')]),
        text === null ? (e.response_bytes > 0
            ? el('p', { class: 'quiet' }, 'Its bytes are no text.') : null)
            : text === '' ? null : raw(text, 'The provider’s answer'),
    ];
}


export async function page(root, { args, session, signal }) {
    const path = apiPath('/v1/effects', args[0]);
    const parts = Object.fromEntries(['stands', 'acts', 'sent', 'answer',
        'sends', 'checks', 'history'].map((id) => [id, el('div')]));
    let kind;
    let state = '';

    const section = (head, ...inside) => el('section', { 'aria-label': head },
        el('h2', null, head), inside);
    const card = (head, ...inside) => el('section', { class: 'card',
        'aria-label': head }, el('h2', null, head), inside);

    async function look() {
        const { body: e } = await get(path, { signal });

        kind ??= await get(apiPath('/v1/effect-kinds', e.kind), { signal })
            .then((r) => r.body, () => null);

        if (!root.contains(parts.stands)) {
            clear(root,
                el('p', { class: 'lead' }, e.name ?? 'Without a name', ' ',
                    el('span', { class: 'code' }, e.effect_id),
                    copyButton(e.effect_id, 'effect id')),
                el('div', { class: 'columns' },
                    card('How it stands', parts.stands, parts.acts),
                    card('What was sent', parts.sent)),
                section('Sends', parts.sends),
                section('Look-ups', parts.checks),
                section('The provider’s answer', parts.answer),
                section('History', parts.history));
        }

        clear(parts.stands, stands(e));
        clear(parts.sent, sent(e, kind));
        clear(parts.answer, answer(e));
        clear(parts.sends, grid(SENDS, e.sends, 'Each send of the effect',
            'It was never sent.'));
        clear(parts.checks, grid(CHECKS, e.checks ?? [],
            'Each look-up of the effect', 'Nobody has looked it up.'));
        clear(parts.history, el('ol', { class: 'timeline' },
            entries(e.history)));

        if (state !== e.state) {
            state = e.state;
            clear(parts.acts, effectActions(e, { session,
                done: () => look().catch(() => {}) }));
        }

        return e;
    }

    await guard(root, look, signal);

    let soon = null;

    onJob(() => {
        soon ??= setTimeout(() => {
            soon = null;
            if (!signal.aborted) {
                look().catch(() => {});
            }
        }, SETTLE);
    });

    const timer = setInterval(() => {
        if (awake() && state !== 'confirmed' && state !== 'failed') {
            look().catch(() => {});
        }
    }, LOOK);
    signal.addEventListener('abort', () => clearInterval(timer));
}
