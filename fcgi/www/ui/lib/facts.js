/*
 * facts.js: what is known of one thing, as a list of names and values; and a
 * few words that count.
 */

import { el } from './dom.js';
import { head } from './list.js';

const number = new Intl.NumberFormat();


/* plural(n, one, many): "1 job", "2,000 jobs". */
export function plural(n, one, many = `${one}s`) {
    return `${number.format(Number(n))} ${Number(n) === 1 ? one : many}`;
}


/* facts([name, value], …): those that have a value, as a <dl>. */
export function facts(...pairs) {
    return el('dl', { class: 'facts' }, pairs.filter((p) => p && p[1] !== null
        && p[1] !== undefined && p[1] !== '').map(([name, value]) => [
        el('dt', {}, name), el('dd', {}, value)]));
}


/*
 * points(...): those that are there, as a list; each a text, a node or a list
 * of these.
 */
export function points(...items) {
    return el('ul', { class: 'points' },
        items.filter(Boolean).map((i) => el('li', {}, i)));
}


/* table(caption, head, rows, empty): a table of texts and nodes. */
export function table(caption, heads, rows, empty = 'None.') {
    if (rows.length === 0) {
        return el('p', { class: 'quiet' }, empty);
    }

    return el('div', { class: 'scroll', tabIndex: 0, role: 'group',
        'aria-label': caption }, el('table', {},
        el('caption', { class: 'sr-only' }, caption),
        el('thead', {}, el('tr', {}, heads.map((h) =>
            el('th', { scope: 'col' }, head(h))))),
        el('tbody', {}, rows.map((r) => el('tr', {}, r.map((c) =>
            el('td', {}, c ?? '–')))))));
}


/* enc(text): as a segment of a path. */
export const enc = (text) => encodeURIComponent(text);
