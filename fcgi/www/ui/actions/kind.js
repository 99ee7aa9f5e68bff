/*
 * actions/kind.js: kinds and sources stand still and go on again.
 */

import { action } from '../lib/action.js';
import { get } from '../lib/api.js';
import { el } from '../lib/dom.js';
import { enc, plural, points } from '../lib/facts.js';
import { duration, time } from '../lib/time.js';


/* How many of a kind are in which status; at most 200 of each are counted. */
async function count(kind, status) {
    const r = (await get(`/v1/jobs?kind=${enc(kind)}&status=${status}`
        + '&limit=200')).body;

    return r.next === null ? plural(r.items.length, 'job')
        : `${r.items.length} jobs and more`;
}


/* pauseKind(kind, …): kind as GET /v1/kinds/{name} shows it, or {name}. */
export function pauseKind(kind, { session, done, label }) {
    return action({
        label: label ?? 'Pause', title: `Pause the kind ${kind.name}`, session,
        done, not: kind.paused ? 'It is paused already.' : null,
        what: async () => {
            const [k, queued, running] = await Promise.all([
                get(`/v1/kinds/${enc(kind.name)}`), count(kind.name, 'queued'),
                count(kind.name, 'running')]);
            return points(
                `Nothing of ${kind.name} is claimed any more, until somebody`
                    + ' resumes it.',
                `Queued now: ${queued}. They wait, and new ones are taken and`
                    + ' wait with them.',
                ['What waits longer than ', duration(k.body.max_wait),
                    ' for its first start expires all the same.'],
                `Running now: ${running}. They go on to their end.`,
                k.body.paused ? 'It is paused already: it stays as it is.'
                    : null);
        },
        path: `/v1/kinds/${enc(kind.name)}/pause`,
        said: (k) => el('p', {}, `${k.name} is paused since `,
            time(k.paused?.since), '. New jobs wait.'),
    });
}


export function resumeKind(kind, { session, done, label }) {
    return action({
        label: label ?? 'Resume', title: `Let the kind ${kind.name} go on`,
        session, done, not: kind.paused === null ? 'It is not paused.' : null,
        what: async () => {
            const [k, queued] = await Promise.all([
                get(`/v1/kinds/${enc(kind.name)}`),
                count(kind.name, 'queued')]);
            const p = k.body.paused;
            return points(p ? [`${p.requested_by} paused it `, time(p.since),
                ': ', el('q', {}, p.reason)] : 'It is not paused now.',
                `Queued now: ${queued}. Workers claim them again at once.`);
        },
        path: `/v1/kinds/${enc(kind.name)}/resume`,
        said: (k) => el('p', {}, `${k.name} goes on.`),
    });
}


export const kindAction = (kind, options) => (kind.paused
    ? resumeKind(kind, options) : pauseKind(kind, options));


/* sourceAction(source, …): source as GET /v1/sources or /v1/config has it. */
export function sourceAction(source, { session, done, label, pause }) {
    const stop = pause ?? !source.paused;

    return action({
        label: label ?? (stop ? 'Pause' : 'Resume'), session, done,
        danger: stop,
        title: stop ? `Refuse the requests of ${source.name}`
            : `Take the requests of ${source.name} again`,
        what: () => points(...stop ? [
            `Requests of ${source.name} are answered 503 with Retry-After, and`
                + ' nothing of them is stored. Providers send them again, for'
                + ' as long as they do.',
            source.requests_24h !== undefined
                ? `In the last 24 hours it sent ${plural(source.requests_24h,
                    'request')}.` : null,
            'What was taken before goes on.',
        ] : [
            source.paused ? [`${source.paused.requested_by} paused it `,
                time(source.paused.since), ': ',
                el('q', {}, source.paused.reason)] : null,
            'Its requests are taken again at once.',
        ]),
        path: `/v1/sources/${enc(source.name)}/${stop ? 'pause' : 'resume'}`,
        said: (s) => el('p', {}, s.paused ? `${s.name} is paused.`
            : `Requests of ${s.name} are taken.`),
    });
}
