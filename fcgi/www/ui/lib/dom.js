/*
 * dom.js: makes elements.  Whatever is stored reaches a page as text only:
 * there is no way in here to give markup, a script, a style or a script's
 * address to an element.
 */

import { parts, plain } from './shown.js';

const SVG = 'http://www.w3.org/2000/svg';

/* set as properties: what the user did is not in the attribute */
const PROPERTIES = new Set(['value', 'checked', 'disabled', 'hidden',
    'selected', 'open', 'indeterminate', 'readOnly', 'required', 'tabIndex']);

const ADDRESSES = new Set(['href', 'src', 'action', 'formaction',
    'xlink:href']);

/* these are read or heard as text */
const TEXTS = new Set(['title', 'aria-label', 'aria-description', 'alt',
    'placeholder']);


/*
 * safe(address): it, if it leads by http or https, or stays on this site;
 * else null.  An address may come from a worker or a provider.
 */
export function safe(address) {
    let url;

    try {
        url = new URL(String(address), document.baseURI);
    } catch {
        return null;
    }

    return url.protocol === 'http:' || url.protocol === 'https:'
        ? String(address) : null;
}


function set(node, name, value) {
    if (value === null || value === undefined || value === false) {
        if (value === false && PROPERTIES.has(name)) {
            node[name] = false;
        }
        return;
    }

    if (name.startsWith('on')) {
        if (typeof value !== 'function') {
            throw new TypeError(`${name} is not a function`);
        }
        node.addEventListener(name.slice(2).toLowerCase(), value);
        return;
    }

    if (name === 'class') {
        node.setAttribute('class',
            Array.isArray(value) ? value.filter(Boolean).join(' ') : value);
        return;
    }

    if (name === 'data') {
        for (const [key, text] of Object.entries(value)) {
            if (text !== null && text !== undefined) {
                node.dataset[key] = text;
            }
        }
        return;
    }

    if (name === 'style' || name === 'srcdoc' || /html$/i.test(name)) {
        throw new TypeError(`${name} is not for here`);
    }

    if (ADDRESSES.has(name.toLowerCase())) {
        const address = safe(value);
        if (address !== null) {
            node.setAttribute(name, address);
        }
        return;
    }

    if (PROPERTIES.has(name) && name in node) {
        node[name] = value;
        return;
    }

    node.setAttribute(name, value === true ? ''
        : TEXTS.has(name) ? plain(value) : String(value));
}


/*
 * A text into a node: unseen characters are shown as what they are, and words
 * from right to left move nothing beside them.  Not in a field, whose text is
 * to be sent on; where no element may be, without the isolation.
 */
function say(node, text) {
    if (node.localName === 'textarea') {
        node.append(text);
        return;
    }

    if (node.namespaceURI === SVG || node.localName === 'option') {
        node.append(plain(text));
        return;
    }

    for (const [sort, part] of parts(text,
        node.closest('.code, code, pre') !== null))
    {
        if (sort === '') {
            node.append(part);
            continue;
        }
        const inside = document.createElement(sort === 'odd' ? 'span' : 'bdi');
        if (sort === 'odd') {
            inside.className = 'odd';
        }
        inside.append(part);
        node.append(inside);
    }
}


function put(node, children) {
    for (const child of children) {
        if (child === null || child === undefined || child === false
            || child === true)
        {
            continue;
        }
        if (Array.isArray(child)) {
            put(node, child);
        } else {
            if (child instanceof Node) {
                node.append(child);
            } else {
                say(node, String(child));
            }
        }
    }
}


function make(node, props, children) {
    for (const [name, value] of Object.entries(props ?? {})) {
        set(node, name, value);
    }

    put(node, children);

    return node;
}


/*
 * el(tag, props, ...children): an HTML element.  props: attributes by name;
 * class a string or a list; data an object (data-*); on… functions; null,
 * undefined and false leave one out.  Children: nodes, lists of children,
 * anything else as text, as shown.js has it; null, undefined, true and false
 * are nothing.
 */
export function el(tag, props, ...children) {
    return make(document.createElement(tag), props, children);
}


/* svg(tag, props, ...children): the same for an element of SVG. */
export function svg(tag, props, ...children) {
    return make(document.createElementNS(SVG, tag), props, children);
}


/* clear(node, ...children): removes what is in it, puts these there. */
export function clear(node, ...children) {
    node.replaceChildren();
    put(node, children);

    return node;
}


/*
 * link(address, text): leads there if that may be followed, else is the text
 * of it.  What is not on this site opens beside and learns nothing of it.
 */
export function link(address, text = address) {
    const ok = safe(address);

    if (ok === null) {
        return el('span', { class: 'code' }, String(text));
    }

    const away = new URL(ok, document.baseURI).origin !== location.origin;

    return el('a', {
        href: ok,
        rel: away ? 'noopener noreferrer' : null,
        target: away ? '_blank' : null,
    }, String(text), away ? el('span', { class: 'unseen' },
        ' (opens in a new tab)') : null);
}


let serial = 0;

/* unique(word): an id that no other element has. */
export function unique(word) {
    serial += 1;
    return `${word}-${serial}`;
}
