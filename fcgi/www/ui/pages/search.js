/* search.js: one thing by whatever name of it is at hand. */

import { get, query as toQuery } from '../lib/api.js';
import { clear, el } from '../lib/dom.js';
import { copyButton, effectPath, jobPath, workPath } from '../lib/id.js';
import { row, table, tableBox } from '../lib/list.js';

export const title = ({ query }) =>
    (query.q ? `Search: ${query.q}` : 'Search');

const WHAT = {
    work: { word: 'Work', path: (i) => workPath(i.id) },
    job: { word: 'Job', path: (i) => jobPath(i.id) },
    effect: { word: 'Effect', path: (i) => effectPath(i.id) },
    request: { word: 'Request', path: requestPath },
};


/*
 * A request has no page of its own: those with that idempotency key are in
 * the list, any other in its work's time line ("SOURCE KEY, DECISION").
 */
function requestPath(item, q) {
    return item.why === 'idempotency key'
        ? `/ui/requests${toQuery({ idempotency_key: q })}`
        : workPath(item.label.replace(/^\S+ /, '').replace(/, \w+$/, ''));
}

let asked = '';

const COLUMNS = [
    { label: 'What', class: 'tight', cell: (i) => WHAT[i.what]?.word
        ?? i.what },
    { label: 'Name', class: 'key', head: true, cell: (i) =>
        el('span', { class: 'name' },
            el('a', { class: 'code', href: WHAT[i.what]?.path(i, asked) },
                i.label ?? i.id),
            copyButton(i.id, 'its name')) },
    { label: 'Found by', class: 'text', cell: (i) =>
        String(i.why ?? '').replaceAll('_', ' ') },
];


export async function page(root, { query, signal }) {
    const q = (query.q ?? '').trim();
    const field = document.getElementById('search-q');

    field.value = q;
    asked = q;

    if (q === '') {
        root.append(el('div', { class: 'empty' }, el('p', null,
            'Write a work key (or how it begins), the id of a job, a request '
            + 'or an effect, an idempotency key or a provider\'s reference '
            + 'into the field above.')));
        return;
    }

    const says = el('p', { class: 'count', role: 'status' }, 'Looking …');
    const found = el('div');

    root.append(says, found);

    const { body } = await get(`/v1/search${toQuery({ q })}`, { signal });
    const { items } = body;

    says.textContent = items.length === 1 ? 'One is found.'
        : `${items.length} are found.`;

    if (items.length === 0) {
        clear(found, el('div', { class: 'empty' },
            el('p', null, 'Nothing has that name. Ids, idempotency keys and '
                + 'references are found whole; a work key by how it '
                + 'begins.'),
            el('p', null, 'What is old may have been removed; what another '
                + 'tenant has is not here.')));
        return;
    }

    const grid = table(COLUMNS, `What is found for ${q}`);
    clear(grid.body, items.map((i) => row(COLUMNS, i)));
    clear(found, tableBox(grid.node));
}
