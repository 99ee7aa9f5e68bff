/* kinds.js: the kinds of work and their policies; one of them with advice. */

import { kindAction } from '../actions/kind.js';
import { whyNot } from '../lib/action.js';
import { get, post } from '../lib/api.js';
import { clear, el, unique } from '../lib/dom.js';
import { enc, facts, plural } from '../lib/facts.js';
import { apiPath, jobName } from '../lib/id.js';
import { parse } from '../lib/json.js';
import { list, tableBox } from '../lib/list.js';
import { guard, problemBox } from '../lib/problem.js';
import { raw } from '../lib/raw.js';
import { badge } from '../lib/state.js';
import { duration, time } from '../lib/time.js';

export const title = ({ args }) => (args.length > 0 ? `Kind ${args[0]}`
    : 'Kinds');

const OVERLAPS = {
    allow: 'runs beside the other', skip: 'is answered with the active job',
    buffer_one: 'waits; the latest wins',
    buffer_first: 'waits if nobody does; later ones join it',
    buffer_all: 'waits in line', replace: 'ends the running one',
};

const LOST = { retry: 'runs again', check: 'is looked up first',
    hold: 'waits for a person' };


function pause(p) {
    return p ? [badge('paused'), ' since ', time(p.since), ` by ${
        p.requested_by}: ${p.reason}`] : badge('ok', 'on');
}


function all(root, session) {
    root.append(el('p', { class: 'lead' }, 'A kind says what a new request '
        + 'for a work key means while that key is active, how much may run '
        + 'and wait, and what becomes of a job whose worker is lost.'));

    const l = list(root, {
        path: '/v1/kinds',
        caption: 'Kinds, by name',
        key: 'name',
        empty: 'There is no kind. “interlock kind put” makes one.',
        columns: [
            { label: 'Kind', class: 'key', head: true, cell: (k) => el('a', {
                href: `/ui/kinds/${enc(k.name)}` }, k.name) },
            { label: 'State', cell: (k) => (k.paused
                ? [badge('paused'), el('div', { class: 'quiet' },
                    `${k.paused.requested_by}: ${k.paused.reason}`)]
                : badge('ok', 'on')) },
            { label: 'A new request', class: 'text', cell: (k) => [
                el('span', { class: 'code' }, k.overlap),
                el('div', { class: 'quiet' }, OVERLAPS[k.overlap])] },
            { label: 'Lease', class: 'number tight',
                cell: (k) => duration(k.lease_seconds) },
            { label: 'Attempts', class: 'number',
                cell: (k) => k.max_attempts },
            { label: 'A lost job', class: 'tight',
                cell: (k) => LOST[k.on_lost] ?? k.on_lost },
            { label: 'Limits', cell: (k) =>
                (k.limits?.length > 0 ? k.limits.join(', ') : '–') },
            { label: '', class: 'decide', cell: (k) => kindAction(k,
                { session, done: () => l.reload() }) },
        ],
    });
}


/* ------------------------------------------------------------------ advice */

const seconds = (v) => (v === null || v === undefined ? '–' : duration(v));


function percentiles(label, p) {
    const names = Object.keys(p);

    return el('tr', null, el('th', { scope: 'row' }, label),
        ['p50', 'p90', 'p95', 'p99', 'max'].map((n) => el('td',
            { class: 'number' }, names.includes(n) ? seconds(p[n]) : '–')));
}


function advice(a) {
    const same = a.proposed.lease_seconds === a.current.lease_seconds;

    return [
        el('p', null, a.samples === 0
            ? 'No attempt of it has ended yet: there is nothing to measure.'
            : `Of ${plural(a.samples, 'attempt')} that ended within ${
                duration(a.window_seconds)}; ${plural(a.lost, 'time')} a lease `
                + 'was lost.'),
        tableBox(el('table', null,
            el('caption', { class: 'unseen' }, 'What was measured'),
            el('thead', null, el('tr', null, el('th', { scope: 'col' }, 'Time'),
                ['median', '90 %', '95 %', '99 %', 'longest'].map((h) =>
                    el('th', { scope: 'col', class: 'number' }, h)))),
            el('tbody', null,
                percentiles('Run time', a.run_seconds),
                percentiles('Between two renewals', a.renewal_gap_seconds),
                percentiles('Waited to start', a.wait_seconds)))),
        el('p', null, same ? `A lease of ${duration(a.current.lease_seconds)} `
            + 'is right: ' : ['A lease of ', el('strong', null,
            duration(a.proposed.lease_seconds)), ` is advised in place of ${
            duration(a.current.lease_seconds)}: `], a.proposed.why),
    ];
}


/* ----------------------------------------------------------------- explain */


function explained(x) {
    return el('div', { class: ['note', x.problem ? 'is-warn' : null] },
        el('p', null, x.decision ? badge(x.decision) : badge('rejected',
            x.problem?.replaceAll('-', ' ')), ` (${x.code}) `, x.why),
        facts(
            ['Reason', x.reason?.replaceAll('_', ' ')],
            ['It would be', x.status ? badge(x.status) : null],
            ['Active job', x.active_job_id ? jobName(x.active_job_id) : null],
            ['Superseded', x.superseded_job_id
                ? jobName(x.superseded_job_id) : null],
            ['Ended for it', x.revoked_job_id ? jobName(x.revoked_job_id)
                : null],
            ['Again in', x.retry_after ? duration(x.retry_after) : null],
            ['Limits', x.limits?.length > 0 ? x.limits.join(', ') : null]));
}


function explain(name, session) {
    const no = whyNot(session);
    const out = el('div', { 'aria-live': 'polite' });
    const field = (id, label, input) => {
        const of = unique(id);
        input.id = of;
        input.name = id;
        return el('div', { class: 'field' }, el('label', { for: of }, label),
            input);
    };
    const key = el('input', { required: true, autocomplete: 'off' });
    const idem = el('input', { autocomplete: 'off' });
    const fresh = el('select', null, el('option', { value: '' }, 'no'),
        el('option', { value: 'yes' }, 'yes'));
    const payload = el('textarea', { spellcheck: 'false' });
    const button = el('button', { type: 'submit', disabled: no !== null },
        'What would it get?');

    return el('form', { class: 'explain', onsubmit: async (e) => {
        e.preventDefault();
        button.disabled = true;
        try {
            const r = await post(apiPath('/v1/kinds', name, '/explain'), {
                work_key: key.value,
                ...(idem.value ? { idempotency_key: idem.value } : {}),
                ...(fresh.value ? { fresh: true } : {}),
                ...(payload.value.trim() ? { payload: parse(payload.value) }
                    : {}),
            });
            clear(out, explained(r.body));
        } catch (error) {
            clear(out, problemBox(error));
        } finally {
            button.disabled = false;
        }
    } },
    el('p', null, 'What a request would get just now, and why. Nothing is '
        + 'stored.'),
    el('div', { class: 'filters' },
        field('work_key', 'Work key', key),
        field('idempotency_key', 'Idempotency key', idem),
        field('fresh', 'Fresh', fresh)),
    field('payload', 'Payload (JSON)', payload),
    el('p', null, button, no ? el('span', { class: 'quiet' }, ` ${no}`)
        : null), out);
}


/* -------------------------------------------------------------- one kind */


function stands(k) {
    return facts(
        ['State', pause(k.paused)],
        ['A new request, while its key is active', OVERLAPS[k.overlap]],
        ['With a result there already', k.when_completed === 'return'
            ? `it is given back${k.result_ttl ? `, for ${
                duration(k.result_ttl)}` : ''}` : 'it runs again'],
        ['“Regenerate”', k.allow_fresh ? 'may run in spite of a result'
            : 'is not for this kind'],
        ['Lease', `${duration(k.lease_seconds)}, at most ${
            duration(k.max_runtime)} in all`],
        ['Attempts', `at most ${k.max_attempts} within ${
            duration(k.retry_for)}`],
        ['Between them', `${duration(k.backoff)} to ${
            duration(k.max_backoff)}`],
        ['A job whose worker is lost', LOST[k.on_lost] ?? k.on_lost],
        ['Waiting for one key', k.max_waiting === null ? null
            : `at most ${k.max_waiting}`],
        ['Queued in all', k.max_queued === null ? null
            : `at most ${k.max_queued}`],
        ['Waits at most', duration(k.max_wait)],
        ['Limits', k.limits?.length > 0 ? el('a', { href: '/ui/limits' },
            k.limits.join(', ')) : null],
        ['Protects', k.protects],
        ['Version', String(k.version)]);
}


async function one(root, name, { session, signal }) {
    const path = apiPath('/v1/kinds', name);
    const parts = { stands: el('div'), acts: el('div'), stored: el('div'),
        advice: el('div', null, el('p', { class: 'loading' }, 'Looking …')) };

    async function look() {
        const { body: k, text } = await get(path, { signal });

        clear(parts.stands, stands(k));
        clear(parts.acts, kindAction(k, { session,
            done: () => look().catch(() => {}) }));
        clear(parts.stored, raw(text, 'The policy as stored'));

        if (!root.contains(parts.stands)) {
            clear(root,
                el('div', { class: 'columns' },
                    el('section', { class: 'card', 'aria-label': 'Policy' },
                        el('h2', null, 'Policy'), parts.stands, parts.acts),
                    el('section', { class: 'card', 'aria-label': 'Advice' },
                        el('h2', null, 'Advice'), parts.advice)),
                el('p', { class: 'after' }, el('a', {
                    href: `/ui/jobs?kind=${enc(name)}` }, 'Its jobs'), ' · ',
                el('a', { href: `/ui/works?kind=${enc(name)}` }, 'its works'),
                ' · ', el('a', { href: `/ui/leases?kind=${enc(name)}` },
                    'its leases')),
                el('section', { 'aria-label': 'Explain' },
                    el('h2', null, 'Explain'), explain(name, session)),
                el('section', { 'aria-label': 'As stored' },
                    el('h2', null, 'As stored'), parts.stored));
        }
    }

    await guard(root, look, signal);

    try {
        clear(parts.advice, advice((await get(`${path}/advice`,
            { signal })).body));
    } catch (e) {
        if (e.type !== 'aborted') {
            clear(parts.advice, problemBox(e));
        }
    }
}


export function page(root, context) {
    return context.args.length > 0 ? one(root, context.args[0], context)
        : all(root, context.session);
}
