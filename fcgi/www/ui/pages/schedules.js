/* schedules.js: what is due when. */

import { pauseSchedule, runSchedule } from '../actions/schedule.js';
import { row as acts } from '../lib/action.js';
import { el } from '../lib/dom.js';
import { plural } from '../lib/facts.js';
import { list } from '../lib/list.js';
import { badge } from '../lib/state.js';
import { ago, time } from '../lib/time.js';

export const title = 'Schedules';

const path = (name) => `/ui/schedules/${encodeURIComponent(name)}`;


function gaps(s) {
    return Number(s.open_gaps) === 0 ? 'none'
        : el('a', { href: `/ui/gaps?schedule=${encodeURIComponent(s.name)}` },
            badge('gap', s.open_gaps >= 1000 ? '1000 or more'
                : plural(s.open_gaps, 'gap')));
}


function state(s) {
    return [
        s.paused ? badge('paused') : badge('ok', 'on'),
        s.trouble ? el('div', null, badge('error', s.trouble)) : null,
        s.paused && s.pause_note
            ? el('div', { class: 'quiet' }, s.pause_note) : null,
        s.skips_in_row > 0 ? el('div', { class: 'quiet' },
            `${plural(s.skips_in_row, 'slot')} skipped in a row`) : null,
    ];
}


export function page(root, { session }) {
    root.append(el('p', { class: 'lead' }, 'A schedule says which slots are '
        + 'expected. Each is run, skipped with a reason, or shows up as a '
        + 'gap.'));

    const l = list(root, {
        path: '/v1/schedules',
        caption: 'Schedules, by name',
        key: 'name',
        empty: 'There is no schedule. “interlock schedule put” makes one.',
        columns: [
            { label: 'Schedule', head: true, cell: (s) =>
                el('a', { href: path(s.name) }, s.name) },
            { label: 'State', class: 'text', cell: state },
            { label: 'When', class: 'tight', cell: (s) => [
                el('span', { class: 'code' }, s.cron),
                el('div', { class: 'quiet' }, s.zone)] },
            { label: 'Kind', class: 'tight', cell: (s) => [el('a', {
                href: `/ui/kinds/${encodeURIComponent(s.kind)}` }, s.kind),
            el('div', { class: 'quiet' },
                plural(s.subject_count, 'subject'))] },
            { label: 'Next slot', class: 'tight', cell: (s) => (s.next_at
                ? [time(s.next_at), el('div', { class: 'quiet' },
                    ago(s.next_at))] : '–') },
            { label: 'Last slot', class: 'tight', cell: (s) => (s.last_slot_at
                ? [time(s.last_slot_at), el('div', { class: 'quiet' },
                    ago(s.last_slot_at))] : '–') },
            { label: 'Gaps', class: 'tight', cell: gaps },
            { label: '', class: 'decide', cell: (s) => acts(
                pauseSchedule(s, { session, done: () => l.reload() }),
                runSchedule(s, { session, done: () => l.reload() })) },
        ],
    });
}
