/*
 * live.js: job changes as they happen, from /v1/events (server-sent events).
 *
 * One stream a tab, open only while somebody listens and the tab is seen: a
 * browser has few connections to one server, and a parked one costs there,
 * too.  After a pause it goes on behind the last event that came, by
 * Last-Event-ID; an EventSource opened anew could not say that header, so the
 * stream is read by hand.
 */

import { login } from './api.js';
import { parse } from './json.js';
import { pageSignal } from './nav.js';

const PATH = '/v1/events';
const FIRST_PAUSE = 500;        /* ms */
const LONGEST_PAUSE = 15_000;
const SILENCE = 60_000;         /* without even a comment: it is dead */
const SLEEP = 15 * 60_000;      /* without a hand: shorter than a session's */

const listeners = new Set();
const watchers = new Set();

let touched = Date.now();
let last = '';
let running = null;             /* AbortController of the stream */
let state = 'off';


function tell(now) {
    if (now !== state) {
        state = now;
        for (const fn of watchers) {
            fn(state);
        }
    }
}


/*
 * awake(): somebody is there: the tab is seen, and was touched not long ago.
 * What asks again by itself asks this before: a session that nobody uses is
 * to end, and a page that is left open must not keep it.
 */
export const awake = () => !document.hidden
    && Date.now() - touched < SLEEP;


/*
 * onState(fn): fn("live" | "connecting" | "asleep" | "offline" | "off"), now
 * and on each change.
 */
export function onState(fn) {
    watchers.add(fn);
    fn(state);
}


/*
 * onJob(fn, {signal}): fn(event) for each change of a job of the tenant:
 * {job_id, status, …} as /v1/events tells it.  fn(null): some may have been
 * missed, or no stream is to be had; look anew.  Until the signal is aborted, by default when the page is
 * left.
 */
export function onJob(fn, { signal = pageSignal() } = {}) {
    if (signal.aborted) {
        return;
    }

    listeners.add(fn);
    signal.addEventListener('abort', () => {
        listeners.delete(fn);
        /* the next page's listener comes at once, if there is one */
        setTimeout(turn, 1000);
    }, { once: true });

    turn();
}


/* Opens or closes the stream as it is needed. */
function turn() {
    const wanted = listeners.size > 0 && awake()
        && navigator.onLine !== false;

    if (wanted && running === null) {
        running = new AbortController();
        run(running);
    } else if (!wanted && running !== null) {
        running.abort();
        running = null;
        tell(document.hidden ? 'off'
            : navigator.onLine === false ? 'offline'
                : awake() ? 'off' : 'asleep');
    }
}


function deal(doc) {
    for (const fn of [...listeners]) {
        try {
            fn(doc);
        } catch (error) {
            console.error(error);
        }
    }
}


/* One event: its lines, as the HTML standard (9.2.6) reads them. */
function event(block, conf) {
    let   name = 'message';
    const data = [];

    for (const line of block.split('\n')) {
        const colon = line.indexOf(':');
        const field = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? ''
            : line.slice(colon + 1).replace(/^ /, '');

        if (field === 'event') {
            name = value;
        } else if (field === 'data') {
            data.push(value);
        } else if (field === 'id' && !value.includes('\0')) {
            last = value;
        } else if (field === 'retry' && /^[0-9]+$/.test(value)) {
            conf.pause = Number(value);
        }
    }

    if (data.length === 0) {
        return;
    }

    if (name === 'reset' || name === 'gap' || name === 'lost') {
        deal(null);
        return;
    }

    try {
        const doc = parse(data.join('\n'));
        if (doc !== null && typeof doc === 'object' && 'job_id' in doc) {
            deal(doc);
        }
    } catch {
        /* not for us */
    }
}


async function stream(signal, conf) {
    const silence = new AbortController();
    const headers = { Accept: 'text/event-stream' };
    let   timer;
    let   rest = '';

    const wind = () => {
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE);
    };

    if (last !== '') {
        headers['Last-Event-ID'] = last;
    }

    wind();

    try {
        const res = await fetch(PATH, {
            headers, cache: 'no-store', credentials: 'same-origin',
            signal: AbortSignal.any([signal, silence.signal]),
        });

        if (res.status === 401) {
            login();
            return;
        }

        if (!res.ok || res.body === null) {
            /* the server is there and has no stream for us: a look, then */
            deal(null);
            throw new Error(`the answer was ${res.status}`);
        }

        conf.failed = 0;
        tell('live');

        if (last === '') {
            /* what changed since the page was asked for was not told */
            deal(null);
        }

        const reader = res.body.pipeThrough(new TextDecoderStream())
            .getReader();

        for ( ;; ) {
            const { value, done } = await reader.read();

            if (done) {
                return;
            }

            wind();

            /* a \r at the end may be half of a line's end */
            rest = (rest + value).replace(/\r\n/g, '\n')
                .replace(/\r(?!$)/g, '\n');

            for ( ;; ) {
                const end = rest.indexOf('\n\n');
                if (end < 0) {
                    break;
                }
                event(rest.slice(0, end), conf);
                rest = rest.slice(end + 2);
            }
        }

    } finally {
        clearTimeout(timer);
    }
}


async function run(control) {
    const conf = { pause: FIRST_PAUSE, failed: 0 };

    while (!control.signal.aborted) {
        tell('connecting');

        try {
            await stream(control.signal, conf);
        } catch {
            conf.failed += 1;
        }

        if (control.signal.aborted) {
            return;
        }

        tell('connecting');

        const pause = Math.min(LONGEST_PAUSE,
            conf.pause * 2 ** Math.min(conf.failed, 6));

        /* not all of them at once when the server is back */
        await new Promise((next) => {
            setTimeout(next, pause * (0.5 + Math.random() / 2));
        });
    }
}


function touch() {
    const slept = !awake();

    touched = Date.now();
    if (slept) {
        turn();
    }
}

for (const name of ['pointerdown', 'pointermove', 'keydown', 'wheel',
    'touchstart'])
{
    addEventListener(name, touch, { passive: true, capture: true });
}

setInterval(turn, 30_000);

document.addEventListener('visibilitychange', () => {
    touch();
    turn();
});
window.addEventListener('online', turn);
window.addEventListener('offline', turn);
