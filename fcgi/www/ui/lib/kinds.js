/*
 * kinds.js: the names of the tenant's kinds, for filters.
 */

import { get } from './api.js';

let names = null;

/*
 * kinds(): a promise of their names; none for a role that may not see them.
 * Asked for once while the pages are open.
 */
export function kinds() {
    names ??= get('/v1/kinds?limit=200')
        .then((r) => r.body.items.map((k) => k.name))
        .catch(() => {
            names = null;
            return [];
        });

    return names;
}
