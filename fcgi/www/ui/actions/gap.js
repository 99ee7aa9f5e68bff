/*
 * actions/gap.js: what a person may do about a slot whose work is not done.
 */

import { action, jobLink, row, workLink } from '../lib/action.js';
import { get } from '../lib/api.js';
import { el } from '../lib/dom.js';
import { enc, points } from '../lib/facts.js';
import { badge } from '../lib/state.js';
import { time } from '../lib/time.js';


async function work(key) {
    try {
        return (await get(`/v1/works/${enc(key)}`)).body;
    } catch (e) {
        if (e.status === 404) {
            return null;
        }
        throw e;
    }
}


function stands(gap, w) {
    const slot = [gap.schedule, gap.subject, gap.business_date]
        .filter(Boolean).join(', ');

    return [
        [`${slot}: its work `, workLink(gap.work_key),
            ' is not done, since ', time(gap.since), ': ', gap.why, '.'],
        w?.active?.length > 0 ? ['Just now ', jobLink(w.active[0].job_id,
            'a job of it'), ' is ', badge(w.active[0].status), '.'] : null,
        w?.result ? [`Revision ${w.result.revision} of it stands, published `,
            time(w.result.published_at), '.'] : null,
        w?.effects?.confirmed > 0 ? 'Effects of it have reached the outside'
            + ' world; what is confirmed is not sent again.' : null,
    ];
}

const done = (words) => (g) => el('p', {}, words, ' The gap is now ',
    badge(g.state), '. ', g.job_id ? jobLink(g.job_id, 'Its job') : null);


export function approveAction(gap, { session, label, ...options }) {
    return action({
        label: label ?? 'Run it now', title: 'Run the work of this slot now',
        session, done: options.done,
        not: gap.state && gap.state !== 'open' && gap.state !== 'missing'
            && gap.state !== 'approval' ? `The gap is ${gap.state}.` : null,
        what: async () => {
            const w = await work(gap.work_key);
            return w?.active?.length > 0 ? { node: points(...stands(gap, w)),
                blocked: 'Its work is under way already. The gap closes when'
                    + ' that has succeeded.' }
                : points(...stands(gap, w), 'A job of it is queued now. The'
                    + ' gap is closed when it has succeeded.');
        },
        path: `/v1/gaps/${enc(gap.gap_id)}/approve`,
        said: done('Its work is under way.'),
    });
}


export function dismissAction(gap, { session, label, ...options }) {
    return action({
        label: label ?? 'Leave it undone', danger: true, session,
        title: 'Leave the work of this slot undone', done: options.done,
        not: gap.state && gap.state !== 'open' && gap.state !== 'missing'
            && gap.state !== 'approval' ? `The gap is ${gap.state}.` : null,
        what: async () => points(...stands(gap, await work(gap.work_key)),
            'Nothing is run. The slot stays without its work, and nobody is'
                + ' told of it any more. Your reason is kept with it.'),
        path: `/v1/gaps/${enc(gap.gap_id)}/dismiss`,
        said: done('It is left undone.'),
    });
}


export const gapActions = (gap, options) =>
    row(approveAction(gap, options), dismissAction(gap, options));
