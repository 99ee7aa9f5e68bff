/* leases.js: who runs what just now, and for how much longer. */

import { revokeAction } from '../actions/job.js';
import { el } from '../lib/dom.js';
import { jobName, workName } from '../lib/id.js';
import { kinds } from '../lib/kinds.js';
import { list } from '../lib/list.js';
import { awake } from '../lib/live.js';
import { progress } from '../lib/progress.js';
import { badge } from '../lib/state.js';
import { ago, duration } from '../lib/time.js';

export const title = 'Leases';

const LOOK = 5000;              /* ms; owners renew meanwhile */


function left(until) {
    const seconds = (new Date(until) - Date.now()) / 1000;

    return seconds <= 0 ? 'over, not renewed'
        : duration(seconds < 10 ? Math.ceil(seconds) : seconds);
}


function remaining(lease) {
    if (lease.status && lease.status !== 'running') {
        return badge(lease.status);
    }

    return [
        el('span', { class: 'number', data: { until: lease.expires_at } },
            left(lease.expires_at)),
        lease.cancel_requested ? el('div', null,
            badge('warn', 'asked to end')) : null,
    ];
}


export function page(root, { session, signal }) {
    root.append(el('p', { class: 'lead' }, 'The right of one worker to run '
        + 'one job. Whoever does not renew it in time loses it; what comes '
        + 'after that is refused.'));

    const l = list(root, {
        path: '/v1/leases',
        caption: 'Leases, in the order in which their jobs came',
        key: 'job_id',
        live: true,
        empty: 'Nothing runs just now.',
        filters: [
            { name: 'kind', label: 'Kind', kind: 'select', options: kinds },
            { name: 'worker', label: 'Worker', kind: 'text' },
        ],
        columns: [
            { label: 'Worker', class: 'key', head: true, cell: (x) => [
                el('span', { class: 'code' }, x.worker ?? '–'),
                el('div', { class: 'quiet' },
                    `attempt ${x.attempt}, fence ${x.fence}`)] },
            { label: 'Work key', class: 'key', cell: (x) => [
                workName(x.work_key),
                el('div', null, `${x.kind}, job `,
                    jobName(x.job_id, { short: true }))] },
            { label: 'Remains', class: 'tight', cell: remaining },
            { label: 'Granted', class: 'tight', cell: (x) => [
                ago(x.granted_at), el('div', { class: 'quiet' },
                    x.renewals > 0 ? ['renewed ', ago(x.renewed_at),
                        `, ${x.renewals}×`] : 'not renewed yet')] },
            { label: 'Progress', class: 'text',
                cell: (x) => progress(x.progress, x.step) },
            { label: '', class: 'decide', cell: (x) => revokeAction(x,
                { session, done: () => l.reload() }) },
        ],
    });

    const tick = setInterval(() => {
        for (const node of root.querySelectorAll('[data-until]')) {
            const text = left(node.dataset.until);
            if (node.textContent !== text) {
                node.textContent = text;
            }
        }
    }, 1000);

    /* not under the hand of somebody who is about to press a button */
    const look = setInterval(() => {
        if (awake() && !document.querySelector('dialog[open]')
            && !root.contains(document.activeElement))
        {
            l.reload();
        }
    }, LOOK);

    signal.addEventListener('abort', () => {
        clearInterval(tick);
        clearInterval(look);
    });
}
