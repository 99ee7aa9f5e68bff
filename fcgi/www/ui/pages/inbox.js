/* inbox.js: what waits for a person, the longest waiting first. */

import { assignees, inboxAction } from '../actions/inbox.js';
import { row as acts } from '../lib/action.js';
import { el } from '../lib/dom.js';
import { effectName, jobName, workName } from '../lib/id.js';
import { kinds } from '../lib/kinds.js';
import { list } from '../lib/list.js';
import { badge } from '../lib/state.js';
import { ago, between } from '../lib/time.js';

export const title = 'Inbox';

const WHATS = [
    ['effect', 'effects nobody could settle'],
    ['job', 'jobs that wait for a decision'],
    ['gap', 'gaps of schedules'],
    ['slot', 'late slots to approve'],
    ['kind_paused', 'paused kinds'],
    ['source_paused', 'paused sources'],
    ['schedule', 'schedules that skip'],
    ['queue', 'old queues'],
];

const WORDS = {
    held: 'job held', parked: 'job parked', failed: 'job failed',
    needs_human: 'effect needs a person', unknown: 'effect unknown',
    missing: 'gap', approval: 'slot to approve', kind_paused: 'kind paused',
    source_paused: 'source paused', skips: 'schedule skips',
    queue_age: 'queue is old',
};


function about(i) {
    const level = i.id.slice(i.id.indexOf(':') + 1);

    return [
        i.work_key ? el('div', null, workName(i.work_key)) : null,
        i.effect_id ? el('div', null, 'effect ',
            effectName(i.effect_id, { short: true })) : null,
        i.job_id && !i.effect_id ? el('div', null, 'job ',
            jobName(i.job_id, { short: true })) : null,
        i.schedule ? el('div', null, 'schedule ', el('a', {
            href: `/ui/schedules/${encodeURIComponent(i.schedule)}` },
        i.schedule)) : null,
        !i.work_key && i.kind ? el('div', null, 'kind ', el('a', {
            href: `/ui/kinds/${encodeURIComponent(i.kind)}` }, i.kind)) : null,
        !i.work_key && !i.kind && !i.schedule
            ? el('div', { class: 'code' }, level) : null,
    ];
}


function care(i) {
    return [
        el('div', null, i.assignee ?? el('span', { class: 'quiet' },
            'nobody')),
        i.due ? el('div', null, between(i.due) > 0
            ? badge('late', 'overdue') : null, ' due ', ago(i.due)) : null,
    ];
}


export function page(root, { session }) {
    root.append(el('p', { class: 'lead' }, 'What interlock cannot or may not '
        + 'decide by itself. Each button says what it would do before '
        + 'anything happens.'));

    const l = list(root, {
        path: '/v1/inbox',
        caption: 'What waits for a person, the longest waiting first',
        key: 'id',
        empty: 'Nothing waits for a person.',
        filters: [
            { name: 'what', label: 'What', kind: 'select', options: WHATS },
            { name: 'state', label: 'State', kind: 'select',
                options: Object.entries(WORDS) },
            { name: 'kind', label: 'Kind', kind: 'select', options: kinds },
            { name: 'assignee', label: 'Looked after by', kind: 'select',
                options: assignees },
        ],
        columns: [
            { label: 'What', class: 'tight', head: true, cell: (i) =>
                badge(i.state in WORDS && i.state.endsWith('_paused')
                    ? 'paused' : i.state, WORDS[i.state] ?? i.state) },
            { label: 'About', class: 'key', cell: about },
            { label: 'Why', class: 'text', cell: (i) => i.why },
            { label: 'Waits since', class: 'tight',
                cell: (i) => ago(i.since) },
            { label: 'Looked after by', class: 'tight', cell: care },
            { label: 'Decide', class: 'decide many', cell: (i) => acts(
                i.actions.map((a) => inboxAction(i, a,
                    { session, done: () => l.reload() }))) },
        ],
    });
}
