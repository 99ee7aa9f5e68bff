/* works.js: what work there is, by its key. */

import { el } from '../lib/dom.js';
import { jobName, workName } from '../lib/id.js';
import { kinds } from '../lib/kinds.js';
import { list } from '../lib/list.js';
import { badge } from '../lib/state.js';
import { time } from '../lib/time.js';

export const title = 'Works';

const STATES = ['queued', 'running', 'checking', 'held', 'parked', 'idle'];


export function page(root) {
    root.append(el('p', { class: 'lead' }, 'A work key names one piece of '
        + 'business work, however often it is asked for. Its fence grows '
        + 'with each owner.'));

    list(root, {
        path: '/v1/works',
        caption: 'Works',
        key: 'work_key',
        newest: false,
        live: (event, row) => event.work_key === row.work_key,
        update: (row, event) => (['queued', 'running', 'checking', 'held']
            .includes(event.status)
            ? { ...row, state: event.status, active_job_id: event.job_id,
                last_status: event.status }
            : { ...row, last_status: event.status,
                ...(row.active_job_id === event.job_id
                    ? { state: 'idle', active_job_id: null } : {}) }),
        empty: 'No work yet. The first request for a work key makes it.',
        filters: [
            { name: 'prefix', label: 'Key begins with', kind: 'text',
                placeholder: 'daily-sales:' },
            { name: 'kind', label: 'Kind', kind: 'select', options: kinds },
            { name: 'state', label: 'State', kind: 'select',
                options: STATES },
        ],
        columns: [
            { label: 'State', class: 'tight', cell: (w) => badge(w.state) },
            { label: 'Work key', class: 'key', head: true,
                cell: (w) => workName(w.work_key) },
            { label: 'Kind', class: 'tight', cell: (w) => w.kind },
            { label: 'Active job', class: 'tight',
                cell: (w) => jobName(w.active_job_id, { short: true }) },
            { label: 'Waiting', class: 'number tight',
                cell: (w) => w.waiting ?? 0 },
            { label: 'Fence', class: 'number tight', cell: (w) => w.fence },
            { label: 'Last job', class: 'tight',
                cell: (w) => badge(w.last_status) },
            { label: 'Changed', class: 'tight',
                cell: (w) => time(w.updated_at) },
        ],
    });
}
