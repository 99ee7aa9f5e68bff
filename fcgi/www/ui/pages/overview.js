/* overview.js: what needs somebody first, then how work stands. */

import { get, query as toQuery } from '../lib/api.js';
import { lines } from '../lib/chart.js';
import { clear, el } from '../lib/dom.js';
import { kinds as kindNames } from '../lib/kinds.js';
import { row, table, tableBox } from '../lib/list.js';
import { awake, onJob } from '../lib/live.js';
import { onQuery, query, setQuery } from '../lib/nav.js';
import { guard, problemBox } from '../lib/problem.js';
import { badge } from '../lib/state.js';
import { ago, duration, time } from '../lib/time.js';

export const title = 'Overview';

const AGAIN = 10_000;           /* ms between looks while nothing is told */
const SETTLE = 2000;            /* after an event */
const CHART = 60_000;           /* samples are of whole minutes */
const HOURS = [['1', 'hour'], ['6', '6 hours'], ['24', 'day'],
    ['168', 'week'], ['336', 'two weeks']];

/* what: [one, many, tone, what to do] */
const ATTENTION = {
    effects_needs_human: ['effect needs a decision', 'effects need a decision',
        'bad', 'Its provider could not say whether it happened.'],
    effects_unknown: ['effect is unknown', 'effects are unknown', 'warn',
        'Sent, and no answer came. Look-ups settle most of these.'],
    held: ['job is held', 'jobs are held', 'warn',
        'Lost in the middle; a person says whether it may go on.'],
    failed: ['job has failed', 'jobs have failed', 'bad',
        'For good, and no later one of its work has succeeded.'],
    checking: ['job is checked', 'jobs are checked', 'run',
        'Lost; its result or effects are looked up before it goes on.'],
    parked: ['job is parked', 'jobs are parked', 'warn',
        'No room in its line. It comes in by itself, or is let in.'],
    lost_24h: ['lease was lost', 'leases were lost', 'warn',
        'In the last 24 hours: a worker died, or was too slow to renew.'],
    gaps: ['date is missing', 'dates are missing', 'bad',
        'Scheduled work that has not been done.'],
    approvals: ['date waits for approval', 'dates wait for approval', 'warn',
        'Too old to be caught up with unasked.'],
    skips: ['schedule skips', 'schedules skip', 'warn',
        'Its dates come faster than its work is done.'],
    full_queues: ['queue is full', 'queues are full', 'bad',
        'New requests are refused with 429, or parked.'],
    paused: ['thing is paused', 'things are paused', 'warn',
        'A person stopped it; it stays so until it is resumed.'],
    oldest_waiting: ['job could run', 'jobs could run', 'wait',
        'Waiting for a worker. The link leads to the oldest.'],
};


function card(item, cap) {
    const [one, many, tone, say] = ATTENTION[item.what]
        ?? [item.what.replaceAll('_', ' '), item.what.replaceAll('_', ' '),
            'warn', ''];
    const count = item.count >= cap ? `${cap}+` : String(item.count);

    return el('li', { class: ['card', 'attention', `is-${tone}`],
        data: { what: item.what } },
    el('a', { href: item.path },
        el('strong', { class: 'figure' }, count), ' ',
        item.count === 1 ? one : many),
    el('p', null, say),
    item.oldest_at ? el('p', { class: 'quiet' }, 'oldest ',
        ago(item.oldest_at)) : null);
}


function attention(doc) {
    const some = doc.attention.filter((a) => a.count > 0
        && a.what !== 'oldest_waiting');
    const waiting = doc.attention.find((a) => a.what === 'oldest_waiting'
        && a.count > 0);
    const order = Object.keys(ATTENTION);

    some.sort((a, b) => order.indexOf(a.what) - order.indexOf(b.what));

    return [
        some.length === 0 ? el('p', { class: 'note is-good' },
            badge('ok', 'Nothing needs you'), ' No unknown effects, no held, '
            + 'parked or failed jobs, no gaps, no full queues.') : null,
        el('ul', { class: 'cards' },
            [...some, ...(waiting ? [waiting] : [])]
                .map((a) => card(a, doc.cap))),
    ];
}


function depth(k) {
    const share = k.max_queued > 0 ? k.queued / k.max_queued : 0;

    return [String(k.queued), share >= 0.5 ? el('div', { class: 'quiet' },
        `${Math.floor(share * 100)} % of ${k.max_queued}`) : null];
}

const number = (n) => (n === 0 ? el('span', { class: 'none' }, '0')
    : String(n));

const jobsOf = (k, status, n) => (n === 0 ? number(0)
    : el('a', { href: `/ui/jobs${toQuery({ kind: k.kind, status })}` },
        String(n)));

const KINDS = [
    { label: 'Kind', head: true, class: 'key', cell: (k) => [
        el('a', { href: `/ui/kinds/${encodeURIComponent(k.kind)}` }, k.kind),
        k.paused ? [' ', badge('paused')] : null] },
    { label: 'Queued', class: 'number tight', cell: (k) => (k.queued === 0
        ? number(0) : el('a', { href: `/ui/jobs${toQuery({ kind: k.kind,
            status: 'queued' })}` }, depth(k))) },
    { label: 'Oldest that could run', class: 'number tight', cell: (k) =>
        (k.oldest_age_seconds === null ? '–' : el('a', {
            href: k.oldest_id ? `/ui/jobs/${k.oldest_id}` : null },
        duration(k.oldest_age_seconds))) },
    { label: 'Running', class: 'number tight',
        cell: (k) => jobsOf(k, 'running', k.running) },
    { label: 'Behind its key', class: 'number tight',
        cell: (k) => number(k.waiting) },
    { label: 'Parked', class: 'number tight',
        cell: (k) => jobsOf(k, 'parked', k.parked) },
];


function kinds(doc) {
    if (doc.kinds.length === 0) {
        return el('div', { class: 'empty' }, el('p', null,
            'No kind yet. `interlock kind put NAME FILE` makes one.'));
    }

    const grid = table(KINDS, 'Kinds of work and their queues');
    const busy = (k) => k.queued + k.running + k.waiting + k.parked
        + (k.paused ? 1 : 0);
    const some = doc.kinds.filter((k) => busy(k) > 0);
    const idle = doc.kinds.filter((k) => busy(k) === 0);

    clear(grid.body, some.map((k) => row(KINDS, k)));

    return [
        some.length > 0 ? tableBox(grid.node) : null,
        idle.length > 0 ? el('p', { class: 'quiet idle' },
            some.length > 0 ? 'Nothing of ' : 'Nothing waits or runs: ',
            idle.map((k, i) => [i > 0 ? ', ' : '', el('a', {
                href: `/ui/kinds/${encodeURIComponent(k.kind)}` }, k.kind)]),
            '.') : null,
    ];
}


function edge(doc) {
    const { decisions, alone, missing, since } = doc.edge;
    const all = Object.entries(decisions).sort((a, b) => b[1] - a[1]);
    const sum = all.reduce((n, [, count]) => n + count, 0);

    if (sum === 0) {
        return el('p', { class: 'quiet' }, 'No request since ', time(since),
            '.');
    }

    return [
        el('p', null, `${sum} requests since `, time(since), `, ${alone} of `
            + `them (${Math.round(alone / sum * 100)} %) answered by nginx `
            + 'alone.',
        missing > 0 ? ` ${missing} of what nginx answered alone, ever, did `
            + 'not reach the list.' : null),
        el('ul', { class: 'inline' }, all.map(([decision, n]) => el('li',
            null, el('a', { class: 'bare',
                href: `/ui/requests${toQuery({ decision, since })}` },
            badge(decision, `${decision} ${n}`))))),
    ];
}


/* ------------------------------------------------------------------ charts */

function points(series, name) {
    return series.points.map((p) => ({ at: Date.parse(p.at),
        value: p[name] ?? 0 }));
}


/* The decisions that most requests got, the others together: six lines can
 * be told apart. */
function bySum(series) {
    const sums = {};

    for (const point of series.points) {
        for (const [name, n] of Object.entries(point)) {
            if (name !== 'at' && name !== 'alone') {
                sums[name] = (sums[name] ?? 0) + n;
            }
        }
    }

    const names = Object.keys(sums).sort((a, b) => sums[b] - sums[a]);
    const rest = names.length > 5 ? names.splice(4) : [];
    const out = names.map((name) => ({ name, points: points(series, name) }));

    if (rest.length > 0) {
        out.push({ name: 'others', points: series.points.map((p) => ({
            at: Date.parse(p.at),
            value: rest.reduce((n, name) => n + (p[name] ?? 0), 0),
        })) });
    }

    if (series.points.length > 0) {
        out.push({ name: 'by nginx alone', points: points(series, 'alone') });
    }

    return out;
}


async function charts(root, signal) {
    const { kind = '', hours = '6' } = query();
    const ask = (what) => get(`/v1/series${toQuery({ what, kind, hours })}`,
        { signal });
    const [queue, decisions] = await Promise.all([ask('queue'),
        ask('decisions')]);
    const q = queue.body;
    const d = decisions.body;
    const hole = 3000 * q.step_seconds;
    const note = kind === '' ? 'All kinds.' : `Kind ${kind}.`;
    const empty = 'Nothing has been sampled yet: the first point comes '
        + 'within a minute.';

    clear(root,
        lines({ title: 'Jobs that wait or run', note, empty, hole,
            series: ['queued', 'running', 'waiting', 'parked'].map((name) =>
                ({ name, points: points(q, name) })) }),
        lines({ title: 'Age of the oldest job that could run', note, empty,
            hole, unit: 'min', series: [{ name: 'age',
                points: points(q, 'oldest_age_seconds').map((p) =>
                    ({ ...p, value: p.value / 60 })) }] }),
        lines({ title: 'Requests by decision', empty, hole,
            note: `${note} Sums of ${duration(d.step_seconds)}.`,
            series: bySum(d) }));
}


function chooser() {
    const change = () => setQuery({ ...query(), kind: kind.value,
        hours: hours.value });
    const kind = el('select', { id: 'chart-kind', onchange: change },
        el('option', { value: '' }, 'all kinds'));
    const hours = el('select', { id: 'chart-hours', onchange: change },
        HOURS.map(([value, label]) => el('option', { value },
            `the last ${label}`)));

    const write = () => {
        hours.value = query().hours ?? '6';
        kind.value = query().kind ?? '';
    };

    kindNames().then((all) => {
        kind.append(...all.map((k) => el('option', { value: k }, k)));
        write();
    });
    write();

    return { write, node: el('div', { class: 'chooser' },
        el('label', { class: 'unseen', for: 'chart-kind' }, 'Kind'), kind,
        el('label', { class: 'unseen', for: 'chart-hours' }, 'Time'),
        hours) };
}


/* ---------------------------------------------------------------- the page */

export async function page(root, { signal }) {
    const parts = { attention: el('div'), kinds: el('div'), edge: el('div'),
        charts: el('div', { class: 'charts' }) };
    const choose = chooser();
    let   before = {};

    const section = (head, node, ...more) => el('section',
        { 'aria-label': head },
        el('div', { class: 'section-head' }, el('h2', null, head), more),
        node);

    clear(root,
        section('Needs attention', parts.attention),
        section('Kinds', parts.kinds),
        section('Over time', parts.charts, choose.node),
        section('Requests of the last hour', parts.edge));

    /* What did not change stays: a focus, a selection, a tooltip. */
    function show(name, what, make) {
        const now = JSON.stringify(what);
        if (before[name] !== now
            && !parts[name].contains(document.activeElement))
        {
            before[name] = now;
            clear(parts[name], make());
        }
    }

    async function look() {
        const { body } = await get('/v1/overview', { signal });

        show('attention', body.attention, () => attention(body));
        show('kinds', body.kinds, () => kinds(body));
        show('edge', body.edge.decisions, () => edge(body));
    }

    async function draw() {
        try {
            await charts(parts.charts, signal);
        } catch (error) {
            if (error.type !== 'aborted') {
                clear(parts.charts, problemBox(error, draw));
            }
        }
    }

    onQuery(() => {
        choose.write();
        draw();
    });

    await Promise.all([
        guard(parts.attention, look, signal),
        draw(),
    ]);

    let soon = null;

    const again = () => {
        soon = null;
        if (!signal.aborted && awake()) {
            look().catch(() => {});
        }
    };

    const timer = setInterval(again, AGAIN);
    const slow = setInterval(() => {
        if (awake() && !parts.charts.contains(
            document.activeElement))
        {
            draw();
        }
    }, CHART);

    signal.addEventListener('abort', () => {
        clearInterval(timer);
        clearInterval(slow);
        clearTimeout(soon);
    });

    onJob(() => {
        soon ??= setTimeout(again, SETTLE);
    });
}
