/* gaps.js: slots whose work is not done after their grace time. */

import { gapActions } from '../actions/gap.js';
import { get } from '../lib/api.js';
import { el } from '../lib/dom.js';
import { jobName, workName } from '../lib/id.js';
import { list } from '../lib/list.js';
import { badge } from '../lib/state.js';
import { ago, time } from '../lib/time.js';

export const title = 'Gaps';

export const schedules = async () => (await get('/v1/schedules')).body.items
    .map((s) => s.name);

const STATES = [['open', 'open'], ['approved', 'run by hand'],
    ['dismissed', 'left undone'], ['closed', 'done late']];

export const COLUMNS = (session, reload) => [
    { label: 'State', class: 'tight', cell: (g) =>
        badge(g.state === 'open' ? 'gap' : g.state, g.state) },
    { label: 'Schedule', class: 'tight', cell: (g) => el('a', {
        href: `/ui/schedules/${encodeURIComponent(g.schedule)}` },
    g.schedule) },
    { label: 'Date', class: 'tight', head: true, cell: (g) => [el('a', {
        href: `/ui/schedules/${encodeURIComponent(g.schedule)}`
            + `?date=${g.business_date}` }, g.business_date),
    el('div', { class: 'quiet' }, g.subject)] },
    { label: 'Work key', class: 'key', cell: (g) => [workName(g.work_key),
        g.job_id ? el('div', null, 'job ', jobName(g.job_id,
            { short: true })) : null] },
    { label: 'Since', class: 'tight', cell: (g) => [ago(g.since),
        el('div', { class: 'quiet' }, time(g.slot_at))] },
    { label: 'Why', class: 'text', cell: (g) => [g.why, g.reason
        ? el('div', { class: 'quiet' }, `${g.requested_by}: ${g.reason}`)
        : null] },
    { label: 'Decide', class: 'decide',
        cell: (g) => (g.state === 'open'
            ? gapActions(g, { session, done: reload }) : '–') },
];


export function page(root, { session }) {
    root.append(el('p', { class: 'lead' }, 'A slot of a schedule that was due '
        + 'and whose work nobody has done. It is closed when the work is '
        + 'done; or a person runs it, or says that it stays undone.'));

    const l = list(root, {
        path: '/v1/gaps',
        caption: 'Gaps, the longest missing first',
        key: 'gap_id',
        empty: 'No gap: the work of every slot that was due is done.',
        filters: [
            { name: 'state', label: 'State', kind: 'select', options: STATES,
                any: 'open' },
            { name: 'schedule', label: 'Schedule', kind: 'select',
                options: schedules },
        ],
        columns: COLUMNS(session, () => l.reload()),
    });
}
