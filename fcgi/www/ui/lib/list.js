/*
 * list.js: a list of the API as a table: filters in the address, pages by
 * cursor, rows that stay where they are while they are read.
 */

import { get, query as toQuery } from './api.js';
import { clear, el, unique } from './dom.js';
import { awake, onJob } from './live.js';
import { onQuery, pageSignal, query, setQuery } from './nav.js';
import { problemBox } from './problem.js';

const LIMIT = 50;
const LOOK = 15_000;            /* ms between looks for newer rows */
const SETTLE = 1500;            /* after an event; a burst is one look */
const FAR = 9;                  /* pages without a row that are passed over */

const two = (n) => String(n).padStart(2, '0');


/* A time of the address (UTC) as a datetime-local field has it, and back. */
function toField(value) {
    const at = new Date(value);

    return Number.isNaN(at.getTime()) ? ''
        : `${at.getFullYear()}-${two(at.getMonth() + 1)}-`
            + `${two(at.getDate())}T${two(at.getHours())}:`
            + `${two(at.getMinutes())}:${two(at.getSeconds())}`;
}


function fromField(value) {
    const at = new Date(value);

    return value === '' || Number.isNaN(at.getTime())
        ? '' : at.toISOString().replace('.000Z', 'Z');
}


function option(o) {
    const [value, label] = Array.isArray(o)
        ? o : [o, String(o).replaceAll('_', ' ')];

    return el('option', { value }, label);
}


/* One filter: {node, read(), write(value)}. */
function filter(f) {
    const id = unique('filter');
    let   field, set;

    if (f.kind === 'select') {
        field = el('select', { id, name: f.name },
            el('option', { value: '' }, f.any ?? 'any'));
        set = Promise.resolve(typeof f.options === 'function'
            ? f.options() : f.options ?? []).then((all) => {
            const now = field.dataset.value ?? '';
            field.append(...all.map(option));
            write(now);
        }).catch(() => {});
    } else {
        field = el('input', {
            id, name: f.name,
            type: f.kind === 'time' ? 'datetime-local' : 'search',
            step: f.kind === 'time' ? '1' : null,
            placeholder: f.placeholder,
            autocomplete: 'off', spellcheck: 'false',
        });
    }

    function write(value) {
        field.dataset.value = value;
        if (f.kind === 'time') {
            field.value = toField(value);
            return;
        }
        if (f.kind === 'select' && value !== ''
            && ![...field.options].some((o) => o.value === value))
        {
            field.append(option(value));
        }
        field.value = value;
    }

    return {
        name: f.name,
        set,
        node: el('div', { class: 'field' },
            el('label', { for: id }, f.label), field),
        read: () => (f.kind === 'time'
            ? fromField(field.value) : field.value.trim()),
        write,
    };
}


const phone = matchMedia('(max-width: 640px)');

function filterForm(filters, apply) {
    const fields = filters.map(filter);
    const form = el('form', { class: 'filters', role: 'search',
        'aria-label': 'Filters' },
    fields.map((f) => f.node),
    el('div', { class: 'field buttons' },
        el('button', { type: 'submit' }, 'Apply'),
        el('button', { type: 'reset', class: 'plain' }, 'Clear')));

    const read = () => Object.fromEntries(
        fields.map((f) => [f.name, f.read()]));

    form.addEventListener('submit', (event) => {
        event.preventDefault();
        apply(read());
    });

    form.addEventListener('change', () => apply(read()));

    form.addEventListener('reset', (event) => {
        event.preventDefault();
        for (const f of fields) {
            f.write('');
        }
        apply(read());
    });

    /* on a phone they would fill the screen; folded unless one is set */
    const any = fields.some((f) => query()[f.name]);
    const box = el('details', { class: 'filters-box',
        open: any || !phone.matches }, el('summary', null, 'Filters'), form);

    phone.addEventListener('change', () => {
        box.open = box.open || !phone.matches;
    }, { signal: pageSignal() });

    return {
        box,
        write: (q) => {
            for (const f of fields) {
                f.write(q[f.name] ?? '');
            }
        },
    };
}


/*
 * tableBox(table): a box, named by the table's caption, that scrolls sideways by itself; who has only
 * a keyboard comes to it when there is something to be scrolled.
 */
export function tableBox(node) {
    const box = el('div', { class: 'table-box', tabIndex: -1, role: 'group',
        'aria-label': node.caption.textContent }, node);
    const watch = new ResizeObserver(() => {
        box.tabIndex = box.scrollWidth > box.clientWidth ? 0 : -1;
    });

    watch.observe(box);
    watch.observe(node);

    return box;
}


/* head(label): of a column; one without a label is heard all the same. */
export const head = (label) => (label === ''
    ? el('span', { class: 'unseen' }, 'What can be done') : label);


/*
 * table(columns, caption): {node, body}: an empty table with its heads, for a
 * tableBox.
 */
export function table(columns, caption) {
    const body = el('tbody', { role: 'rowgroup' });
    const node = el('table', { role: 'table', class: 'rows' },
        el('caption', { class: 'unseen' }, caption),
        el('thead', { role: 'rowgroup' },
            el('tr', { role: 'row' }, columns.map((c) =>
                el('th', { scope: 'col', role: 'columnheader',
                    class: c.class }, head(c.label))))),
        body);

    return { node, body };
}


/* row(columns, doc): its <tr>. */
export function row(columns, doc) {
    return el('tr', { role: 'row' }, columns.map((c) => {
        const head = c.head === true;
        const cell = el('div', { class: 'cell' }, c.cell(doc));
        const none = cell.textContent === '' || cell.textContent === '–';
        return el(head ? 'th' : 'td', {
            class: [c.class, none && 'is-none'],
            scope: head ? 'row' : null,
            role: head ? 'rowheader' : 'cell',
            data: { label: c.label },
        }, cell);
    }));
}


/* Up and down lead from row to row, in the same place of each. */
function arrows(event) {
    if ((event.key !== 'ArrowDown' && event.key !== 'ArrowUp')
        || event.altKey || event.ctrlKey || event.metaKey)
    {
        return;
    }

    const tr = event.target.closest('tbody tr');
    const next = event.key === 'ArrowDown'
        ? tr?.nextElementSibling : tr?.previousElementSibling;

    if (!next) {
        return;
    }

    const all = (n) => [...n.querySelectorAll('a[href], button, input')];
    const to = all(next)[all(tr).indexOf(event.target)] ?? all(next)[0];

    if (to) {
        event.preventDefault();
        to.focus();
    }
}


function skeleton(columns, n) {
    return Array.from({ length: n }, () =>
        el('tr', { role: 'row', class: 'skeleton', 'aria-hidden': 'true' },
            columns.map((c) => el('td', { role: 'cell', class: c.class,
                data: { label: c.label } },
            el('div', { class: 'cell' }, el('span', { class: 'bone' }))))));
}


/*
 * list(root, options): puts a list there, and loads it.
 *
 *   path      of the API, without query
 *   fixed     {name: value} that each request carries beside the filters
 *   filters   [{name, label, kind: text|select|time, options, any,
 *             placeholder}]; options: strings, [value, label] pairs, or a
 *             function that gives (a promise of) these
 *   columns   [{label, cell(row) → node, string or list of them, head, class}];
 *             head: it names the row
 *   key       the name of the field that tells rows apart, or a function
 *   empty     what to say, and to do, when there are none: text or node
 *   caption   what the table is, for those who do not see the page
 *   live      true: rows are jobs; they follow /v1/events.  A function
 *             (event, row): whether it is about the row; the event's fields
 *             are entered into the row, or what function update(row, event)
 *             gives takes its place
 *   newest    false: not in the order of time, so that nothing is newer
 *   limit     rows on a page
 *   loaded    called with {items, next} after each page that was loaded
 *
 * Gives {reload()}: loads the same page again, in place.
 */
export function list(root, options) {
    const { path, columns, filters = [], fixed = {}, live = false,
        limit = LIMIT, newest = true } = options;
    const signal = pageSignal();
    const keyOf = typeof options.key === 'function'
        ? options.key : (r) => r[options.key];
    const grid = table(columns, options.caption ?? document.title);
    const says = el('p', { class: 'count', role: 'status' });
    const newer = el('button', { type: 'button', class: 'newer',
        hidden: true, onclick: () => reload({ first: true }) },
    'There are newer rows. Show them');
    const pager = el('nav', { class: 'pager', 'aria-label': 'Pages of the list' });
    const box = tableBox(grid.node);
    const place = el('div', { class: 'list-place' });
    const names = new Set(filters.map((f) => f.name));

    let rows = new Map();           /* key → {doc, tr} */
    let request = null;
    let top = null;

    const chosen = (q = query()) => Object.fromEntries(
        Object.entries(q).filter(([name]) => names.has(name)));

    const others = (q = query()) => Object.fromEntries(Object.entries(q)
        .filter(([name]) => !names.has(name) && name !== 'cursor'));

    const form = filterForm(filters, (values) => {
        setQuery({ ...others(), ...values });
    });

    const address = (extra) => path
        + toQuery({ ...fixed, ...chosen(), ...extra });

    function turnPage(q) {
        const trail = history.state?.trail ?? [];
        const cursor = query().cursor ?? '';

        clear(pager,
            cursor === '' ? null : el('button', { type: 'button',
                onclick: () => setQuery({ ...query(), cursor: '' }) },
            newest ? 'Newest' : 'First'),
            cursor === '' ? null : el('button', { type: 'button',
                disabled: trail.length === 0,
                onclick: () => setQuery({ ...query(),
                    cursor: trail[trail.length - 1] },
                { state: { trail: trail.slice(0, -1) } }) },
            newest ? '← Newer' : '← Back'),
            cursor === '' && q.next === null ? null
                : el('button', { type: 'button', disabled: q.next === null,
                    onclick: () => {
                        setQuery({ ...query(), cursor: q.next },
                            { state: { trail: [...trail, cursor] } });
                        box.focus({ preventScroll: true });
                        root.scrollIntoView({ block: 'start' });
                    } }, newest ? 'Older →' : 'Next →'));
    }

    function empty(page) {
        const filtered = Object.keys(chosen()).length > 0;

        return el('div', { class: 'empty' },
            page.next !== null
                ? el('p', null, 'Nothing matches among the first rows, which '
                    + 'are many. The button below looks further.')
                : filtered ? el('p', null, 'Nothing matches these filters. Take one '
                    + 'away, or clear them all.')
                : el('p', null, options.empty ?? 'There is nothing yet.'));
    }

    function show(page) {
        const items = page.items ?? [];

        rows = new Map();
        clear(grid.body, items.map((doc) => {
            const tr = row(columns, doc);
            rows.set(String(keyOf(doc)), { doc, tr });
            return tr;
        }));

        box.hidden = items.length === 0;
        clear(place, items.length === 0 ? empty(page) : null);
        says.textContent = items.length === 0 ? 'No rows'
            : `${items.length} ${items.length === 1 ? 'row' : 'rows'}`
                + (page.next === null && !query().cursor || !newest ? ''
                    : query().cursor ? ', older ones' : ', the newest');

        if (!query().cursor) {
            top = items.length > 0 ? String(keyOf(items[0])) : '';
        }

        newer.hidden = true;
        turnPage(page);
        options.loaded?.(page);
    }

    /*
     * Under a filter that few rows pass, the server looks at so many rows a
     * page and no more: there may be none yet, and a next page.
     */
    async function pageOf(both) {
        let cursor = query().cursor;

        for (let n = 0; ; n++) {
            const { body } = await get(address({ limit, cursor }),
                { signal: both });
            if (body.items.length > 0 || body.next === null || n === FAR
                || both.aborted)
            {
                return body;
            }
            cursor = body.next;
        }
    }

    async function load({ scroll, quiet = false } = {}) {
        request?.abort();
        const mine = request = new AbortController();

        grid.node.setAttribute('aria-busy', 'true');

        try {
            const body = await pageOf(
                AbortSignal.any([mine.signal, signal]));
            if (mine.signal.aborted || signal.aborted) {
                return;
            }
            show(body);
            if (scroll !== undefined) {
                scrollTo(0, scroll);
            }
        } catch (error) {
            if (error.type === 'aborted' || signal.aborted
                || quiet && rows.size > 0)
            {
                return;
            }
            box.hidden = true;
            says.textContent = '';
            clear(pager);
            clear(place, problemBox(error, () => load()));
            if (error.name !== 'Problem') {
                console.error(error);
            }
        } finally {
            if (mine === request) {
                grid.node.removeAttribute('aria-busy');
            }
        }
    }

    function reload({ first = false } = {}) {
        if (first && query().cursor) {
            setQuery({ ...query(), cursor: '' });
            return undefined;
        }
        return load();
    }

    /* What is read stays; that there is more is said beside it. */
    let looking = null;

    async function look() {
        looking = null;

        if (!newest || signal.aborted || !awake() || query().cursor
            || top === null || !newer.hidden)
        {
            return;
        }

        try {
            const { body } = await get(address({ limit: 1 }), { signal });
            const first = body.items?.[0];
            if (first !== undefined && String(keyOf(first)) !== top
                && !rows.has(String(keyOf(first))))
            {
                newer.hidden = false;
                if (rows.size === 0) {
                    load();
                }
            }
        } catch {
            /* the next look may succeed */
        }
    }

    function soon() {
        looking ??= setTimeout(look, SETTLE);
    }

    /*
     * The rows that are shown, as they are now.  The first page may begin
     * with others by now: what is read stays, and is entered row by row.
     */
    async function again() {
        try {
            const { body } = await get(address({ limit }), { signal });
            for (const doc of body.items) {
                const entry = rows.get(String(keyOf(doc)));
                if (entry !== undefined) {
                    renew(entry, doc);
                }
            }
        } catch {
            return;
        }
        look();
    }

    function renew(entry, doc) {
        const tr = row(columns, doc);

        entry.doc = doc;
        if (!entry.tr.contains(document.activeElement)) {
            entry.tr.replaceWith(tr);
            entry.tr = tr;
        } else {
            replaceCells(entry.tr, tr);
        }
    }

    function change(event) {
        if (event === null) {
            /* in place: it is the same page, unless there are newer rows */
            if (query().cursor || top === null || !newest) {
                load({ quiet: true });
            } else {
                again();
            }
            return;
        }

        let seen = false;

        for (const entry of rows.values()) {
            const about = typeof live === 'function'
                ? live(event, entry.doc) : entry.doc.job_id === event.job_id;
            if (about) {
                seen = true;
                renew(entry, options.update
                    ? options.update(entry.doc, event)
                    : { ...entry.doc, ...event });
            }
        }

        if (!seen) {
            soon();
        }
    }

    root.append(
        ...(filters.length > 0 ? [form.box] : []),
        el('div', { class: 'list-head' }, says, newer),
        box, place, pager);
    grid.body.addEventListener('keydown', arrows);
    clear(grid.body, skeleton(columns, 8));

    form.write(query());
    onQuery((q, { scroll } = {}) => {
        form.write(q);
        load({ scroll });
    });

    if (live) {
        onJob(change);
    }

    const timer = setInterval(look, LOOK);
    signal.addEventListener('abort', () => {
        clearInterval(timer);
        clearTimeout(looking);
    });

    load({ scroll: history.state?.scroll });

    return { reload };
}


/* The focus is in that row: only cells without it are taken anew. */
function replaceCells(old, now) {
    [...old.cells].forEach((cell, i) => {
        if (!cell.contains(document.activeElement) && now.cells[0]) {
            cell.replaceChildren(...[...now.cells[i].childNodes]);
        }
    });
}
