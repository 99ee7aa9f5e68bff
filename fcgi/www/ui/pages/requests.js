/* requests.js: what was asked for, and what was decided about it. */

import { el } from '../lib/dom.js';
import { jobName, name, workName } from '../lib/id.js';
import { kinds } from '../lib/kinds.js';
import { list } from '../lib/list.js';
import { badge } from '../lib/state.js';
import { time } from '../lib/time.js';

export const title = 'Requests';

const DECISIONS = ['accepted', 'buffered', 'replaced', 'skipped', 'completed',
    'parked', 'rejected', 'duplicate'];


/* What became of it, beside the decision's one word. */
function why(q) {
    return [
        q.reason ? el('div', { class: 'sub' },
            String(q.reason).replaceAll('_', ' ')) : null,
        q.request_reason ? el('div', { class: 'sub' },
            `“${q.request_reason}”`) : null,
    ];
}


export function page(root) {
    root.append(el('p', { class: 'lead' }, 'Every arrival with the decision '
        + 'it got: webhooks, calls, buttons and schedules, also what nginx '
        + 'answered alone.'));

    list(root, {
        path: '/v1/requests',
        caption: 'Requests, the newest first',
        key: 'request_id',
        empty: 'No request yet. Send one to /in/… or to POST /v1/jobs, and '
            + 'its decision is here.',
        filters: [
            { name: 'decision', label: 'Decision', kind: 'select',
                options: DECISIONS },
            { name: 'kind', label: 'Kind', kind: 'select', options: kinds },
            { name: 'source', label: 'Source', kind: 'text' },
            { name: 'work_key', label: 'Work key', kind: 'text' },
            { name: 'idempotency_key', label: 'Idempotency key',
                kind: 'text' },
            { name: 'since', label: 'Since', kind: 'time' },
            { name: 'until', label: 'Until', kind: 'time' },
        ],
        columns: [
            { label: 'At', class: 'tight', cell: (q) => time(q.at) },
            { label: 'Decision', cell: (q) => [badge(q.decision), why(q)] },
            { label: 'Work key', class: 'key', head: true,
                cell: (q) => workName(q.work_key) },
            { label: 'Kind', class: 'tight', cell: (q) => q.kind },
            { label: 'Source', class: 'tight', cell: (q) => [q.source,
                q.requested_by ? el('div', { class: 'sub' },
                    `by ${q.requested_by}`) : null] },
            { label: 'Job', class: 'tight',
                cell: (q) => jobName(q.job_id, { short: true }) },
            { label: 'Idempotency key', class: 'key',
                cell: (q) => name(q.idempotency_key,
                    { what: 'idempotency key' }) },
            { label: 'Answer', class: 'tight', cell: (q) => [
                String(q.code), el('span', { class: 'quiet' }, q.edge
                    ? ' by the edge' : ' by interlockd')] },
        ],
    });
}
