/*
 * progress.js: how far a job is, as its worker tells it.
 */

import { el } from './dom.js';
import { textOf } from './json.js';

const isNumber = (x) => x !== null && x !== undefined && x !== ''
    && typeof x !== 'boolean' && Number.isFinite(Number(x));


/*
 * progress(doc, step): a bar and words of {done, total, note} and the step;
 * any other shape as its JSON.  "" if there is nothing.
 */
export function progress(doc, step) {
    const parts = [];

    if (doc !== null && typeof doc === 'object' && !Array.isArray(doc)
        && (isNumber(doc.done) || doc.note))
    {
        const whole = isNumber(doc.total) && Number(doc.total) > 0;

        if (isNumber(doc.done)) {
            const words = whole ? `${doc.done} of ${doc.total}`
                : `${doc.done} done`;
            parts.push(el('div', null, words));
            if (whole) {
                parts.push(el('progress', { 'aria-label': words,
                    max: String(doc.total),
                    value: String(doc.done) }));
            }
        }
        if (doc.note) {
            parts.push(el('div', null, String(doc.note)));
        }

    } else if (doc !== null && doc !== undefined) {
        parts.push(el('span', { class: 'code' }, textOf(doc).slice(0, 500)));
    }

    if (step) {
        parts.push(el('div', { class: 'quiet' }, 'step ',
            el('span', { class: 'code' }, step)));
    }

    return parts;
}
