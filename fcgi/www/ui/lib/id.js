/*
 * id.js: names of things: links to their pages, with a button that copies.
 */

import { el } from './dom.js';

/* a work key in a path: one segment, its colons readable */
const segment = (text) =>
    encodeURIComponent(String(text)).replaceAll('%3A', ':');

export const workPath = (key) => `/ui/works/${segment(key)}`;
export const jobPath = (id) => `/ui/jobs/${segment(id)}`;
export const effectPath = (id) => `/ui/effects/${segment(id)}`;

/* api(path, …segments): "/v1/works/" and "/v1/jobs/" of what is stored. */
export const apiPath = (base, name, rest = '') =>
    `${base}/${segment(name)}${rest}`;


async function toClipboard(text) {
    try {
        await navigator.clipboard.writeText(text);
        return true;
    } catch {
        /* not there without https; the older way asks nobody */
    }

    const area = el('textarea', { class: 'unseen', readOnly: true,
        'aria-hidden': 'true' });
    area.value = text;
    document.body.append(area);
    area.select();

    try {
        return document.execCommand('copy');
    } catch {
        return false;
    } finally {
        area.remove();
    }
}


/*
 * copyButton(text, what): a button that copies the text and says so; what:
 * what it is, for those who do not see it ("job id").
 */
export function copyButton(text, what = 'this') {
    const said = el('span', { class: 'unseen', role: 'status' });
    const button = el('button', {
        type: 'button', class: 'copy', title: `Copy ${what}`,
        'aria-label': `Copy ${what}`,
        onclick: async (event) => {
            event.preventDefault();
            const at = document.activeElement;
            const ok = await toClipboard(String(text));
            at?.focus?.();
            button.dataset.done = ok ? 'yes' : 'no';
            said.textContent = ok ? 'Copied' : 'Could not be copied';
            setTimeout(() => {
                delete button.dataset.done;
                said.textContent = '';
            }, 1500);
        },
    });

    return [button, said];
}


/*
 * name(text, {href, what, short}): a name in the fixed font, leading to its
 * page, with its copy button.  short: only its last 8 characters are shown
 * (time-ordered ids differ there).
 */
export function name(text, { href, what = 'name', short = false } = {}) {
    if (text === null || text === undefined || text === '') {
        return el('span', { class: 'none' }, '–');
    }

    const all = String(text);
    const shown = short && all.length > 12 ? `…${all.slice(-8)}` : all;
    const props = { class: 'code', title: shown === all ? null : all };

    return el('span', { class: 'name' },
        href ? el('a', { ...props, href }, shown) : el('span', props, shown),
        copyButton(all, what));
}


export const workName = (key, options) =>
    name(key, { href: key ? workPath(key) : null, what: 'work key',
        ...options });

export const jobName = (id, options) =>
    name(id, { href: id ? jobPath(id) : null, what: 'job id', ...options });

export const effectName = (id, options) =>
    name(id, { href: id ? effectPath(id) : null, what: 'effect id',
        ...options });
