/*
 * problem.js: what went wrong, in words, with what can be done about it.
 */

import { el } from './dom.js';

const WORDS = {
    0: 'Check that interlock runs and that the network is there, then try '
        + 'again.',
    400: 'Something in the address or a filter is not understood.',
    401: 'The session has ended. Log in again.',
    403: 'Your token\'s role may not see or do this.',
    404: 'There is nothing here: it never was, it is another tenant\'s, or '
        + 'it was removed when its time was over.',
    410: 'It was removed when its time was over.',
    412: 'What you looked at has changed since. Look again.',
    429: 'Too much at once. Wait a moment, then try again.',
    503: 'interlock cannot answer just now. It comes back by itself; try '
        + 'again.',
};


/*
 * problemBox(error, retry): an alert that says it; with retry (a function) a
 * button that tries again.
 */
export function problemBox(error, retry) {
    const status = error.status ?? 0;
    const known = error.name === 'Problem';
    const title = known ? error.title : 'This page has a fault';
    const detail = known ? error.detail : error.message;
    const word = known ? WORDS[status] ?? (status >= 500 ? WORDS[503] : '')
        : 'Load it again; if it stays, report it with what you did.';

    return el('div', { class: 'problem', role: 'alert',
        data: { type: error.type ?? 'fault' } },
        el('p', null, el('strong', null, title),
            status > 0 ? el('span', { class: 'quiet' }, ` (${status})`)
                : null),
        detail && detail !== title ? el('p', null, detail) : null,
        word ? el('p', { class: 'quiet' }, word) : null,
        retry ? el('p', null, el('button', { type: 'button',
            onclick: retry }, 'Try again')) : null);
}


/*
 * guard(root, fn, signal): await fn(); if it throws, root shows why, with a
 * button to try again.  For what a page does first.
 */
export async function guard(root, fn, signal) {
    try {
        await fn();
    } catch (error) {
        if (signal?.aborted || error.type === 'aborted') {
            return;
        }
        if (error.name !== 'Problem') {
            console.error(error);
        }
        root.replaceChildren(problemBox(error, () => {
            root.replaceChildren(el('p', { class: 'loading',
                role: 'status' }, 'Loading …'));
            guard(root, fn, signal);
        }));
    }
}
