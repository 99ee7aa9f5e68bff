/*
 * actions/schedule.js: what a person may do about a schedule: stop it, run one
 * date or a range of them, run what failed of a date again.
 */

import { action, jobLink, row, workLink } from '../lib/action.js';
import { get, post } from '../lib/api.js';
import { el } from '../lib/dom.js';
import { enc, plural, points, table } from '../lib/facts.js';
import { badge } from '../lib/state.js';
import { time } from '../lib/time.js';

const base = (name) => `/v1/schedules/${enc(name)}`;
const day = (date) => date.toISOString().slice(0, 10);


/* What became of a plan. */
function ran(a) {
    return [
        el('p', {}, `${plural(a.admitted, 'job')} of ${a.count} `
            + `${Number(a.admitted) === 1 ? 'was' : 'were'} queued.`),
        a.jobs.length > 0 ? table('Queued', ['Subject', 'Work', 'Job',
            'Decision'], a.jobs.map((j) => [j.subject, workLink(j.work_key),
            jobLink(j.job_id, j.job_id.slice(-12)), j.outcome])) : null,
        a.skipped.length > 0 ? [el('p', {}, 'Left out:'), table('Left out',
            ['Date', 'Subject', 'Work', 'Why'], a.skipped.map((s) => [
                s.business_date, s.subject, workLink(s.work_key),
                String(s.reason).replaceAll('_', ' ')]))] : null,
        a.truncated ? el('p', { class: 'quiet' },
            'The first 200 of each are shown.') : null,
    ];
}


export function pauseSchedule(schedule, { session, done, label }) {
    const stop = !schedule.paused;

    return action({
        label: label ?? (stop ? 'Pause' : 'Resume'), session, done,
        title: stop ? `Pause the schedule ${schedule.name}`
            : `Let the schedule ${schedule.name} go on`,
        what: async () => {
            const s = (await get(base(schedule.name))).body;
            const n = plural(s.subject_count, 'subject');

            return points(...stop ? [
                `No slot of ${s.name} fires until somebody resumes it.`,
                s.next_at ? ['The next one would be ', time(s.next_at),
                    `, for ${n}.`] : null,
                'Slots that come up meanwhile are skipped, with the reason'
                    + ' “paused”; they are not caught up.',
                s.paused ? 'It is paused already.' : null,
            ] : [
                s.pause_note ? ['It was paused: ', el('q', {}, s.pause_note)]
                    : null,
                `It goes on with its next slot, for ${n}. What was skipped`
                    + ' while it was paused stays skipped; a backfill runs it.',
            ]);
        },
        path: `${base(schedule.name)}/${stop ? 'pause' : 'resume'}`,
        said: (s) => el('p', {}, s.paused ? `${s.name} is paused.`
            : [`${s.name} goes on`, s.next_at ? [', next at ',
                time(s.next_at)] : null, '.']),
    });
}


/* How the works of a date stand; null if it has no slot. */
async function date(name, d) {
    try {
        return (await get(`${base(name)}/slots/${enc(d)}/impact`)).body;
    } catch (e) {
        if (e.status === 404 || e.status === 400) {
            return null;
        }
        throw e;
    }
}


export function runSchedule(schedule, { session, done, label, value }) {
    return action({
        label: label ?? 'Run a date …', session, done,
        title: `Run one date of ${schedule.name}`,
        fields: [
            { name: 'date', label: 'Business date', kind: 'date',
                required: true, affects: true, value: value ?? day(new Date()) },
            { name: 'subjects', label: 'Only these subjects, one a line',
                kind: 'textarea', hint: 'All of them if it is left out.' },
        ],
        what: async (v) => {
            if (!v.date) {
                return { node: null, blocked: 'A date is needed.' };
            }
            const i = await date(schedule.name, v.date);
            return points(
                `The works of ${v.date} are queued, under their own work`
                    + ' keys, at once. The next slot fires all the same.',
                i ? `Of that date ${i.succeeded} succeeded, ${i.failed} failed,`
                    + ` ${i.missing} are missing, ${i.active} are under way.`
                    : 'No slot of that date came up so far; '
                        + `${plural(schedule.subject_count, 'subject')}.`,
                'Each work is decided by its kind: what is done already, or'
                    + ' under way, may be left out.',
                i?.reached_outside > 0 ? `${plural(i.reached_outside,
                    'effect')} of that date reached the outside world.`
                    : null);
        },
        path: `${base(schedule.name)}/run`,
        body: (v) => {
            const subjects = v.subjects.split('\n').map((s) => s.trim())
                .filter((s) => s !== '');
            return { date: v.date, ...(subjects.length > 0 ? { subjects } : {}),
                requested_by: v.requested_by, reason: v.reason };
        },
        said: ran,
    });
}


export function backfillSchedule(schedule, { session, done, label }) {
    const back = (n) => day(new Date(Date.now() - n * 86_400_000));

    return action({
        label: label ?? 'Backfill …', session, done,
        title: `Run a range of dates of ${schedule.name}`,
        ask: 'Make a plan',
        fields: [
            { name: 'from', label: 'From', kind: 'date', required: true,
                affects: true, value: back(7) },
            { name: 'to', label: 'To', kind: 'date', required: true,
                affects: true, value: back(1) },
            { name: 'subjects', label: 'Only these subjects, one a line',
                kind: 'textarea', affects: true,
                hint: 'All of them if it is left out.' },
        ],
        what: async (v) => {
            const subjects = v.subjects.split('\n').map((s) => s.trim())
                .filter((s) => s !== '');
            const p = (await post(`${base(schedule.name)}/backfill`, {
                from: v.from, to: v.to,
                ...(subjects.length > 0 ? { subjects } : {}) })).body;

            return {
                seen: p.plan_id,
                blocked: p.count === 0
                    ? 'There is nothing to run in this range.' : null,
                node: [
                    points(`${plural(p.count, 'work')} from ${p.from} to`
                        + ` ${p.to} ${p.count === 1 ? 'has' : 'have'} no result`
                        + ' yet and would be queued.',
                        `${plural(p.done, 'work')} of the range`
                            + ` ${p.done === 1 ? 'has' : 'have'} one and`
                            + ` ${p.done === 1 ? 'is' : 'are'} left out.`,
                        ['Only these: the plan holds until ',
                            time(p.expires_at), '.']),
                    table('Works of the plan', ['Date', 'Subject', 'Work'],
                        p.works.map((w) => [w.business_date, w.subject,
                            workLink(w.work_key)])),
                    p.truncated ? el('p', { class: 'quiet' },
                        `The first ${p.works.length} are shown.`) : null,
                ],
            };
        },
        path: `${base(schedule.name)}/backfill`,
        body: (v, seen) => ({ plan_id: seen, requested_by: v.requested_by,
            reason: v.reason }),
        said: ran,
    });
}


/* How the works of a date stand, for reading; with open, each of a few. */
export function impactOf(i, open = true) {
    return [
        points(`${plural(i.subjects, 'work')} of ${i.business_date}:`
            + ` ${i.succeeded} succeeded, ${i.failed} failed, ${i.missing}`
            + ` missing, ${i.active} under way`
            + `${i.not_due > 0 ? `, ${i.not_due} still to come up` : ''}.`,
            i.reached_outside > 0 ? `${plural(i.reached_outside, 'effect')}`
                + ' reached the outside world; none of these is sent again.'
                : 'Nothing of them reached the outside world.',
            i.unsettled > 0 ? `${plural(i.unsettled, 'effect')} may have`
                + ' happened; that is settled before anything is sent again.'
                : null),
        el('details', { open: open && i.works.length <= 10 },
            el('summary', {}, 'Its works'),
            table('Works of the date', ['Subject', 'Work', 'State', 'Job',
                'Error'], i.works.map((w) => [w.subject, workLink(w.work_key),
                badge(w.state === 'active' ? 'running' : w.state,
                    String(w.state).replaceAll('_', ' ')),
                w.job_id ? jobLink(w.job_id, w.job_id.slice(-12)) : '–',
                w.error])),
            i.truncated ? el('p', { class: 'quiet' },
                `The first ${i.works.length} are shown.`) : null),
    ];
}


/* rerunDate(schedule, date, …): what failed or is missing of a date. */
export function rerunDate(schedule, d, { session, done, label, only }) {
    return action({
        label: label ?? 'Run again …', session, done,
        title: `Run ${d} of ${schedule.name} again`,
        fields: [{ name: 'only', label: 'Which of its works', kind: 'select',
            affects: true, required: true, value: only ?? 'failed', options: [
                { value: 'failed', label: 'those that failed' },
                { value: 'missing', label: 'those that are missing' },
                { value: 'all', label: 'all, the succeeded ones as well' }] }],
        what: async (v) => {
            const i = (await get(`${base(schedule.name)}/slots/${enc(d)}`
                + '/impact')).body;
            const would = i.would_do[v.only];

            return {
                seen: i.impact_id,
                blocked: would.works === 0
                    ? 'None of its works is of that sort.' : null,
                node: [
                    points(el('b', {}, `${plural(would.works, 'work')} would be`
                        + ' run.'), would.reached_outside > 0
                        ? `${plural(would.reached_outside, 'effect')} of these`
                            + ' reached the outside world and would not be'
                            + ' sent again.' : null),
                    impactOf(i),
                ],
            };
        },
        path: `${base(schedule.name)}/slots/${enc(d)}/rerun`,
        body: (v, seen) => ({ only: v.only, impact_id: seen,
            requested_by: v.requested_by, reason: v.reason }),
        said: ran,
    });
}


export const scheduleActions = (schedule, options) => row(
    pauseSchedule(schedule, options), runSchedule(schedule, options),
    backfillSchedule(schedule, options));
