/*
 * actions/inbox.js: what the inbox offers to decide, each as the action that
 * it is on its own page.
 */

import { action, row } from '../lib/action.js';
import { get } from '../lib/api.js';
import { el } from '../lib/dom.js';
import { enc, points } from '../lib/facts.js';
import { time } from '../lib/time.js';
import { checkAction, settleAction } from './effect.js';
import { approveAction, dismissAction } from './gap.js';
import { decideAction } from './job.js';
import { pauseKind, resumeKind, sourceAction } from './kind.js';
import { pauseSchedule } from './schedule.js';

const two = (n) => String(n).padStart(2, '0');

const local = (value) => {
    const at = new Date(value ?? '');
    return Number.isNaN(at.getTime()) ? ''
        : `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`
            + `T${two(at.getHours())}:${two(at.getMinutes())}`;
};


/* assignAction(item, …): who looks after it, and until when. */
export function assignAction(item, { session, done }) {
    return action({
        label: item.assignee ? 'Hand on …' : 'Assign …', session, done,
        title: 'Who looks after it',
        fields: [
            { name: 'assignee', label: 'Who looks after it', affects: true,
                value: item.assignee ?? session?.token_name ?? '', max: 255,
                hint: 'Nobody any more, if it is empty.' },
            { name: 'due', label: 'Until when', kind: 'datetime-local',
                affects: true, value: local(item.due) },
        ],
        what: (v) => points(v.assignee.trim() === ''
            ? 'Nobody looks after it any more.'
            : `${v.assignee} looks after it from now on.`,
        v.due ? ['It is due ', time(new Date(v.due), { full: true }), '.']
            : 'No time is set for it.',
        'Nothing else changes: it still waits for a decision.'),
        path: `/v1/inbox/${enc(item.id)}/assign`,
        body: (v) => ({ assignee: v.assignee.trim(),
            due: v.due ? new Date(v.due).toISOString() : null,
            requested_by: v.requested_by, reason: v.reason }),
        said: (i) => el('p', {}, i.assignee ? `${i.assignee} looks after it.`
            : 'Nobody looks after it now.'),
    });
}


/* One that this file does not know: in the API's own words. */
function plain(a, { session, done }) {
    return action({
        label: a.label, session, done,
        what: () => points(a.what),
        method: a.method, path: a.path,
        body: (v) => ({ ...a.body, requested_by: v.requested_by,
            reason: v.reason }),
    });
}


/*
 * inboxAction(item, a, {session, done}): item as GET /v1/inbox has it, a one
 * of its actions.
 */
export function inboxAction(item, a, options) {
    const given = { ...options, label: a.label };
    const level = { name: item.id.slice(item.id.indexOf(':') + 1) };

    switch (`${item.what} ${a.name}`) {
    case 'job retry': case 'job release': case 'job succeed': case 'job fail':
        return decideAction({ job_id: item.job_id, status: item.state,
            assignee: item.assignee }, a.name, given);
    case 'effect check':
        return checkAction(item, given);
    case 'effect happened': case 'effect not_happened':
    case 'effect send_again':
        return settleAction(item, a.name, given);
    case 'gap approve': case 'slot approve': case 'gap dismiss':
    case 'slot dismiss':
        return gapOf(item, a, given);
    case 'kind_paused resume':
        return resumeKind({ ...level, paused: undefined }, given);
    case 'queue pause':
        return pauseKind(level, given);
    case 'source_paused resume':
        return sourceAction(level, { ...given, pause: false });
    case 'schedule pause':
        return pauseSchedule(level, given);
    default:
        return a.name === 'assign' ? assignAction(item, options)
            : plain(a, options);
    }
}


/* As GET /v1/gaps has it. */
function gapOf(item, a, options) {
    const gap = { gap_id: item.gap_id, state: item.state,
        schedule: item.schedule, work_key: item.work_key, since: item.since,
        subject: item.subject, business_date: item.business_date,
        why: item.why };

    return a.name === 'approve' ? approveAction(gap, options)
        : dismissAction(gap, options);
}


export const inboxActions = (item, options) =>
    row(item.actions.map((a) => inboxAction(item, a, options)));


/* assignees(): who looks after something, for a filter. */
export async function assignees() {
    const r = await get('/v1/inbox?limit=200');

    return [...new Set(r.body.items.map((i) => i.assignee).filter(Boolean))]
        .sort();
}
