/* schedule.js: one schedule: a calendar of its slots, its gaps, its acts. */

import { impactOf, rerunDate, runSchedule, scheduleActions }
    from '../actions/schedule.js';
import { row as acts } from '../lib/action.js';
import { get, query as toQuery } from '../lib/api.js';
import { calendar } from '../lib/chart.js';
import { clear, el } from '../lib/dom.js';
import { enc, facts, plural } from '../lib/facts.js';
import { apiPath, jobName, workName } from '../lib/id.js';
import { list } from '../lib/list.js';
import { go, query as here } from '../lib/nav.js';
import { guard, problemBox } from '../lib/problem.js';
import { raw } from '../lib/raw.js';
import { badge } from '../lib/state.js';
import { ago, duration, time } from '../lib/time.js';
import { COLUMNS as GAPS } from './gaps.js';

export const title = ({ args }) => args[0];

const SUBJECTS = 40;            /* more are counted by date */
const PAGES = 5;                /* of 200 slots, for the calendar */
const DAYS = 30;

/* the worst of a cell's slots first */
const CELLS = [
    ['gap', { tone: 'bad', sign: '✕', word: 'gap' }],
    ['failed', { tone: 'bad', sign: '✕', word: 'failed' }],
    ['held', { tone: 'warn', sign: '!', word: 'held' }],
    ['active', { tone: 'run', sign: '▶', word: 'under way' }],
    ['waiting', { tone: 'wait', sign: '…', word: 'waits' }],
    ['skipped', { tone: 'off', sign: '–', word: 'skipped' }],
    ['done', { tone: 'ok', sign: '✓', word: 'done' }],
];


/* stateOf(slot): which of these a slot is. */
export function stateOf(s) {
    /* (a gap is closed a moment after its work is done) */
    if (s.generated || s.state === 'run') {
        return 'done';
    }

    if (s.gap_state === 'open') {
        return 'gap';
    }

    if (s.state === 'skipped' || s.state === 'waiting') {
        return s.state;
    }

    return {
        failed: 'failed', expired: 'failed', canceled: 'failed',
        held: 'held', checking: 'held', succeeded: 'done',
    }[s.job_status] ?? 'active';
}


/* ---------------------------------------------------------------- calendar */


const weekday = (date) => new Date(`${date}T12:00:00Z`)
    .toLocaleDateString(undefined, { weekday: 'short', timeZone: 'UTC' });

const column = (date) => ({ key: date, label: [
    el('span', { class: 'day' }, date.slice(8)),
    el('span', { class: 'month' }, `${date.slice(5, 7)} ${weekday(date)}`)],
title: `${weekday(date)} ${date}` });


/* The slots of the range, if they are few enough for a cell each. */
async function slots(name, range, signal) {
    const all = [];
    let cursor = null;

    for (let n = 0; n < PAGES; n++) {
        const { body } = await get(`${apiPath('/v1/schedules', name, '/slots')}`
            + toQuery({ ...range, limit: 200, cursor }), { signal });
        all.push(...body.items);
        cursor = body.next;
        if (cursor === null) {
            return all;
        }
    }

    return null;
}


function bySubject(name, all, days, open) {
    const cells = new Map();
    const subjects = new Set();

    for (const s of all) {
        if (s.subject === null) {
            continue;
        }
        subjects.add(s.subject);
        const key = `${s.business_date} ${s.subject}`;
        cells.set(key, [...cells.get(key) ?? [], s]);
    }

    const skips = new Map(days.map((d) => [d.business_date, d]));

    return calendar({
        title: 'Slots by subject and business date', corner: 'Subject',
        columns: days.map((d) => column(d.business_date)).reverse(),
        rows: [...subjects].sort().map((s) => ({ key: s, label: s || '(one)' })),
        cell: (r, c) => {
            const of = cells.get(`${c.key} ${r.key}`) ?? [];

            if (of.length === 0) {
                const day = skips.get(c.key);
                return day && day.reasons.length > 0 && day.skipped > 0
                    ? { tone: 'off', sign: '–', word: 'skipped',
                        title: `skipped: ${day.reasons.join(', ')}`,
                        onclick: () => open(c.key) } : null;
            }

            const states = of.map(stateOf);
            const [worst, look] = CELLS.find(([s]) => states.includes(s));
            const n = states.filter((s) => s === worst).length;
            const first = of[states.indexOf(worst)];

            return { ...look,
                word: of.length > 1 && worst !== 'done'
                    ? `${n}/${of.length} ${look.word}` : look.word,
                title: [`${look.word}${of.length > 1
                    ? ` (${n} of ${of.length} slots)` : ''}`,
                first.reason, first.failed > 0
                    ? `${first.failed} failed inside` : null]
                    .filter(Boolean).join(', '),
                onclick: () => open(c.key) };
        },
    });
}


const COUNTS = [
    ['done', 'Done', 'done'], ['gaps', 'Gaps', 'gap'],
    ['admitted', 'Not done', 'active'], ['waiting', 'Waiting', 'waiting'],
    ['skipped', 'Skipped', 'skipped'],
];


function byDate(days, open) {
    const of = new Map(days.map((d) => [d.business_date, d]));
    const looks = new Map(CELLS);

    return calendar({
        title: 'Slots by business date', corner: 'Slots',
        note: 'counted: there are too many subjects for a row each',
        columns: days.map((d) => column(d.business_date)).reverse(),
        rows: COUNTS.map(([key, label]) => ({ key, label })),
        cell: (r, c) => {
            const day = of.get(c.key);
            const n = Number(day[r.key]);
            const look = looks.get(COUNTS.find(([key]) => key === r.key)[2]);

            return n === 0 ? null : { ...look,
                word: `${n}${day.more && n > 1 ? '+' : ''}`,
                title: `${n} of ${day.slots}${day.more ? ' and more' : ''}`,
                onclick: () => open(c.key) };
        },
    });
}


function key() {
    return el('ul', { class: 'legend' }, CELLS.map(([state, c]) => el('li',
        { class: `is-${c.tone}`, data: { state } },
        el('span', { class: 'sign', 'aria-hidden': 'true' }, c.sign), ' ',
        c.word)));
}


async function slotsCalendar(box, name, schedule, q, signal) {
    const range = { from: q.from, to: q.to };
    const open = (date) => go(`${location.pathname}${toQuery({ ...range,
        date })}#date`);
    const days = (await get(`${apiPath('/v1/schedules', name, '/days')}`
        + toQuery(range), { signal })).body.items;

    if (days.length === 0) {
        clear(box, el('p', { class: 'empty' }, q.from || q.to
            ? 'No slot of it came up in that range.'
            : 'No slot of it came up yet.'));
        return;
    }

    const total = days.reduce((n, d) => n + Number(d.slots), 0);
    const all = schedule.subject_count <= SUBJECTS
        && total <= PAGES * 200 ? await slots(name, {
            from: days.at(-1).business_date, to: days[0].business_date },
        signal) : null;

    clear(box, all === null || !all.some((s) => s.subject !== null)
        ? byDate(days, open) : bySubject(name, all, days, open), key());
}


function rangeForm(q) {
    const field = (id, label) => {
        const input = el('input', { type: 'date', id: `range-${id}`, name: id,
            value: q[id] ?? '' });
        return el('div', { class: 'field' },
            el('label', { for: `range-${id}` }, label), input);
    };

    return el('form', { class: 'filters', 'aria-label': 'Dates shown',
        onsubmit: (e) => {
            e.preventDefault();
            const f = new FormData(e.target);
            go(`${location.pathname}${toQuery({ from: f.get('from'),
                to: f.get('to') })}`);
        } }, field('from', 'From'), field('to', 'To'),
    el('div', { class: 'field buttons' },
        el('button', { type: 'submit' }, 'Show'),
        el('a', { class: 'button plain', href: location.pathname },
            `Last ${DAYS + 1} days`)));
}


/* -------------------------------------------------------------- one date */

const SLOTS = [
    { label: 'State', class: 'tight', cell: (s) => {
        const [, c] = CELLS.find(([id]) => id === stateOf(s));
        return el('span', { class: ['badge', `is-${c.tone}`] },
            el('span', { class: 'sign', 'aria-hidden': 'true' }, c.sign),
            c.word);
    } },
    { label: 'Subject', class: 'key', head: true,
        cell: (s) => s.subject ?? plural(s.subjects, 'subject') },
    { label: 'Slot', class: 'tight', cell: (s) => (s.slots > 1
        ? [time(s.slot_at), ' – ', time(s.until), ` (${s.slots})`]
        : time(s.slot_at)) },
    { label: 'Work key', class: 'key', cell: (s) => [workName(s.work_key),
        s.job_id ? el('div', null, jobName(s.job_id, { short: true }), ' ',
            badge(s.job_status)) : null] },
    { label: 'Began late by', class: 'number', cell: (s) =>
        (s.delay_seconds === null ? '–' : duration(s.delay_seconds)) },
    { label: 'Processed, failed', class: 'number', cell: (s) =>
        (s.processed === null && s.failed === null ? '–'
            : `${s.processed ?? 0}, ${s.failed ?? 0}`) },
    { label: 'Last success', class: 'tight', cell: (s) => [
        ago(s.last_success), s.delivered === null ? null
            : el('div', { class: 'quiet' }, s.delivered
                ? 'delivered' : 'not delivered')] },
    { label: 'Why', class: 'text', cell: (s) => s.reason ?? '' },
];


function oneDate(name, schedule, date, options) {
    const impact = el('div', null, el('p', { class: 'loading' }, 'Looking …'));
    const look = async () => {
        try {
            const { body } = await get(apiPath('/v1/schedules', name,
                `/slots/${enc(date)}/impact`), { signal: options.signal });
            clear(impact, impactOf(body, false));
        } catch (e) {
            if (e.type === 'aborted') {
                return;
            }
            clear(impact, e.status === 404
                ? el('p', { class: 'quiet' }, 'No slot of that date came up.')
                : problemBox(e, look));
        }
    };
    const place = el('div');
    const done = () => {
        look();
        l.reload();
        options.done();
    };

    const node = el('section', { id: 'date', 'aria-label': `Slots of ${date}` },
        el('div', { class: 'section-head' }, el('h2', null, date),
            el('a', { href: location.pathname + toQuery({ ...here(),
                date: null }) }, 'Close')),
        impact,
        acts(rerunDate(schedule, date, { ...options, done }),
            runSchedule(schedule, { ...options, done, value: date,
                label: 'Run this date …' })),
        place);

    const l = list(place, {
        path: apiPath('/v1/schedules', name, '/slots'),
        fixed: { from: date, to: date },
        caption: `Slots of ${date}`,
        key: (s) => `${s.slot_at} ${s.subject}`,
        empty: 'No slot of that date came up.',
        columns: SLOTS,
    });

    look();

    return node;
}


/* -------------------------------------------------------------- the page */


function stands(s) {
    return facts(
        ['State', [s.paused ? badge('paused') : badge('ok', 'on'),
            s.paused && s.pause_note ? ` ${s.pause_note}` : null]],
        ['Trouble', s.trouble],
        ['When', [el('span', { class: 'code' }, s.cron), ` in ${s.zone}`]],
        ['Next slot', s.next_at ? [time(s.next_at, { full: true }), ', ',
            ago(s.next_at)] : 'none'],
        ['Kind', el('a', { href: `/ui/kinds/${enc(s.kind)}` }, s.kind)],
        ['Work key', el('span', { class: 'code' }, s.work_key)],
        ['Subjects', s.subjects && s.subject_count <= 12
            ? s.subjects.join(', ') : String(s.subject_count)],
        ['A gap after', duration(s.grace)],
        ['After an absence', { latest: 'the latest slot is run',
            all: `each slot is run, at most ${s.catch_up_max}`,
            skip: 'missed slots are skipped' }[s.catch_up] ?? s.catch_up],
        ['Waits for a person', s.approve_after === null ? null
            : `if it is late by more than ${duration(s.approve_after)}`],
        ['Skipped in a row', s.skips_in_row > 0 ? String(s.skips_in_row)
            : null],
        ['Version', `${s.version}, since ${new Date(s.updated_at)
            .toLocaleString()}`]);
}


export async function page(root, { args, query, session, signal }) {
    const name = args[0];
    const path = apiPath('/v1/schedules', name);
    const parts = { stands: el('div'), acts: el('div'), calendar: el('div') };
    let l = null;

    async function look() {
        const { body: s, text } = await get(path, { signal });

        clear(parts.stands, stands(s));
        clear(parts.acts, scheduleActions(s, { session,
            done: () => look().catch(() => {}) }));

        if (!root.contains(parts.stands)) {
            const gaps = el('section', { 'aria-label': 'Open gaps' },
                el('h2', null, 'Open gaps'));

            clear(root,
                el('section', { class: 'card', 'aria-label': 'How it stands' },
                    parts.stands, parts.acts),
                el('section', { 'aria-label': 'Calendar' },
                    el('h2', null, 'Calendar'), rangeForm(query),
                    parts.calendar),
                query.date ? oneDate(name, s, query.date, { session, signal,
                    done: () => look().catch(() => {}) }) : null,
                query.date ? null : gaps,
                el('details', null, el('summary', null, 'As stored'),
                    raw(text, 'The schedule as stored')));

            if (query.date) {
                root.querySelector('#date').scrollIntoView();
            } else {
                l = list(gaps, {
                    path: '/v1/gaps', fixed: { schedule: name, state: 'open' },
                    caption: 'Open gaps, the longest missing first',
                    key: 'gap_id', empty: 'None.',
                    columns: GAPS(session, () => {
                        l.reload();
                        look().catch(() => {});
                    }).filter((c) => c.label !== 'Schedule'),
                });
            }
        }

        await slotsCalendar(parts.calendar, name, s, query, signal)
            .catch((e) => {
                if (e.type !== 'aborted') {
                    clear(parts.calendar, problemBox(e));
                }
            });
    }

    await guard(root, look, signal);
}
