/* config.js: how this interlock is set up, and whether it is well. */

import { sourceAction } from '../actions/kind.js';
import { get } from '../lib/api.js';
import { clear, el } from '../lib/dom.js';
import { facts, plural, table } from '../lib/facts.js';
import { name } from '../lib/id.js';
import { awake } from '../lib/live.js';
import { guard } from '../lib/problem.js';
import { badge } from '../lib/state.js';
import { ago, time } from '../lib/time.js';

export const title = 'Configuration';

const LOOK = 15_000;

/* requests of interlock itself; schedules and kinds have their own pause */
const OWN = ['schedule', 'backfill', 'rerun'];


/* The probe answers on loopback alone; elsewhere that is no fault. */
async function ready(signal) {
    try {
        await get('/readyz', { signal });
        return badge('ok', 'ready');
    } catch (e) {
        if (e.type === 'aborted') {
            throw e;
        }
        return e.status === 503 ? [badge('error', 'not ready'), ' ',
            e.detail || e.title] : el('span', { class: 'quiet' },
            'The probe /readyz answers only on the server itself.');
    }
}


function database(d) {
    return facts(
        ['State', d.ok ? badge('ok', 'can be trusted')
            : [badge('error', 'not as it must be'), ' ', d.detail]],
        ['PostgreSQL', d.server_version],
        ['Schema', String(d.schema_version)],
        ['Time line', d.epoch],
        ['synchronous_commit', d.synchronous_commit],
        ['fsync', d.fsync],
        ['full_page_writes', d.full_page_writes]);
}


function edges(e, hour) {
    return facts(
        ['nginx zones heard of', String(e.zones ?? 0)],
        ['Last heard', e.heard_at ? ago(e.heard_at) : null],
        ['Records received', String(e.received ?? 0)],
        ['Records missing', e.missing > 0 ? badge('warn', plural(e.missing,
            'record')) : 'none'],
        ['Answered by nginx alone, last hour', hour ? String(hour.alone)
            : null],
        ['Decisions, last hour', hour && Object.keys(hour.decisions ?? {})
            .length > 0 ? el('ul', { class: 'inline' },
                Object.entries(hour.decisions).map(([d, n]) => el('li', null,
                    badge(d, `${d} ${n}`)))) : null]);
}


export async function page(root, { session, signal }) {
    const parts = Object.fromEntries(['well', 'database', 'edges', 'sources',
        'keys', 'settings', 'migrations'].map((id) => [id, el('div')]));
    const card = (head, part) => el('section', { class: 'card',
        'aria-label': head }, el('h2', null, head), part);

    async function look() {
        const [{ body: c }, well, hour] = await Promise.all([
            get('/v1/config', { signal }), ready(signal),
            get('/v1/overview', { signal }).then((r) => r.body.edge,
                () => null)]);

        if (!root.contains(parts.well)) {
            clear(root, el('div', { class: 'columns' },
                card('Health', parts.well), card('Database', parts.database),
                card('Edge', parts.edges), card('Signing keys', parts.keys)),
            el('section', { 'aria-label': 'Sources' },
                el('h2', null, 'Sources'), parts.sources),
            el('section', { 'aria-label': 'Settings' },
                el('h2', null, 'Settings'),
                el('p', { class: 'lead' }, 'Of interlockd; what is secret is '
                    + 'not here.'), parts.settings),
            el('section', { 'aria-label': 'Migrations' },
                el('details', null, el('summary', null,
                    'Migrations that were applied'), parts.migrations)));
        }

        clear(parts.well, facts(['interlockd', well],
            ['Version', c.version],
            ['Looked at', time(new Date())]));
        clear(parts.database, database(c.database));
        clear(parts.edges, edges(c.edges ?? {}, hour));
        clear(parts.keys, table('Signing keys', ['Key id', 'Use'],
            c.keys.map((k) => [name(k.kid, { what: 'key id' }), k.signs
                ? badge('ok', 'signs new tokens') : 'still valid'])));
        clear(parts.settings, table('Settings', ['Name', 'Value'],
            Object.entries(c.settings).map(([n, v]) => [
                el('span', { class: 'code' }, n),
                el('span', { class: 'code' }, String(v))])));
        clear(parts.migrations, table('Migrations', ['Number', 'Name',
            'Applied'], c.migrations.map((m) => [String(m.id), m.name,
            time(m.applied_at, { full: true })])));

        if (!parts.sources.contains(document.activeElement)) {
            clear(parts.sources, table('Sources', ['Source',
                'Requests in 24 hours', 'Rejected', 'State', ''],
            c.sources.map((s) => [s.name, String(s.requests_24h),
                String(s.rejected_24h), s.paused ? [badge('paused'), ' ',
                    s.paused.requested_by, ': ', s.paused.reason]
                    : badge('ok', 'taken'),
                OWN.includes(s.name) ? null : sourceAction(s, { session,
                    done: () => look().catch(() => {}) })]),
            'No request in the last 24 hours.'));
        }
    }

    await guard(root, look, signal);

    const timer = setInterval(() => {
        if (awake() && !document.querySelector('dialog[open]')) {
            look().catch(() => {});
        }
    }, LOOK);
    signal.addEventListener('abort', () => clearInterval(timer));
}
