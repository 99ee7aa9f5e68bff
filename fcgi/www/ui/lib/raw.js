/*
 * raw.js: shows stored bytes as they are: as text, never as markup.
 */

import { Problem, login } from './api.js';
import { el } from './dom.js';
import { format } from './json.js';

const SHOWN = 256 * 1024;       /* bytes; more is for a file */


/*
 * raw(text, label): JSON text laid out in lines, letter for letter; anything
 * else as it is.
 */
export function raw(text, label) {
    return el('pre', { class: 'raw', tabIndex: 0, role: 'group',
        'aria-label': label }, format(text));
}


/* The first bytes of an answer, and whether these were all. */
async function head(res) {
    const reader = res.body.getReader();
    const parts = [];
    let   size = 0;

    for ( ;; ) {
        const { value, done } = await reader.read();

        if (done) {
            break;
        }

        parts.push(value);
        size += value.length;

        if (size > SHOWN) {
            await reader.cancel();
            break;
        }
    }

    const bytes = new Uint8Array(Math.min(size, SHOWN));
    let   at = 0;

    for (const part of parts) {
        const room = part.subarray(0, bytes.length - at);
        bytes.set(room, at);
        at += room.length;
    }

    return { bytes, whole: size <= SHOWN };
}


/* Bytes as text, or null if they are none; a cut end is no fault. */
function decode(bytes, whole) {
    try {
        return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
            .decode(bytes, { stream: !whole });
    } catch {
        return null;
    }
}


/*
 * stored(path, {label, signal}): a promise of a node with the bytes that the
 * API gives at that path, and a link to have them as a file.
 */
export async function stored(path, { label, signal }) {
    let res, bytes, whole;

    try {
        res = await fetch(path, { signal, cache: 'no-store',
            credentials: 'same-origin' });
        if (res.ok) {
            ({ bytes, whole } = await head(res));
        }
    } catch {
        throw new Problem({
            type: signal?.aborted ? 'aborted' : 'unreachable',
            title: 'interlock cannot be reached',
        });
    }

    if (res.status === 401) {
        login();
    }

    if (!res.ok) {
        throw new Problem({ status: res.status,
            title: `The answer was ${res.status}` });
    }

    const file = el('p', null, el('a', { href: path, download: '' },
        'Download as stored'));

    if (bytes.length === 0) {
        return el('p', { class: 'quiet' }, 'It has none.');
    }

    const text = decode(bytes, whole);

    return el('div', null,
        whole ? null : el('p', { class: 'quiet' },
            `The first ${SHOWN / 1024} KiB.`),
        text === null
            ? el('p', null, 'These bytes are no text.')
            : raw(text, label),
        file);
}
