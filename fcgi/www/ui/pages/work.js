/* work.js: all that is known of one work key, and its time line. */

import { workActions, revisions } from '../actions/work.js';
import { get, query as toQuery } from '../lib/api.js';
import { clear, el, link } from '../lib/dom.js';
import { facts } from '../lib/facts.js';
import { apiPath, copyButton, effectName, jobName } from '../lib/id.js';
import { textOf } from '../lib/json.js';
import { row, table, tableBox } from '../lib/list.js';
import { onJob } from '../lib/live.js';
import { onQuery, query, setQuery } from '../lib/nav.js';
import { guard } from '../lib/problem.js';
import { raw } from '../lib/raw.js';
import { badge } from '../lib/state.js';
import { ago, time } from '../lib/time.js';
import { SORTS, entries, sort } from '../lib/timeline.js';

const PAGE = 100;
const SETTLE = 400;             /* ms; one look for a burst of events */

export const title = ({ args }) => args[0];


/* ------------------------------------------------------------ how it stands */

const JOBS = [
    { label: 'Status', class: 'tight', cell: (j) => badge(j.status) },
    { label: 'Job', class: 'tight', head: true,
        cell: (j) => jobName(j.job_id, { short: true }) },
    { label: 'Asked', class: 'tight', cell: (j) => time(j.created_at) },
    { label: 'Attempt', class: 'number', cell: (j) => j.attempt ?? 0 },
    { label: 'Fence', class: 'number', cell: (j) => j.fence ?? '–' },
    { label: 'Worker', class: 'tight', cell: (j) => j.worker ?? '–' },
    { label: 'Lease ends', class: 'tight', cell: (j) => ago(j.expires_at) },
    { label: 'Says', class: 'text', cell: (j) => j.error
        ?? (j.waits_on ? `waits for ${j.waits_on}` : j.place ?? '') },
];


function jobs(work) {
    const all = [
        ...work.active.map((j) => ({ ...j })),
        ...work.waiting.map((j) => ({ ...j, place: 'waits for its turn' })),
        ...work.parked.map((j) => ({ ...j, place: 'waits for room' })),
    ];

    if (all.length === 0) {
        return el('p', { class: 'quiet' },
            'Nothing of it is under way or waits.');
    }

    const grid = table(JOBS, 'Jobs of this work that have not ended');
    clear(grid.body, all.map((j) => row(JOBS, j)));

    return tableBox(grid.node);
}


function decisions(counts) {
    const all = Object.entries(counts ?? {});

    return all.length === 0 ? '–' : el('ul', { class: 'inline' },
        all.map(([decision, n]) => el('li', null, badge(decision,
            `${decision} ${n}`))));
}


function stands(work) {
    const first = work.active[0];

    return facts(
        ['State', first ? badge(first.status) : badge('idle')],
        ['Kind', el('a', { href: `/ui/kinds/${encodeURIComponent(work.kind)}` },
            work.kind)],
        work.paused ? ['Paused', el('span', null, badge('paused'), ' ',
            work.paused.reason ?? '')] : null,
        ['Fence', String(work.fence)],
        ['Highest version', work.max_version === null ? null
            : String(work.max_version)],
        ['Requests by decision', decisions(work.decisions)],
        ['Effects', effectsSummary(work.effects)]);
}


function effectsSummary(summary) {
    const all = Object.entries(summary ?? {}).filter(([, n]) =>
        typeof n === 'number' && n > 0);

    return all.length === 0 ? null : el('ul', { class: 'inline' },
        all.map(([state, n]) => el('li', null,
            badge(state, `${state.replaceAll('_', ' ')} ${n}`))));
}


function result(work) {
    const r = work.result;

    if (r === null) {
        return el('p', { class: 'quiet' },
            'None stands yet. The first job that succeeds publishes one.');
    }

    return [
        facts(
            ['Revision', String(r.revision)],
            ['Published', time(r.published_at)],
            ['By job', jobName(r.job_id)],
            ['Version', r.version === null ? null : String(r.version)],
            ['At', r.result_url ? link(r.result_url) : null],
            ['Counts', r.counts ? el('code', null, textOf(r, 'counts'))
                : null]),
        r.result === null ? null : raw(textOf(r, 'result'), 'The result'),
    ];
}


function open(final) {
    /* what merely waits its turn or runs is in the table of jobs */
    const rest = (final.open ?? []).filter((o) => o.what === 'effect'
        ? o.state !== 'intended' : !['queued', 'running'].includes(o.state));

    if (rest.length === 0) {
        return null;
    }

    return el('div', { class: 'note is-warn' },
        el('h3', null, 'Not decided yet'),
        el('ul', { class: 'points' }, rest.map((o) => el('li', null,
            badge(o.state), ' ',
            o.what === 'effect' ? ['effect ', o.name ? `${o.name} ` : '',
                effectName(o.id, { short: true })]
                : ['job ', jobName(o.id, { short: true })],
            ' since ', time(o.since),
            o.why ? `: ${o.why}` : null,
            o.assignee ? ` (${o.assignee} looks after it)` : null))));
}


/* ----------------------------------------------------------- the time line */

class TimeLine {

    constructor(key, signal) {
        this.key = key;
        this.signal = signal;
        this.pages = [];            /* [{cursor, entries}] */
        this.next = '';
        this.list = el('ol', { class: 'timeline', id: 'timeline' });
        this.more = el('button', { type: 'button', hidden: true,
            onclick: () => this.later() }, 'Show later entries');
        this.says = el('p', { class: 'count', role: 'status' });
        this.sort = el('select', { id: 'timeline-sort',
            onchange: (e) => setQuery({ ...query(),
                show: e.target.value }) },
        el('option', { value: '' }, 'everything'),
        SORTS.map(([value, label]) => el('option', { value }, label)));
        this.sort.value = query().show ?? '';
        this.node = el('div', null,
            el('div', { class: 'list-head' },
                el('label', { for: 'timeline-sort', class: 'quiet' },
                    'Show'), this.sort, this.says),
            this.list, el('p', null, this.more));
    }

    async fetch(cursor) {
        const { body } = await get(`/v1/audit${toQuery({
            work_key: this.key, limit: PAGE, cursor })}`,
        { signal: this.signal });

        this.next = body.next;

        return body;
    }

    /* The last page again: what is new is at its end. */
    async refresh() {
        const last = this.pages.at(-1) ?? { cursor: '' };
        const body = await this.fetch(last.cursor);

        if (this.pages.length > 0
            && body.timeline.length === last.entries.length
            && this.next === null)
        {
            return body;
        }

        last.entries = body.timeline;
        if (this.pages.length === 0) {
            this.pages.push(last);
        }
        this.show();

        return body;
    }

    async later() {
        this.more.disabled = true;
        try {
            const cursor = this.next;
            const body = await this.fetch(cursor);
            this.pages.push({ cursor, entries: body.timeline });
            const shown = this.list.children.length;
            this.show();
            const first = this.list.children[shown];
            if (first) {
                first.tabIndex = -1;
                first.focus({ preventScroll: true });
            }
        } finally {
            this.more.disabled = false;
        }
    }

    show() {
        const wanted = query().show ?? '';
        const all = this.pages.flatMap((p) => p.entries);
        const some = wanted === '' ? all
            : all.filter((e) => sort(e) === wanted);
        const opened = [...this.list.querySelectorAll('details')]
            .map((d) => d.open);

        this.sort.value = wanted;
        clear(this.list, entries(some));
        [...this.list.querySelectorAll('details')].forEach((d, i) => {
            d.open = opened[i] ?? false;
        });
        this.more.hidden = this.next === null;
        this.says.textContent = `${some.length} `
            + `${some.length === 1 ? 'entry' : 'entries'}`
            + (this.next === null ? '' : ', later ones follow');
    }
}


/* ---------------------------------------------------------------- the page */

export async function page(root, { args, session, signal }) {
    const key = args[0];
    const sees = session.role === 'operator' || session.role === 'auditor';
    const line = new TimeLine(key, signal);
    const parts = {};

    const section = (id, head) => {
        parts[id] = el('div');
        return el('section', { 'aria-label': head },
            el('h2', null, head), parts[id]);
    };

    parts.open = el('div');
    parts.actions = el('div');

    const frame = [
        el('p', { class: 'lead' }, 'Work key ',
            el('span', { class: 'code' }, key), copyButton(key, 'work key')),
        parts.open,
        el('div', { class: 'columns' },
            el('section', { class: 'card', 'aria-label': 'How it stands' },
                el('h2', null, 'How it stands'),
                parts.stands = el('div'), parts.actions),
            el('section', { class: 'card', 'aria-label': 'Result' },
                el('h2', null, 'Result'), parts.result = el('div'))),
        section('jobs', 'Jobs under way'),
        el('p', { class: 'links' }, 'All of its ',
            ['requests', 'jobs', 'effects'].map((what, i) => [
                ['', ', ', ' and '][i],
                el('a', { href: `/ui/${what}${toQuery({
                    work_key: key })}` }, what)]), '.'),
        sees ? el('section', { 'aria-label': 'Time line' },
            el('h2', null, 'Time line'), line.node)
            : el('p', { class: 'quiet' }, 'The time line is for operators '
                + 'and auditors.'),
        el('section', null, el('details', { ontoggle: (e) => {
            if (e.target.open && parts.revisions.childNodes.length === 0) {
                parts.revisions.append(revisions(key,
                    { session, done: () => look() }));
            }
        } }, el('summary', null, 'All revisions of its result'),
        parts.revisions = el('div'))),
    ];

    let acts = '';

    async function look() {
        const [work, audit] = await Promise.all([
            get(apiPath('/v1/works', key), { signal }),
            sees ? line.refresh() : null,
        ]);
        const w = work.body;

        if (!root.contains(parts.stands)) {
            clear(root, frame);
        }

        clear(parts.stands, stands(w));
        clear(parts.result, result(w));
        clear(parts.jobs, jobs(w));
        clear(parts.open, audit ? open(audit.final) : null);

        /* a dialog may be open above a button: only anew if it must be */
        const now = w.active.map((j) => `${j.job_id} ${j.status}`).join();
        if (acts !== now || parts.actions.childNodes.length === 0) {
            acts = now;
            clear(parts.actions, workActions(w,
                { session, done: () => look() }));
        }
    }

    await guard(root, look, signal);

    onQuery(() => line.show());

    let soon = null;

    onJob((event) => {
        if (event === null || event.work_key === key) {
            soon ??= setTimeout(() => {
                soon = null;
                if (!signal.aborted) {
                    look().catch(() => {});
                }
            }, SETTLE);
        }
    });
}
