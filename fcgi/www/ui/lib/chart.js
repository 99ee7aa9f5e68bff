/*
 * chart.js: charts in SVG, each with its words: a title and a description for
 * those who hear the page, and its figures as a table for those who want them.
 * A chart is drawn for the width that it has, and again when that changes.
 */

import { clear, el, svg, unique } from './dom.js';
import { time } from './time.js';

const NARROW = 280;             /* px: nothing is drawn for less */

const number = new Intl.NumberFormat(undefined, { maximumFractionDigits: 2 });

/* what lies between two marks of a time axis, in ms */
const MINUTE = 60_000;
const STEPS = [1, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080]
    .map((minutes) => minutes * MINUTE);


/* The mark above `max` that people count by, and the step to it. */
function marks(max) {
    const rough = Math.max(max, 1) / 4;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max(1, [1, 2, 5, 10].map((m) => m * power)
        .find((s) => s >= rough));

    return { step, top: Math.ceil(Math.max(max, 1) / step) * step };
}


function clock(at, span) {
    const d = new Date(at);
    const day = d.toLocaleDateString(undefined,
        { month: 'short', day: 'numeric' });

    return span > 2 * 1440 * MINUTE ? day
        : d.toLocaleTimeString(undefined,
            { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
}


/* Marks of a time axis fall on whole hours and days of the viewer's zone. */
function ticks(from, to, most) {
    const span = to - from;
    const step = STEPS.find((s) => span / s <= most) ?? span;
    const shift = new Date(from).getTimezoneOffset() * MINUTE;
    const out = [];

    for (let t = Math.ceil((from - shift) / step) * step + shift; t <= to;
        t += step)
    {
        out.push(t);
    }

    return out;
}


/* The figures below a chart, made only when somebody opens them. */
function figures(caption, head, rows) {
    const box = el('div', { class: 'scroll', tabIndex: 0, role: 'group',
        'aria-label': caption });

    return el('details', { class: 'figures', ontoggle: (e) => {
        if (!e.target.open || box.firstChild) {
            return;
        }
        clear(box, el('table', {},
            el('caption', { class: 'sr-only' }, caption),
            el('thead', {}, el('tr', {}, head.map((h) =>
                el('th', { scope: 'col' }, h)))),
            el('tbody', {}, rows().map((r) => el('tr', {}, r.map((c, i) =>
                el(i === 0 ? 'th' : 'td', { scope: i === 0 ? 'row' : null },
                    c)))))));
    } }, el('summary', {}, 'As a table'), box);
}


/* A figure whose drawing is made anew for each width that it gets. */
function figure(spec, kind, draw, ...below) {
    const title = unique('chart');
    const desc = unique('chart');
    const box = el('div', { class: 'canvas' });
    let   width = 0;

    const paint = () => {
        const w = Math.max(NARROW, Math.floor(box.clientWidth));
        if (w === width) {
            return;
        }
        width = w;
        clear(box, draw(w, { title, desc }));
    };

    const watch = new ResizeObserver(() => paint());
    watch.observe(box);

    return el('figure', { class: ['chart', `chart-${kind}`] },
        el('figcaption', {}, spec.title,
            spec.note ? el('span', { class: 'quiet' }, ` ${spec.note}`) : null),
        box, below);
}


function picture(width, height, ids, spec, ...children) {
    return svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`,
        role: 'img', 'aria-labelledby': `${ids.title} ${ids.desc}`,
        focusable: 'false' },
        svg('title', { id: ids.title }, spec.title),
        svg('desc', { id: ids.desc }, spec.desc), ...children);
}


/* ------------------------------------------------------------------- lines */


function extent(series) {
    const at = series.flatMap((s) => s.points.map((p) => p.at));
    const values = series.flatMap((s) => s.points.map((p) => p.value ?? 0));

    return { from: Math.min(...at), to: Math.max(...at),
        max: values.reduce((a, b) => Math.max(a, b), 0) };
}


/* Where nothing was measured the line has a hole. */
function path(points, x, y, hole) {
    let out = '';
    let last = null;

    for (const p of points) {
        if (p.value === null || p.value === undefined) {
            last = null;
            continue;
        }
        const far = last === null || (hole > 0 && p.at - last > hole);
        out += `${far ? 'M' : 'L'}${x(p.at).toFixed(1)} ${y(p.value).toFixed(1)}`;
        last = p.at;
    }

    return out;
}


function legend(series) {
    return el('ul', { class: 'legend' }, series.map((s, i) => el('li', {},
        svg('svg', { width: 26, height: 10, 'aria-hidden': 'true',
            focusable: 'false' },
            svg('path', { class: `line s${i % 6}`, d: 'M1 5L25 5' })),
        s.name)));
}


/*
 * lines({title, desc, note, unit, height, hole, series: [{name, points: [{at:
 * ms since 1970, value: number or null}]}]}): values over time.  hole: ms
 * after which a line does not go on.  Without a point: a sentence.
 */
export function lines(spec) {
    const series = spec.series.filter((s) => s.points.length > 0);

    if (series.length === 0) {
        return el('figure', { class: 'chart' },
            el('figcaption', {}, spec.title),
            el('p', { class: 'quiet' }, spec.empty
                ?? 'Nothing has been measured yet.'));
    }

    const { from, to, max } = extent(series);
    const { step, top } = marks(max);
    const unit = spec.unit ?? '';
    const words = (v) => `${number.format(v)}${unit ? ` ${unit}` : ''}`;
    const height = spec.height ?? 200;
    const reading = el('p', { class: 'reading', 'aria-hidden': 'true' }, ' ');
    const desc = spec.desc ?? series.map((s) => {
        const known = s.points.filter((p) => p.value !== null);
        return known.length === 0 ? `${s.name}: not measured.`
            : `${s.name}: last ${words(known.at(-1).value)}, highest `
                + `${words(Math.max(...known.map((p) => p.value)))}.`;
    }).join(' ');

    const draw = (width, ids) => {
        const left = 12 + 8 * String(number.format(top)).length;
        const right = 12;
        const foot = 22;
        const x = (at) => left + (to === from ? 0.5
            : (at - from) / (to - from)) * (width - left - right);
        const y = (v) => height - foot - v / top * (height - foot - 10);
        const cross = svg('line', { class: 'cross', y1: 8,
            y2: height - foot, visibility: 'hidden' });
        const ys = [];

        for (let v = 0; v <= top; v += step) {
            ys.push(v);
        }

        const read = (e) => {
            const px = e.clientX - e.currentTarget.getBoundingClientRect().left;
            const at = from + (px - left) / (width - left - right) * (to - from);
            const near = series.map((s) => s.points.reduce((a, b) =>
                Math.abs(b.at - at) < Math.abs(a.at - at) ? b : a));
            const shown = near.reduce((a, b) =>
                Math.abs(b.at - at) < Math.abs(a.at - at) ? b : a);

            for (const name of ['x1', 'x2']) {
                cross.setAttribute(name, x(shown.at).toFixed(1));
            }
            cross.setAttribute('visibility', 'visible');
            clear(reading, time(new Date(shown.at)), ': ',
                series.map((s, i) => `${s.name} ${near[i].value === null
                    ? '–' : words(near[i].value)}`).join(', '));
        };

        const drawn = picture(width, height, ids, { ...spec, desc },
            ys.map((v) => [
                svg('line', { class: 'grid', x1: left, x2: width - right,
                    y1: y(v), y2: y(v) }),
                svg('text', { class: 'axis', x: left - 6, y: y(v) + 4,
                    'text-anchor': 'end' }, number.format(v)),
            ]),
            ticks(from, to, Math.max(2, Math.floor(width / 90))).map((t) =>
                svg('text', { class: 'axis', x: Math.min(x(t), width - 20),
                    y: height - 6, 'text-anchor': 'middle' },
                    clock(t, to - from))),
            series.map((s, i) => [
                svg('path', { class: `line s${i % 6}`,
                    d: path(s.points, x, y, spec.hole ?? 0) }),
                s.points.length < 3 ? s.points.filter((p) => p.value !== null)
                    .map((p) => svg('circle', { class: `dot s${i % 6}`,
                        cx: x(p.at), cy: y(p.value), r: 3 })) : null,
            ]),
            cross);

        drawn.addEventListener('pointermove', read);
        drawn.addEventListener('pointerleave', () => {
            cross.setAttribute('visibility', 'hidden');
            clear(reading, ' ');
        });

        return drawn;
    };

    const rows = () => {
        const all = new Map();
        series.forEach((s, i) => s.points.forEach((p) => {
            const r = all.get(p.at) ?? Array(series.length).fill(null);
            r[i] = p.value;
            all.set(p.at, r);
        }));
        return [...all].sort((a, b) => b[0] - a[0]).map(([at, values]) =>
            [time(new Date(at), { full: true }), ...values.map((v) =>
                v === null ? '–' : words(v))]);
    };

    return figure(spec, 'lines', draw, reading,
        series.length > 1 ? legend(series) : null,
        figures(spec.title, ['Time', ...series.map((s) => s.name)], rows));
}


/* -------------------------------------------------------------------- bars */


/*
 * bars({title, desc, note, unit, bars: [{label, value, of, note}]}): values
 * beside each other.  of: what the whole bar stands for (a capacity); without
 * it that is the highest value.
 */
export function bars(spec) {
    if (spec.bars.length === 0) {
        return el('figure', { class: 'chart' },
            el('figcaption', {}, spec.title),
            el('p', { class: 'quiet' }, spec.empty ?? 'There is nothing yet.'));
    }

    const unit = spec.unit ? ` ${spec.unit}` : '';
    const max = spec.bars.reduce((m, b) => Math.max(m, b.value), 0) || 1;
    const said = (b) => b.of === undefined || b.of === null
        ? `${number.format(b.value)}${unit}`
        : `${number.format(b.value)} of ${number.format(b.of)}${unit}`;

    const draw = (width, ids) => picture(width, spec.bars.length * 44, ids,
        { ...spec, desc: spec.desc
            ?? spec.bars.map((b) => `${b.label}: ${said(b)}.`).join(' ') },
        spec.bars.map((b, i) => {
            const whole = b.of ?? max;
            const part = whole > 0 ? Math.min(1, b.value / whole) : 0;
            const full = b.of !== undefined && b.of !== null && b.value >= b.of;
            return svg('g', { transform: `translate(0 ${i * 44})` },
                svg('text', { class: 'label', x: 0, y: 14 }, b.label),
                svg('text', { class: 'axis', x: width, y: 14,
                    'text-anchor': 'end' },
                    said(b) + (full ? ' – full' : '')),
                svg('rect', { class: 'rail', x: 0, y: 21, width, height: 12,
                    rx: 3 }),
                svg('rect', { class: full ? 'bar is-full' : 'bar', x: 0, y: 21,
                    width: (part * width).toFixed(1), height: 12, rx: 3 }));
        }));

    return figure(spec, 'bars', draw,
        figures(spec.title, ['What', 'Value'],
            () => spec.bars.map((b) => [b.label, said(b)])));
}


/* meter(value, of, label): one small bar for a row of a table. */
export function meter(value, of, label) {
    const part = of > 0 ? Math.min(1, value / of) : 0;
    const full = value >= of;

    return svg('svg', { class: 'meter', width: 120, height: 12, role: 'img',
        viewBox: '0 0 120 12', 'aria-label': label, focusable: 'false' },
        svg('rect', { class: 'rail', x: 0, y: 1, width: 120, height: 10,
            rx: 3 }),
        svg('rect', { class: full ? 'bar is-full' : 'bar', x: 0, y: 1,
            width: (part * 120).toFixed(1), height: 10, rx: 3 }));
}


/* ---------------------------------------------------------------- calendar */


/*
 * calendar({title, note, corner, columns: [{key, label, title}], rows: [{key,
 * label}], cell: (row, column) → null or {tone, sign, word, title, onclick}}):
 * a table of what became of each row on each date.  A cell has a sign and a
 * word, so that it needs no colour; with onclick it is a button.
 */
export function calendar(spec) {
    const draw = (row, column) => {
        const c = spec.cell(row, column);

        if (c === null || c === undefined) {
            return el('td', {}, el('span', { class: 'sr-only' }, 'nothing due'));
        }

        const inside = [
            el('span', { class: 'sign', 'aria-hidden': 'true' }, c.sign),
            el('span', { class: 'word' }, c.word),
        ];
        const name = `${row.label}, ${column.title ?? column.label}: `
            + `${c.title ?? c.word}`;

        return el('td', { class: ['cell', `is-${c.tone}`] }, c.onclick
            ? el('button', { type: 'button', title: name, 'aria-label': name,
                onclick: c.onclick }, inside)
            : el('span', { title: name }, inside));
    };

    const box = el('div', { class: 'scroll', tabIndex: 0, role: 'group',
        'aria-label': spec.title },
    el('table', { class: 'calendar' },
        el('caption', { class: 'sr-only' }, spec.title),
        el('thead', {}, el('tr', {},
            el('th', { scope: 'col' }, spec.corner ?? ''),
            spec.columns.map((c) => el('th', { scope: 'col',
                title: c.title }, c.label)))),
        el('tbody', {}, spec.rows.map((r) => el('tr', {},
            el('th', { scope: 'row' }, r.label),
            spec.columns.map((c) => draw(r, c)))))));

    /* the newest are at the right end */
    requestAnimationFrame(() => {
        box.scrollLeft = box.scrollWidth;
    });

    return el('figure', { class: 'chart chart-calendar' },
        el('figcaption', {}, spec.title,
            spec.note ? el('span', { class: 'quiet' }, ` ${spec.note}`) : null),
        box);
}
