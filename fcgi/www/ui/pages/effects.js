/* effects.js: what was sent into the outside world; what is not known first. */

import { get } from '../lib/api.js';
import { clear, el } from '../lib/dom.js';
import { plural } from '../lib/facts.js';
import { effectName, jobName, workName } from '../lib/id.js';
import { list, row, table, tableBox } from '../lib/list.js';
import { onJob } from '../lib/live.js';
import { problemBox } from '../lib/problem.js';
import { badge } from '../lib/state.js';
import { ago, time } from '../lib/time.js';

export const title = 'Effects';

const OPEN = 20;                /* of each unsettled state */
const SETTLE = 1500;

const STATES = ['needs_human', 'unknown', 'intended', 'confirmed', 'failed'];

const COLUMNS = [
    { label: 'State', class: 'tight', cell: (e) => badge(e.state) },
    { label: 'Effect', class: 'key', head: true, cell: (e) => [
        el('div', null, e.name ?? '–', el('span', { class: 'quiet' },
            ` ${e.kind}`)),
        effectName(e.effect_id, { short: true })] },
    { label: 'Work key', class: 'key', cell: (e) => [workName(e.work_key),
        el('div', null, 'job ', jobName(e.job_id, { short: true }))] },
    { label: 'Target', class: 'text', cell: (e) => e.target ?? '–' },
    { label: 'Last sent', class: 'tight', cell: (e) => time(e.last_sent) },
    { label: 'Provider’s reference', class: 'key',
        cell: (e) => e.provider_ref ?? '–' },
    { label: 'What it says', class: 'text', cell: (e) => e.why
        ?? (e.response_status ? `answered ${e.response_status}` : '') },
];

const UNSETTLED = [
    ...COLUMNS.slice(0, 3),
    { label: 'Unknown since', class: 'tight',
        cell: (e) => ago(e.unknown_since) },
    { label: 'What it waits for', class: 'text', cell: (e) => e.why ?? '' },
    { label: '', class: 'tight', cell: (e) => el('a', { class: 'button',
        href: `/ui/effects/${e.effect_id}` }, 'Look and decide') },
];


/* Those that are not known, longest first, above the list of all. */
async function unsettled(box, signal) {
    const pages = await Promise.all(['needs_human', 'unknown'].map((state) =>
        get(`/v1/effects?state=${state}&limit=${OPEN}`, { signal })));
    const all = pages.flatMap((p) => p.body.items)
        .sort((a, b) => String(a.unknown_since)
            .localeCompare(String(b.unknown_since)));
    const more = pages.some((p) => p.body.next !== null);

    if (all.length === 0) {
        clear(box, el('p', { class: 'note' },
            'Of every effect it is known whether it happened.'));
        return;
    }

    const grid = table(UNSETTLED, 'Effects that are not settled');
    clear(grid.body, all.map((e) => row(UNSETTLED, e)));
    clear(box, el('p', null, `Of ${plural(all.length, 'effect')}`
        + `${more ? ' and more' : ''} it is not known whether `
        + `${all.length === 1 ? 'it' : 'they'} happened. Nothing of their work `
        + 'that could repeat one runs until it is settled.'),
    tableBox(grid.node),
    more ? el('p', null, el('a', { href: '/ui/effects?state=needs_human' },
        'All that need a person'), ' · ',
    el('a', { href: '/ui/effects?state=unknown' }, 'all that are unknown'))
        : null);
}


export function page(root, { query, signal }) {
    root.append(el('p', { class: 'lead' }, 'One change of the outside world '
        + 'each: a payment, a mail, a write elsewhere. It is on record before '
        + 'it is sent, and what has happened is not sent again.'));

    if (Object.keys(query).length === 0) {
        const box = el('div', null, el('p', { class: 'loading' },
            'Looking …'));
        const look = () => unsettled(box, signal).catch((e) => {
            if (e.type !== 'aborted') {
                clear(box, problemBox(e, look));
            }
        });
        let soon = null;

        root.append(el('section', { 'aria-label': 'Not settled' },
            el('h2', null, 'Not settled'), box));
        look();
        onJob(() => {
            soon ??= setTimeout(() => {
                soon = null;
                if (!signal.aborted && !box.contains(document.activeElement)) {
                    look();
                }
            }, SETTLE);
        });
    }

    const all = el('section', { 'aria-label': 'All effects' },
        el('h2', null, 'All effects'));

    root.append(all);
    list(all, {
        path: '/v1/effects',
        caption: 'Effects, the newest first',
        key: 'effect_id',
        empty: 'No effect yet. A worker makes one when it begins a send.',
        filters: [
            { name: 'state', label: 'State', kind: 'select', options: STATES },
            { name: 'kind', label: 'Effect kind', kind: 'select',
                options: async () => (await get('/v1/effect-kinds')).body.items
                    .map((k) => k.name) },
            { name: 'work_key', label: 'Work key', kind: 'text' },
            { name: 'since', label: 'Begun since', kind: 'time' },
            { name: 'until', label: 'Begun before', kind: 'time' },
        ],
        columns: COLUMNS,
    });
}
