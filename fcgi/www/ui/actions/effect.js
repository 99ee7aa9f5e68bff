/*
 * actions/effect.js: what a person may do about one effect: have it looked up
 * now, or say what became of it.
 */

import { action, effectLink, jobLink, row, workLink } from '../lib/action.js';
import { get } from '../lib/api.js';
import { el } from '../lib/dom.js';
import { enc, plural, points } from '../lib/facts.js';
import { badge } from '../lib/state.js';
import { between, duration, time } from '../lib/time.js';

export const SETTLED = ['confirmed', 'failed'];

const LOOKUPS = {
    http: 'Its provider is asked over HTTP, as its kind says',
    worker: 'A worker of the kind effect-check is to look',
};


async function around(id) {
    const effect = (await get(`/v1/effects/${enc(id)}`)).body;
    const [kind, job] = await Promise.all([
        get(`/v1/effect-kinds/${enc(effect.kind)}`).then((r) => r.body,
            (e) => (e.status === 404 ? null : Promise.reject(e))),
        get(`/v1/jobs/${enc(effect.job_id)}`).then((r) => r.body,
            (e) => (e.status === 404 ? null : Promise.reject(e)))]);

    return { effect, kind, job };
}


/* What is known of it. */
function known({ effect, job }) {
    const last = effect.sends.at(-1);

    return [
        [effectLink(effect.effect_id, effect.name ?? 'The effect'), ' of ',
            workLink(effect.work_key), ' is ', badge(effect.state),
            effect.why ? `: ${effect.why}.` : '.'],
        last ? [`It was sent ${plural(effect.sends.length, 'time')}, last at `,
            time(last.begun_at), ' under the key ',
            el('code', {}, effect.idempotency_key), '.'] : null,
        job ? ['Its job ', jobLink(job.job_id, job.job_id.slice(-12)), ' is ',
            badge(job.status), job.waits_for
                ? `, and waits for: ${job.waits_for}.` : '.'] : null,
    ];
}


/* May it be sent again under the key that it has? */
function honoured({ effect, kind }) {
    if (!kind?.idempotent) {
        return false;
    }

    const age = between(effect.first_sent);

    return age !== null && age < Number(kind.key_window);
}


function settled(outcome, all) {
    const { effect, kind } = all;
    const age = between(effect.last_sent);

    switch (outcome) {
    case 'happened':
        return [
            'It counts as confirmed. It is not sent again, by no attempt and'
                + ' no rerun.',
            'If it did not happen after all, it is then missing for good:'
                + ' nobody will send it.',
        ];
    case 'not_happened':
        return [
            'It counts as failed. Its job may send it in a new round, under a'
                + ` new key (round ${effect.round + 1}).`,
            age === null ? null : `The last send was ${duration(age)} ago. If`
                + ' it happened after all, it then happens twice.',
        ];
    default:
        return [
            honoured(all)
                ? ['It may be sent again under the key that it has, which its'
                    + ' provider honours for ', duration(kind.key_window),
                    ': if it had happened, it does not happen twice.']
                : 'It counts as failed and may be sent in a new round, under'
                    + ' a new key: its provider does not honour the present'
                    + ' one (any more). If it happened, it then happens'
                    + ' twice.',
        ];
    }
}

const OUTCOMES = {
    happened: { label: 'It happened', title: 'Settle it: it happened' },
    not_happened: { label: 'It did not happen', danger: true,
        title: 'Settle it: it did not happen' },
    send_again: { label: 'Send again', danger: true,
        title: 'Have it sent again' },
};

const now = (e) => el('p', {}, effectLink(e.effect_id, e.name ?? 'It'),
    ' is now ', badge(e.state), '. ', jobLink(e.job_id, 'Its job'),
    ' goes on from there.');


/* settleAction(effect, outcome, …): happened, not_happened, send_again. */
export function settleAction(effect, outcome, { session, done, label }) {
    const o = OUTCOMES[outcome];
    const over = (e) => e.state === 'confirmed'
        || (e.state === 'failed' && outcome !== 'happened');

    return action({
        label: label ?? o.label, title: o.title, danger: o.danger, session,
        done,
        not: over(effect) ? `It is settled: it is ${effect.state}.` : null,
        what: async () => {
            const all = await around(effect.effect_id);

            return over(all.effect) ? { node: points(...known(all)),
                blocked: 'It has been settled meanwhile.' }
                : points(...known(all), ...settled(outcome, all));
        },
        path: `/v1/effects/${enc(effect.effect_id)}/resolve`,
        body: (v) => ({ outcome, requested_by: v.requested_by,
            reason: v.reason }),
        said: now,
    });
}


/* checkAction(effect, …): has it looked up now. */
export function checkAction(effect, { session, done, label }) {
    return action({
        label: label ?? 'Check now', title: 'Look it up now', session, done,
        not: SETTLED.includes(effect.state)
            ? `It is settled: it is ${effect.state}.` : null,
        what: async () => {
            const all = await around(effect.effect_id);
            const type = all.kind?.lookup?.type;
            const how = LOOKUPS[type];
            const node = points(...known(all), how ? [how, ', at once.'] : null,
                how ? 'What it finds settles the effect: found is confirmed,'
                    + ' surely not there is failed, anything else stays'
                    + ' unknown.' : null);

            if (SETTLED.includes(all.effect.state)) {
                return { node: points(...known(all)),
                    blocked: 'It has been settled meanwhile.' };
            }

            return how ? node : { node, blocked: 'Its kind has no look-up:'
                + ' only a person can say what became of it.' };
        },
        path: `/v1/effects/${enc(effect.effect_id)}/check`,
        said: (e) => el('p', {}, 'It is being looked up. It is ',
            badge(e.state), ' at this moment; its page shows the answer. ',
            effectLink(e.effect_id, e.name ?? 'The effect')),
    });
}


/* effectActions(effect, {session, done}): all of them, for its page. */
export function effectActions(effect, options) {
    return row(checkAction(effect, options),
        Object.keys(OUTCOMES).map((o) => settleAction(effect, o, options)));
}
