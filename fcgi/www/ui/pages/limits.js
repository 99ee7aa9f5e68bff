/* limits.js: how many may run at once, and how many do. */

import { bars, meter } from '../lib/chart.js';
import { clear, el } from '../lib/dom.js';
import { list } from '../lib/list.js';
import { onJob } from '../lib/live.js';

export const title = 'Limits';

const SHOWN = 24;               /* bars; more are in the list alone */
const SETTLE = 1000;


export async function page(root, { signal }) {
    const chart = el('div');
    let soon = null;
    let l = null;

    root.append(el('p', { class: 'lead' }, 'Kinds name the limits that their '
        + 'jobs count for. Of one with fields in braces, each setting of them '
        + 'has the whole capacity; what runs is of the fullest.'),
    el('section', { class: 'card', 'aria-label': 'Running of capacity' },
        chart));

    const draw = (doc) => {
        const fullest = [...doc.items].sort((a, b) =>
            b.active / b.capacity - a.active / a.capacity).slice(0, SHOWN);
        clear(chart, bars({
            title: 'Running of capacity', unit: 'jobs',
            note: doc.items.length > SHOWN
                ? `the ${SHOWN} fullest of ${doc.items.length}` : null,
            empty: 'There is no limit. “interlock limit put” makes one.',
            bars: fullest.map((x) => ({ label: x.name,
                value: Number(x.active), of: Number(x.capacity) })),
        }));
    };

    l = list(root, {
        path: '/v1/limits',
        caption: 'Limits, by name',
        key: 'name',
        empty: 'There is no limit: nothing holds back what may start.',
        loaded: draw,
        columns: [
            { label: 'Limit', class: 'key', head: true,
                cell: (x) => el('span', { class: 'code' }, x.name) },
            { label: 'Running of capacity', class: 'tight', cell: (x) => [
                meter(Number(x.active), Number(x.capacity),
                    `${x.active} of ${x.capacity}`),
                ` ${x.active} of ${x.capacity}`,
                x.active >= x.capacity ? ' – full' : ''] },
            { label: 'Starts a second, at most', class: 'number',
                cell: (x) => (x.start_rate === null ? 'any number'
                    : String(x.start_rate)) },
        ],
    });

    onJob(() => {
        soon ??= setTimeout(async () => {
            soon = null;
            if (!signal.aborted) {
                l.reload();
            }
        }, SETTLE);
    });
}
