/*
 * app.js: the frame of the pages: which path is which page, the session, the
 * navigation, the theme.
 */

import { get } from './lib/api.js';
import { clear, el } from './lib/dom.js';
import { onState } from './lib/live.js';
import { go, here, query, route, turn } from './lib/nav.js';
import { problemBox } from './lib/problem.js';
import { plain } from './lib/shown.js';
import { time } from './lib/time.js';

/*
 * The pages: a path below /ui/ and its module in pages/.  {} is one segment,
 * decoded into args.
 */
const PAGES = [
    ['', 'overview'],
    ['inbox', 'inbox'],
    ['requests', 'requests'],
    ['works', 'works'],
    ['works/{}', 'work'],
    ['jobs', 'jobs'],
    ['jobs/{}', 'job'],
    ['effects', 'effects'],
    ['effects/{}', 'effect'],
    ['leases', 'leases'],
    ['schedules', 'schedules'],
    ['schedules/{}', 'schedule'],
    ['gaps', 'gaps'],
    ['limits', 'limits'],
    ['kinds', 'kinds'],
    ['kinds/{}', 'kinds'],
    ['audit', 'audit'],
    ['config', 'config'],
    ['search', 'search'],
].map(([pattern, name]) => ({
    name,
    match: new RegExp(`^${pattern.replaceAll('{}', '([^/]+)')}/?$`),
}));

const $ = (id) => document.getElementById(id);

let session = null;


/* --- the theme: the system's, unless this browser was told otherwise ----- */

function stored() {
    try {
        return localStorage.getItem('interlock-theme') ?? '';
    } catch {
        return '';
    }
}

function theme(name) {
    if (name === 'light' || name === 'dark') {
        document.documentElement.dataset.theme = name;
    } else {
        delete document.documentElement.dataset.theme;
    }
}

theme(stored());
$('theme').value = document.documentElement.dataset.theme ?? '';
$('theme').addEventListener('change', (event) => {
    theme(event.target.value);
    try {
        localStorage.setItem('interlock-theme', event.target.value);
    } catch {
        /* then for as long as this page is open */
    }
});


/* --- the frame ---------------------------------------------------------- */

function menu(open) {
    $('nav').classList.toggle('open', open);
    $('menu').setAttribute('aria-expanded', String(open));
}

$('menu').addEventListener('click', () => {
    menu($('menu').getAttribute('aria-expanded') !== 'true');
});

document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape'
        && $('menu').getAttribute('aria-expanded') === 'true')
    {
        menu(false);
        $('menu').focus();
    }
});

$('search').addEventListener('submit', (event) => {
    event.preventDefault();
    const q = $('search-q').value.trim();
    if (q !== '') {
        go(`/ui/search?q=${encodeURIComponent(q)}`);
    }
});


function mark() {
    const path = location.pathname.replace(/\/$/, '');

    for (const a of $('nav').querySelectorAll('a')) {
        const to = new URL(a.href).pathname.replace(/\/$/, '');
        const on = to === '/ui' ? path === to
            : path === to || path.startsWith(`${to}/`);
        if (on) {
            a.setAttribute('aria-current', path === to ? 'page' : 'true');
        } else {
            a.removeAttribute('aria-current');
        }
    }
}


function who() {
    clear($('who'),
        el('span', null, session.tenant), ' ',
        el('span', { class: 'by' }, `· ${session.token_name} `),
        el('span', { class: 'role', title: session.role === 'auditor'
            ? 'Sees everything, changes nothing' : null }, session.role));

    const end = $('session-end') ?? el('p', { id: 'session-end',
        class: 'quiet' });
    clear(end, 'Session until ', time(session.absolute_end));
    $('nav').querySelector('.nav-end').append(end);
}

onState((state) => {
    $('live').dataset.state = state;
    $('live').textContent = {
        live: 'Live', connecting: 'Connecting …', off: '',
        asleep: 'Asleep until you are back', offline: 'Offline',
    }[state];
});


/* --- pages -------------------------------------------------------------- */

function find() {
    const path = location.pathname.replace(/^\/ui\/?/, '');

    for (const page of PAGES) {
        const found = page.match.exec(path);
        if (found !== null) {
            try {
                return { name: page.name,
                    args: found.slice(1).map(decodeURIComponent) };
            } catch {
                return null;            /* a % that is none */
            }
        }
    }

    return null;
}


function head(title) {
    clear($('title'), title);
    document.title = `${plain(title)} · interlock`;
}


let first = true;

async function show({ scroll = 0 } = {}) {
    const signal = turn();
    const found = find();
    const root = el('div', { id: 'page' });

    here();
    mark();
    menu(false);
    $('search-q').value = '';

    if (found === null) {
        head('Not found');
        $('page').replaceWith(root);
        root.append(el('div', { class: 'empty' },
            el('p', null, 'There is no page at this address. The pages are '
                + 'in the menu; the search finds jobs and works by their '
                + 'names.')));
        return;
    }

    try {
        const [module] = await Promise.all([
            import(`./pages/${found.name}.js`),
            session ?? get('/ui/session').then((r) => {
                session = r.body;
                who();
            }),
        ]);
        if (signal.aborted) {
            return;
        }

        const context = { path: location.pathname, args: found.args,
            query: query(), session, signal };
        const title = typeof module.title === 'function'
            ? module.title(context) : module.title;

        head(title);
        $('page').replaceWith(root);
        if (!first) {
            $('title').focus({ preventScroll: true });
        }
        first = false;
        scrollTo(0, 0);
        await module.page(root, context);
        if (!signal.aborted && scroll > 0) {
            scrollTo(0, scroll);
        }

    } catch (error) {
        if (signal.aborted || error.type === 'aborted') {
            return;
        }
        if (error.name !== 'Problem') {
            console.error(error);
        }
        if (!root.isConnected) {
            $('page').replaceWith(root);
        }
        clear(root, problemBox(error, () => show()));
    }
}

route(show);
show({ scroll: history.state?.scroll ?? 0 });
