/*
 * state.js: how a state looks: a sign, its word and a colour, so that none
 * needs the colour.
 */

import { el } from './dom.js';

const TONES = {
    ok: ['succeeded', 'confirmed', 'published', 'delivered', 'done', 'accepted',
        'completed', 'ok', 'complete'],
    run: ['running', 'checking', 'sending', 'send', 'claimed'],
    wait: ['queued', 'waiting', 'buffered', 'intended', 'pending', 'delayed',
        'due', 'spooled', 'admitted', 'planned'],
    warn: ['held', 'parked', 'paused', 'unknown', 'late', 'missing', 'open',
        'in_flight', 'full', 'refused'],
    bad: ['failed', 'needs_human', 'rejected', 'lost', 'expired', 'fail',
        'error', 'gap'],
    off: ['canceled', 'superseded', 'skipped', 'duplicate', 'idle', 'replaced',
        'dismissed', 'release', 'released', 'off'],
};

const SIGNS = {
    ok: '✓', run: '▶', wait: '…', warn: '!', bad: '✕', off: '–',
};

const tones = new Map(Object.entries(TONES)
    .flatMap(([tone, words]) => words.map((word) => [word, tone])));


/* tone(state): ok, run, wait, warn, bad or off. */
export function tone(state) {
    return tones.get(String(state)) ?? 'off';
}


/*
 * badge(state, text): the state's badge; text in place of its name.  null:
 * a dash.
 */
export function badge(state, text) {
    if (state === null || state === undefined || state === '') {
        return el('span', { class: 'none' }, '–');
    }

    const t = tone(state);

    return el('span', { class: ['badge', `is-${t}`], data: { state } },
        el('span', { class: 'sign', 'aria-hidden': 'true' }, SIGNS[t]),
        text ?? String(state).replaceAll('_', ' '));
}
