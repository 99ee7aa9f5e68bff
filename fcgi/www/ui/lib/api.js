/*
 * api.js: calls of /v1, by the session's cookie.
 */

import { parse, stringify } from './json.js';

const TYPES = 'https://interlock.invalid/problems/';
const PATIENCE = 40_000;        /* ms; a job's status may wait for 30 s */


/*
 * What went wrong, in words.  status: the HTTP one, 0 if no answer came; type:
 * the problem's short name ("impact-changed"), "unreachable" or "aborted"
 * without an answer; body: the whole answer, if it was JSON.
 */
export class Problem extends Error {
    constructor({ status = 0, type = '', title, detail = '', body = null }) {
        super(detail || title);
        this.name = 'Problem';
        this.status = status;
        this.type = type;
        this.title = title;
        this.detail = detail;
        this.body = body;
    }
}


/* login(): to the login page, and from there back to here. */
export function login() {
    const here = location.pathname + location.search;
    location.assign(`/ui/login?next=${encodeURIComponent(here)}`);
}


function body(text, type) {
    if (!/[/+]json\b/.test(type)) {
        return null;
    }

    try {
        return parse(text);
    } catch {
        return null;
    }
}


function problem(res, doc) {
    const name = typeof doc?.type === 'string' ? doc.type : '';

    return new Problem({
        status: res.status,
        type: name.startsWith(TYPES) ? name.slice(TYPES.length) : name,
        title: typeof doc?.title === 'string'
            ? doc.title : `The answer was ${res.status}`,
        detail: typeof doc?.detail === 'string' ? doc.detail : '',
        body: doc,
    });
}


/*
 * call(method, path, options): {status, body, text, headers} of a 2xx; throws
 * Problem otherwise.  options: body (sent as JSON), headers, signal.  A 401
 * leads to the login page, too.
 */
export async function call(method, path, options = {}) {
    const headers = { Accept: 'application/json', ...options.headers };
    const init = {
        method, headers, credentials: 'same-origin', cache: 'no-store',
        redirect: 'error',
        signal: AbortSignal.any([AbortSignal.timeout(PATIENCE),
            ...(options.signal ? [options.signal] : [])]),
    };
    let   res, text;

    if (method !== 'GET') {
        headers['Interlock-UI'] = '1';
    }

    if (options.body !== undefined) {
        headers['Content-Type'] = 'application/json';
        init.body = stringify(options.body);
    }

    try {
        res = await fetch(path, init);
        text = await res.text();
    } catch (e) {
        if (options.signal?.aborted) {
            throw new Problem({ type: 'aborted', title: 'Given up' });
        }
        throw new Problem({
            type: 'unreachable',
            title: e.name === 'TimeoutError'
                ? 'interlock takes too long to answer'
                : 'interlock cannot be reached',
            detail: method === 'GET'
                ? 'The network or the server is away.'
                : 'It is not known whether the request arrived. Look before '
                    + 'you send it again.',
        });
    }

    const doc = body(text, res.headers.get('Content-Type') ?? '');

    if (!res.ok) {
        if (res.status === 401) {
            login();
        }
        throw problem(res, doc);
    }

    return { status: res.status, body: doc, text, headers: res.headers };
}


export const get = (path, options) => call('GET', path, options);

export const post = (path, doc = {}, options = {}) =>
    call('POST', path, { ...options, body: doc });

export const put = (path, doc = {}, options = {}) =>
    call('PUT', path, { ...options, body: doc });

export const del = (path, options) => call('DELETE', path, options);


/*
 * query(fields): "?a=b&c=d" of those that have a value, else "".
 */
export function query(fields) {
    const q = new URLSearchParams();

    for (const [name, value] of Object.entries(fields)) {
        if (value !== null && value !== undefined && value !== '') {
            q.append(name, value);
        }
    }

    const text = q.toString();

    return text === '' ? '' : `?${text}`;
}
