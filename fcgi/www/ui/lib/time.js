/*
 * time.js: times in the viewer's zone, with UTC in the title.
 */

import { el } from './dom.js';

const two = (n) => String(n).padStart(2, '0');

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone ?? 'local time';

const UNITS = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];


function date(value) {
    const at = value instanceof Date ? value : new Date(String(value ?? ''));

    return Number.isNaN(at.getTime()) ? null : at;
}


function day(at) {
    return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}


function clock(at) {
    return `${two(at.getHours())}:${two(at.getMinutes())}`
        + `:${two(at.getSeconds())}`;
}


function utc(at) {
    return `${at.toISOString().replace('T', ' ').replace('Z', '')} UTC`;
}


/*
 * duration(seconds): "1 h 4 min": the two largest units; below a second in
 * ms.  "" for what is no number.
 */
export function duration(seconds) {
    const n = Number(seconds);

    if (seconds === null || seconds === undefined || !Number.isFinite(n)) {
        return '';
    }

    if (n < 0) {
        return `-${duration(-n)}`;
    }

    if (n < 1) {
        return n === 0 ? '0 s' : `${Math.max(1, Math.round(n * 1000))} ms`;
    }

    if (n < 10) {
        return `${Math.round(n * 10) / 10} s`;
    }

    let rest = Math.round(n);
    const parts = [];

    for (const [unit, size] of UNITS) {
        const count = Math.floor(rest / size);
        if (count > 0) {
            parts.push(`${count} ${unit}`);
            rest -= count * size;
        } else if (parts.length > 0) {
            break;
        }
        if (parts.length === 2) {
            break;
        }
    }

    return parts.join(' ');
}


/* between(from, to): the seconds from one time to another, or null. */
export function between(from, to) {
    const a = date(from);
    const b = date(to ?? new Date());

    return a === null || b === null ? null : (b - a) / 1000;
}


/*
 * time(value, options): a <time> of an RFC 3339 time or Date: day and clock
 * in the viewer's zone, the day left out if it is today; UTC in its title.
 * options.full: with the day always.  None: a dash.
 */
export function time(value, { full = false } = {}) {
    const at = date(value);

    if (at === null) {
        return el('span', { class: 'none' }, '–');
    }

    const today = day(at) === day(new Date());

    return el('time', {
        datetime: at.toISOString(),
        title: `${utc(at)} (shown in ${zone})`,
    }, today && !full ? clock(at) : `${day(at)} ${clock(at)}`);
}


function since(at) {
    const seconds = (Date.now() - at.getTime()) / 1000;

    if (Math.abs(seconds) < 1) {
        return 'now';
    }

    return seconds > 0 ? `${coarse(seconds)} ago` : `in ${coarse(-seconds)}`;
}


/* one unit is enough for what changes while it is read */
function coarse(seconds) {
    for (const [unit, size] of UNITS) {
        if (seconds >= size) {
            return `${Math.floor(seconds / size)} ${unit}`;
        }
    }
    return '0 s';
}


/*
 * ago(value): a <time> "3 min ago" or "in 2 h" that stays right while it is
 * in the document; local time and UTC in its title.  None: a dash.
 */
export function ago(value) {
    const at = date(value);

    if (at === null) {
        return el('span', { class: 'none' }, '–');
    }

    return el('time', {
        datetime: at.toISOString(),
        title: `${day(at)} ${clock(at)} (${zone}), ${utc(at)}`,
        data: { ago: '' },
    }, since(at));
}


/* One clock for all of them, none while nobody looks. */
setInterval(() => {
    if (document.hidden) {
        return;
    }

    for (const node of document.querySelectorAll('time[data-ago]')) {
        const text = since(new Date(node.dateTime));
        if (node.textContent !== text) {
            node.textContent = text;
        }
    }
}, 1000);
