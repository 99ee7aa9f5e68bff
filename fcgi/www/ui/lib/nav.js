/*
 * nav.js: where we are: the path, the query that holds the filters, and how
 * long the page that is shown lasts.
 */

let   leave = new AbortController();
let   router = null;
const listeners = new Set();

/* the browser would scroll before there is anything to scroll to */
history.scrollRestoration = 'manual';


/* pageSignal(): aborted when the page that is shown now is left. */
export const pageSignal = () => leave.signal;


/* turn(): the page is left; the next one's signal.  For app.js. */
export function turn() {
    leave.abort();
    leave = new AbortController();
    listeners.clear();

    return leave.signal;
}


/* route(fn): fn() shows the page of the present address.  For app.js. */
export function route(fn) {
    router = fn;
}


/* query(): the query of the address as an object. */
export const query = () =>
    Object.fromEntries(new URLSearchParams(location.search));


function remember() {
    history.replaceState({ ...history.state, scroll: scrollY }, '');
}


/* go(path, {replace}): shows that page of ours. */
export function go(path, { replace = false } = {}) {
    remember();

    if (replace) {
        history.replaceState({}, '', path);
    } else {
        history.pushState({}, '', path);
    }

    router({ scroll: 0 });
}


/*
 * setQuery(fields, {replace, state}): another query of the same page; empty
 * fields are left out.  Who listens with onQuery() hears of it; the page
 * stays, and with it the focus.
 */
export function setQuery(fields, { replace = false, state = {} } = {}) {
    const q = new URLSearchParams();

    for (const [name, value] of Object.entries(fields)) {
        if (value !== null && value !== undefined && value !== '') {
            q.append(name, value);
        }
    }

    const text = q.toString();
    const path = location.pathname + (text === '' ? '' : `?${text}`);

    if (path === location.pathname + location.search) {
        return;
    }

    remember();

    if (replace) {
        history.replaceState(state, '', path);
    } else {
        history.pushState(state, '', path);
    }

    asked = location.search;
    for (const fn of listeners) {
        fn(query());
    }
}


/*
 * onQuery(fn): fn(query) whenever only the query changes, by setQuery() or by
 * the back button; until the page is left.  A page that does not listen is
 * made anew.
 */
export function onQuery(fn) {
    listeners.add(fn);
}


let shown = location.pathname;
let asked = location.search;

/* here(): this address is shown now.  For app.js. */
export function here() {
    shown = location.pathname;
    asked = location.search;
}


window.addEventListener('popstate', (event) => {
    const scroll = event.state?.scroll ?? 0;
    const same = location.pathname === shown;

    if (same && location.search === asked) {
        return;                 /* a place in the page, as of the skip link */
    }

    if (same && listeners.size > 0) {
        asked = location.search;
        for (const fn of listeners) {
            fn(query(), { scroll });
        }
        return;
    }

    router({ scroll });
});


/* Links to our own pages are followed without loading anything anew. */
document.addEventListener('click', (event) => {
    const a = event.target.closest?.('a[href]');

    if (a === null || a === undefined || event.defaultPrevented
        || event.button !== 0 || event.metaKey || event.ctrlKey
        || event.shiftKey || event.altKey || a.target !== ''
        || a.hasAttribute('download'))
    {
        return;
    }

    const url = new URL(a.href, document.baseURI);

    if (url.origin !== location.origin || !/^\/ui(\/|$)/.test(url.pathname)
        || /^\/ui\/(login|logout|session|assets)(\/|$)/.test(url.pathname))
    {
        return;
    }

    if (url.hash !== '' && url.pathname === location.pathname
        && url.search === location.search)
    {
        return;
    }

    event.preventDefault();
    go(url.pathname + url.search + url.hash);
});
