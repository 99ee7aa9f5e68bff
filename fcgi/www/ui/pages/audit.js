/* audit.js: what people did; and the whole history of one work key. */

import { get, query as toQuery } from '../lib/api.js';
import { clear, el } from '../lib/dom.js';
import { effectName, jobName, workName, workPath } from '../lib/id.js';
import { textOf } from '../lib/json.js';
import { list } from '../lib/list.js';
import { go } from '../lib/nav.js';
import { problemBox } from '../lib/problem.js';
import { raw } from '../lib/raw.js';
import { time } from '../lib/time.js';
import { entries } from '../lib/timeline.js';

export const title = 'Audit';

const PAGE = 100;

const WHATS = ['job_cancel', 'job_decide', 'job_revoke', 'redrive',
    'work_publish', 'work_rerun', 'effect_check', 'effect_resolve',
    'kind_pause', 'kind_resume', 'source_pause', 'source_resume',
    'schedule_pause', 'schedule_resume', 'schedule_run', 'schedule_backfill',
    'schedule_rerun', 'gap_approve', 'gap_dismiss', 'inbox_assign',
    'inbox_dismiss'];

const words = (text) => String(text ?? '').replaceAll('_', ' ');


function about(a) {
    return [
        a.work_key ? el('div', null, workName(a.work_key)) : null,
        a.effect_id ? el('div', null, 'effect ', effectName(a.effect_id,
            { short: true })) : null,
        a.job_id && !a.effect_id ? el('div', null, 'job ', jobName(a.job_id,
            { short: true })) : null,
        !a.work_key && !a.job_id && !a.effect_id
            ? el('span', { class: 'code' }, a.target) : null,
    ];
}


function history(root, key, signal) {
    const line = el('ol', { class: 'timeline' });
    const more = el('button', { type: 'button', hidden: true }, 'Later ones');
    const says = el('p', { class: 'count', role: 'status' }, 'Looking …');
    let n = 0;

    const load = async (cursor) => {
        more.disabled = true;
        try {
            const { body } = await get(`/v1/audit${toQuery({ work_key: key,
                limit: PAGE, cursor })}`, { signal });
            n += body.timeline.length;
            line.append(...entries(body.timeline));
            says.textContent = `${n} ${n === 1 ? 'entry' : 'entries'}`
                + (body.next === null ? '' : ', later ones follow');
            more.hidden = body.next === null;
            more.onclick = () => load(body.next);
        } catch (e) {
            if (e.type !== 'aborted') {
                clear(says, problemBox(e, () => load(cursor)));
            }
        } finally {
            more.disabled = false;
        }
    };

    root.append(el('section', { 'aria-label': 'History of a work key' },
        el('div', { class: 'section-head' },
            el('h2', null, 'History of ', el('span', { class: 'code' }, key)),
            el('a', { href: workPath(key) }, 'Its page'),
            el('a', { href: '/ui/audit' }, 'What people did')),
        says, line, more));

    return load(null);
}


export function page(root, { query, signal }) {
    root.append(el('p', { class: 'lead' }, 'What people decided, with the '
        + 'name that they gave, the token that they used and their reason. '
        + 'Kept for good: nothing here can be changed.'),
    el('form', { class: 'filters', role: 'search',
        'aria-label': 'History of a work key', onsubmit: (e) => {
            e.preventDefault();
            const key = new FormData(e.target).get('work_key').trim();
            go(`/ui/audit${toQuery({ work_key: key })}`);
        } },
    el('div', { class: 'field wide' },
        el('label', { for: 'audit-key' }, 'The whole history of a work key'),
        el('input', { id: 'audit-key', name: 'work_key', required: true,
            value: query.work_key ?? '', autocomplete: 'off',
            spellcheck: 'false' })),
    el('div', { class: 'field buttons' },
        el('button', { type: 'submit' }, 'Show'))));

    if (query.work_key) {
        return history(root, query.work_key, signal);
    }

    list(root, {
        path: '/v1/actions',
        caption: 'What people did, the newest first',
        key: 'action_id',
        empty: 'Nobody has decided anything yet.',
        filters: [
            { name: 'what', label: 'What', kind: 'select', options: WHATS },
            { name: 'by', label: 'By (name or token)', kind: 'text' },
            { name: 'since', label: 'Since', kind: 'time' },
            { name: 'until', label: 'Before', kind: 'time' },
        ],
        columns: [
            { label: 'When', class: 'tight', head: true,
                cell: (a) => time(a.at, { full: true }) },
            { label: 'What', class: 'tight', cell: (a) => words(a.action) },
            { label: 'About', class: 'key', cell: about },
            { label: 'By', class: 'tight', cell: (a) => [
                a.requested_by ?? '–', a.token_name ? el('div',
                    { class: 'quiet' }, `token ${a.token_name}`) : null] },
            { label: 'Reason', class: 'text', cell: (a) => a.reason ?? '–' },
            { label: 'Detail', class: 'text', cell: (a) => (a.detail === null
                || a.detail === undefined ? '–' : el('details', null,
                    el('summary', null, 'As stored'),
                    raw(textOf(a, 'detail'), 'Detail as stored'))) },
        ],
    });

    return undefined;
}
