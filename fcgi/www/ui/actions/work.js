/*
 * actions/work.js: what a person may do about a piece of work: run it again,
 * with what that would meet seen first; put a revision of its result forward.
 */

import { action, jobLink, row, workLink } from '../lib/action.js';
import { get } from '../lib/api.js';
import { clear, el } from '../lib/dom.js';
import { enc, plural, points, table } from '../lib/facts.js';
import { parse, textOf } from '../lib/json.js';
import { raw } from '../lib/raw.js';
import { badge } from '../lib/state.js';
import { time } from '../lib/time.js';
import { cancelAction, effectsSeen } from './job.js';


/* ------------------------------------------------------------------- rerun */


function impact(i) {
    const would = i.would_do;
    const kept = would.not_sent_again;

    return [
        points(
            would.possible ? ['A new job of ', workLink(i.work_key),
                ' is queued', would.rerun_of ? [', which repeats ',
                    jobLink(would.rerun_of, would.rerun_of.slice(-12))]
                    : null, '.'] : null,
            i.result ? [`Revision ${i.result.revision} stands, published `,
                time(i.result.published_at), would.possible
                    ? '. It stays until the new job has succeeded.' : '.']
                : 'No result stands now.',
            i.reached_outside > 0
                ? `${plural(i.reached_outside, 'effect')} ${i.reached_outside
                    === 1 ? 'has' : 'have'} reached the outside world.`
                : 'Nothing of it has reached the outside world.',
            !would.possible ? null
                : kept.length > 0 ? `Not sent again: ${kept.join(', ')}.`
                : i.reached_outside > 0
                    ? 'Its effects belong to each job by itself: the new job'
                        + ' may send them once more.' : null,
            i.unsettled > 0 ? `${plural(i.unsettled, 'effect')} may have`
                + ' happened.' + (would.possible ? ' The new job may send such'
                + ' a one again only under the key that it has, as long as its'
                + ' provider honours that key; else it is looked up or settled'
                + ' first.' : '') : null),
        i.effects.length > 0 ? effectsSeen(i.effects) : null,
        el('details', {}, el('summary', {},
            `Its last ${plural(i.jobs.length, 'job')}`),
            table('Jobs', ['Job', 'Status', 'Began', 'Ended', 'Error'],
                i.jobs.map((j) => [jobLink(j.job_id, j.job_id.slice(-12)),
                    badge(j.status), time(j.created_at), time(j.finished_at),
                    j.error]))),
    ];
}


/*
 * rerunAction(key, {session, done}): the call quotes the impact that was
 * shown; if that has changed meanwhile it is refused, and shown anew.
 */
export function rerunAction(key, { session, done, label, not }) {
    return action({
        label: label ?? 'Run again …', title: 'Run this work again', session,
        done, not,
        fields: [{ name: 'payload', label: 'Payload, instead of the one it had',
            kind: 'textarea', hint: 'JSON; numbers are kept as written.' }],
        what: async () => {
            const i = (await get(`/v1/works/${enc(key)}/impact`)).body;
            return { node: impact(i), seen: i.impact_id,
                blocked: i.would_do.possible ? null
                    : `It cannot be run again now: ${i.would_do.why_not}.` };
        },
        path: `/v1/works/${enc(key)}/rerun`,
        body: (v, seen) => ({
            impact_id: seen,
            ...(v.payload.trim() === '' ? {} : { payload: parse(v.payload) }),
            requested_by: v.requested_by, reason: v.reason,
        }),
        said: (a) => el('p', {}, 'It is queued: ',
            jobLink(a.job_id, a.job_id), ' is ', badge(a.status), '.'),
    });
}


/* --------------------------------------------------------------- revisions */


function shown(r) {
    if (r === null) {
        return el('p', {}, 'No result stands now.');
    }

    return [
        el('p', {}, `Revision ${r.revision} of `, jobLink(r.job_id),
            r.counts ? `, ${r.counts.processed ?? 0} processed, `
                + `${r.counts.failed ?? 0} failed` : null,
            r.published_at ? [', published ', time(r.published_at)] : null,
            r.result_url ? [', ', el('span', { class: 'code' }, r.result_url)]
                : null, '.'),
        r.result === null ? null : raw(textOf(r, 'result'), 'The result'),
    ];
}


async function result(key, revision) {
    try {
        return (await get(`/v1/works/${enc(key)}/result${revision
            ? `?revision=${revision}` : ''}`)).body;
    } catch (e) {
        if (e.status === 404) {
            return null;
        }
        throw e;
    }
}


/* publishAction(key, revision, {session, done}): lets that revision stand. */
export function publishAction(key, revision, { session, done, label, not }) {
    return action({
        label: label ?? 'Let it stand', session, done, not,
        title: `Let revision ${revision} stand`,
        what: async () => {
            const [current, meant] = await Promise.all([result(key),
                result(key, revision)]);

            if (meant === null) {
                return { node: null,
                    blocked: `There is no revision ${revision}.` };
            }

            return {
                node: [
                    el('h4', {}, 'Stands now'), shown(current),
                    el('h4', {}, 'Will stand'), shown(meant),
                    points('It takes a fence for itself: a job that runs now'
                        + ' keeps its result as a revision and does not take'
                        + ' its place.'),
                ],
                blocked: current?.revision === meant.revision
                    ? 'It stands already.' : null,
            };
        },
        path: `/v1/works/${enc(key)}/publish`,
        body: (v) => ({ revision, requested_by: v.requested_by,
            reason: v.reason }),
        said: (r) => el('p', {}, `Revision ${r.revision} of `,
            workLink(r.work_key), ' stands now.'),
    });
}


/*
 * revisions(key, {session, done}): the results that a work key had, newest
 * first, each with what lets it stand; filled when it is in the page.
 */
export function revisions(key, options) {
    const box = el('div', { class: 'revisions' },
        el('p', { class: 'quiet' }, 'Looking …'));

    const page = async (cursor) => (await get(`/v1/works/${enc(key)}/revisions`
        + (cursor ? `?cursor=${enc(cursor)}` : ''))).body;

    const rows = (items) => items.map((r) => [
        [String(r.revision), ' ', r.current ? badge('published', 'stands')
            : null],
        jobLink(r.job_id, r.job_id.slice(-12)),
        time(r.created_at),
        r.origin,
        r.counts ? `${r.counts.processed ?? 0} / ${r.counts.failed ?? 0}` : '–',
        publishAction(key, r.revision, { ...options,
            not: r.current ? 'It stands already.' : null }),
    ]);

    const show = async () => {
        let doc = await page(null);
        const items = [...doc.items];
        const draw = () => clear(box, table('Revisions', ['Revision', 'Job',
            'Made', 'By', 'Processed / failed', ''], rows(items),
            'There is no result yet.'),
            doc.next ? el('button', { type: 'button', onclick: async () => {
                doc = await page(doc.next);
                items.push(...doc.items);
                draw();
            } }, 'Older ones') : null);
        draw();
    };

    show().catch((e) => clear(box, el('p', { class: 'bad' },
        e.detail || e.title || e.message)));

    return box;
}


/*
 * workActions(work, {session, done}): for its page.  work: as GET
 * /v1/works/{key} shows it.
 */
export function workActions(work, options) {
    const active = work.active[0] ?? null;

    return row(
        rerunAction(work.work_key, { ...options, not: active
            ? `It is under way already: a job of it is ${active.status}.`
            : null }),
        active ? cancelAction(active, options) : null);
}
