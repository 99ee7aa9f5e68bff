/* jobs.js: jobs, newest first; they follow what happens. */

import { redriveAction } from '../actions/job.js';
import { row } from '../lib/action.js';
import { el } from '../lib/dom.js';
import { jobName, workName } from '../lib/id.js';
import { kinds } from '../lib/kinds.js';
import { list } from '../lib/list.js';
import { badge } from '../lib/state.js';
import { ago, between, duration, time } from '../lib/time.js';
import { progress } from '../lib/progress.js';

export const title = 'Jobs';

export const STATUSES = ['queued', 'running', 'checking', 'held', 'parked',
    'succeeded', 'failed', 'canceled', 'superseded', 'expired'];


/* What a job waits for, or how it went. */
function says(job) {
    if (job.status === 'running') {
        return progress(job.progress, job.step);
    }

    if (job.waits_for && !job.finished_at) {
        return ['waits for ', job.waits_for,
            job.retry_at ? [', ', ago(job.retry_at)] : null];
    }

    return job.error ?? job.user_message ?? job.reason ?? '';
}


export function page(root, { query, session }) {
    const { kind, work_key } = query;

    root.append(el('p', { class: 'lead' }, 'One run of a work key each, the '
        + 'newest first. What changes here while you read is written into '
        + 'its row.'),
    row(redriveAction({ session, filter: { kind, work_key },
        done: () => l.reload() })));

    const l = list(root, {
        path: '/v1/jobs',
        caption: 'Jobs, the newest first',
        key: 'job_id',
        live: true,
        empty: 'No job yet. A webhook, a schedule, a button or POST /v1/jobs '
            + 'makes one.',
        filters: [
            { name: 'status', label: 'Status', kind: 'select',
                options: STATUSES },
            { name: 'kind', label: 'Kind', kind: 'select', options: kinds },
            { name: 'work_key', label: 'Work key', kind: 'text' },
            { name: 'source', label: 'Source', kind: 'text' },
            { name: 'since', label: 'Since', kind: 'time' },
        ],
        columns: [
            { label: 'Status', class: 'tight',
                cell: (j) => badge(j.status) },
            { label: 'Job', class: 'tight', head: true,
                cell: (j) => jobName(j.job_id, { short: true }) },
            { label: 'Work key', class: 'key',
                cell: (j) => workName(j.work_key) },
            { label: 'Kind', class: 'tight', cell: (j) => j.kind },
            { label: 'Asked', class: 'tight',
                cell: (j) => time(j.created_at) },
            { label: 'Ran', class: 'tight number', cell: (j) =>
                (j.started_at && j.finished_at
                    ? duration(between(j.started_at, j.finished_at))
                    : j.started_at ? ago(j.started_at) : '–') },
            { label: 'Attempt', class: 'number', cell: (j) => j.attempt },
            { label: 'What it says', class: 'text', cell: says },
        ],
    });
}
