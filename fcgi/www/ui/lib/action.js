/*
 * action.js: what a person may do, shown before it is done.
 *
 * An action is a button that opens a dialog.  The dialog says in words, from
 * what is stored now, what will happen; asks for whatever the action needs,
 * the name of who is responsible and a reason; shows the same call for a
 * shell; and only then sends it, once.
 */

import { call, Problem } from './api.js';
import { clear, el, link, unique } from './dom.js';
import { stringify } from './json.js';
import { blank, escaped, plain } from './shown.js';

const ROLES = {
    auditor: 'Your token\'s role is auditor: it sees everything and changes'
        + ' nothing.',
    submit: 'Your token\'s role is submit: it asks for work, and acts on none.',
    worker: 'Your token\'s role is worker: it does work, and acts on none.',
};

/* what an answer that is no success means for who pressed the button */
const MEANINGS = {
    'impact-changed': 'What this would do has changed since it was shown.'
        + ' Nothing was done. Here is how it stands now.',
    'plan-expired': 'The plan is too old, or what it was made from has'
        + ' changed. Nothing was done. Make a new one.',
    'work-active': 'This work is under way already. Nothing was done.',
    'decision-not-possible': 'This is not possible any more, as it stands'
        + ' now. Nothing was done.',
    'gap-closed': 'Somebody has decided about this gap already, or its work'
        + ' was done meanwhile. Nothing was done.',
    'cross-origin': 'The server takes this for a request of another site.'
        + ' Nothing was done.',
};


/* sh(text): the text as one word of a shell's line. */
export function sh(text) {
    const word = String(text);

    return /^[A-Za-z0-9_./:=@%+,-]+$/.test(word)
        ? word : `'${word.replaceAll('\'', '\'\\\'\'')}'`;
}


/*
 * curl(method, path, body): the call as lines for sh.  The token comes from
 * the file that INTERLOCK_TOKEN_FILE names, as for the interlock command; it
 * goes by a pipe, so that no list of processes shows it.
 */
export function curl(method, path, body) {
    const parts = [
        'printf \'Authorization: Bearer %s\\n\' "$(cat "$INTERLOCK_TOKEN_FILE")" |',
        `    curl -sS -X ${method} -H @-`,
    ];

    if (body !== undefined && body !== null) {
        parts[1] += ' -H \'Content-Type: application/json\' \\';
        parts.push(`    --data-binary ${sh(escaped(stringify(body)))} \\`);
    } else {
        parts[1] += ' \\';
    }

    parts.push(`    ${sh(location.origin + path)}`);

    return parts.join('\n');
}


/* whyNot(session, role): why this session may not, or null if it may. */
export function whyNot(session, role = 'operator') {
    if (session?.role === role) {
        return null;
    }

    return ROLES[session?.role]
        ?? `This needs a token with the role ${role}.`;
}


function explain(problem) {
    const meaning = MEANINGS[problem.type];
    const detail = problem.detail || problem.title || String(problem);

    if (meaning) {
        return [el('p', {}, meaning), el('p', {}, detail)];
    }

    if (problem.status >= 400 && problem.status < 500) {
        return [el('p', {}, `Nothing was done: ${detail}`)];
    }

    /* the answer may have been lost on its way back */
    return [el('p', {}, detail), el('p', {},
        'It may have been done all the same. Look before you do it again.')];
}


/* ------------------------------------------------------------------ fields */


function control(field, id) {
    const props = {
        id, name: field.name, required: field.required ?? false,
        'aria-describedby': field.hint ? `${id}-hint` : null,
        maxlength: field.max ?? null,
    };

    if (field.kind === 'select') {
        const node = el('select', props, field.options.map((o) =>
            el('option', { value: o.value ?? o }, o.label ?? o)));
        if (field.value !== undefined && field.value !== null) {
            node.value = field.value;
        }
        return node;
    }

    if (field.kind === 'textarea') {
        return el('textarea', { ...props, rows: field.rows ?? 3,
            spellcheck: 'false' }, field.value ?? '');
    }

    return el('input', { ...props, type: field.kind ?? 'text',
        value: field.value ?? '', min: field.min, max: field.highest,
        autocomplete: 'off' });
}


function labelled(field) {
    const id = unique(`field-${field.name}`);
    const input = control(field, id);

    return {
        input,
        node: el('div', { class: 'field' },
            el('label', { for: id }, field.label,
                field.required ? null : el('span', { class: 'quiet' },
                    ' (may be left out)')),
            input,
            field.hint ? el('p', { id: `${id}-hint`, class: 'hint' },
                field.hint) : null),
    };
}


function people(session) {
    return [
        { name: 'requested_by', label: 'Who is responsible', required: true,
            value: session?.token_name ?? '', max: 255 },
        { name: 'reason', label: 'Reason', required: true, kind: 'textarea',
            rows: 2, max: 1000,
            hint: 'Kept for good, for those who ask later.' },
    ];
}


/* ------------------------------------------------------------------ dialog */


/*
 * One opened dialog.  It is in one of these: looking (what() is under way),
 * ready, sending, done.  `round` tells a late answer of what() from the one
 * that counts.
 */
class Dialog {

    constructor(spec) {
        this.spec = spec;
        this.state = 'looking';
        this.round = 0;
        this.seen = undefined;
        this.blocked = null;
        this.fields = [...(spec.fields ?? []), ...people(spec.session)]
            .map((field) => ({ field, ...labelled(field) }));
        this.build();
    }

    build() {
        const { spec } = this;
        const id = unique('action');

        this.effect = el('div', { class: 'what', 'aria-live': 'polite' });
        this.trouble = el('div', { class: 'trouble', role: 'alert',
            hidden: true });
        this.code = el('code', {});
        this.copy = el('button', { type: 'button', class: 'small',
            onclick: () => this.copied() }, 'Copy');
        this.go = el('button', { type: 'submit',
            class: ['primary', spec.danger ? 'danger' : null] }, spec.label);
        this.ask = spec.ask ? el('button', { type: 'button', class: 'ask',
            onclick: () => this.look() }, spec.ask) : null;
        this.cancel = el('button', { type: 'button',
            onclick: () => this.close() }, 'Do nothing');

        const own = this.fields.slice(0, -2).map((f) => f.node);
        const who = this.fields.slice(-2).map((f) => f.node);

        this.form = el('form', { method: 'dialog', novalidate: false,
            onsubmit: (e) => { e.preventDefault(); this.send(); },
            oninput: (e) => this.input(e) },
            el('h2', { id }, spec.title ?? spec.label),
            own, this.ask,
            el('section', { 'aria-label': 'What will happen' },
                el('h3', {}, 'What will happen'), this.effect),
            who, this.trouble,
            el('details', { class: 'curl' },
                el('summary', {}, 'The same as a command'),
                el('pre', { tabIndex: 0 }, this.code), this.copy),
            el('div', { class: 'buttons' }, this.go, this.cancel));

        this.node = el('dialog', { class: 'action', 'aria-labelledby': id,
            oncancel: (e) => {
                if (this.state === 'sending') {
                    e.preventDefault();
                }
            },
            onclose: () => this.closed(),
            onclick: (e) => this.clicked(e) }, this.form);
        this.left = () => this.close();
    }

    open() {
        document.body.append(this.node);
        addEventListener('popstate', this.left);
        this.node.showModal();

        if (this.spec.ask) {
            this.unseen();
        } else {
            this.look();
        }
    }

    close() {
        if (this.state !== 'sending') {
            this.node.close();
        }
    }

    closed() {
        removeEventListener('popstate', this.left);
        this.round += 1;
        this.node.remove();
        this.spec.opener?.isConnected && this.spec.opener.focus();
    }

    /* who follows a link out of the dialog wants to see where it leads */
    clicked(e) {
        const a = e.target.closest?.('a[href]');
        if (a && a.target !== '_blank' && !e.ctrlKey && !e.metaKey
            && !e.shiftKey)
        {
            queueMicrotask(() => this.close());
        }
    }

    values() {
        return Object.fromEntries(this.fields.map(({ field, input }) =>
            [field.name, input.value]));
    }

    become(state) {
        this.state = state;
        this.form.setAttribute('aria-busy',
            state === 'sending' || state === 'looking' ? 'true' : 'false');
        this.go.disabled = state !== 'ready' || this.blocked !== null;
        this.go.textContent = state === 'sending' ? 'Under way …'
            : plain(this.spec.label);
        this.cancel.disabled = state === 'sending';
        this.shell();
    }

    request() {
        const { spec } = this;
        const v = this.values();
        const path = typeof spec.path === 'function'
            ? spec.path(v, this.seen) : spec.path;
        const body = spec.body ? spec.body(v, this.seen)
            : { requested_by: v.requested_by, reason: v.reason };

        return { method: spec.method ?? 'POST', path, body };
    }

    shell() {
        if (this.state === 'asking' || this.state === 'looking') {
            this.code.textContent = 'Not known before it is clear what will'
                + ' happen.';
            this.copy.disabled = true;
            return;
        }

        try {
            const r = this.request();
            this.code.textContent = curl(r.method, r.path, r.body);
            this.copy.disabled = false;
        } catch (e) {
            this.code.textContent = e.message;
            this.copy.disabled = true;
        }
    }

    async copied() {
        let words = 'Copied';

        try {
            await navigator.clipboard.writeText(this.code.textContent);
        } catch {
            const range = document.createRange();
            range.selectNodeContents(this.code);
            getSelection().removeAllRanges();
            getSelection().addRange(range);
            words = 'Selected: copy it by your keyboard';
        }

        this.copy.textContent = words;
    }

    /* Nothing has been shown that could be acted on. */
    unseen() {
        this.round += 1;
        this.seen = undefined;
        this.blocked = null;
        clear(this.effect, el('p', { class: 'quiet' },
            `Choose “${this.spec.ask}” to see it first.`));
        this.become('asking');
    }

    /* A field that what() depends on makes what was shown worthless. */
    input(e) {
        const changed = this.fields.find(({ input }) => input === e.target);

        this.tell(null);
        e.target.setCustomValidity?.('');

        if (changed?.field.affects) {
            if (this.spec.ask) {
                this.unseen();
            } else {
                this.look();
            }
            return;
        }

        this.shell();
    }

    tell(nodes) {
        this.trouble.hidden = nodes === null;
        clear(this.trouble, nodes);
    }

    async look() {
        const round = this.round += 1;
        let   shown;

        if (this.spec.ask && !this.ownValid()) {
            return;
        }

        this.blocked = null;
        this.become('looking');
        clear(this.effect, el('p', { class: 'quiet' }, 'Looking …'));

        try {
            shown = await this.spec.what?.(this.values());
        } catch (e) {
            if (round !== this.round) {
                return;
            }
            this.blocked = 'unknown';
            clear(this.effect, el('p', { class: 'bad' },
                'It cannot be said what would happen: ',
                e instanceof Problem ? (e.detail || e.title) : e.message));
            this.become(this.spec.ask ? 'asking' : 'ready');
            return;
        }

        if (round !== this.round) {
            return;
        }

        const plain = shown instanceof Node || typeof shown !== 'object'
            || shown === null || Array.isArray(shown);
        const { node, seen, blocked = null } = plain ? { node: shown } : shown;

        this.seen = seen;
        this.blocked = blocked;
        clear(this.effect, typeof node === 'string' ? el('p', {}, node) : node,
            blocked ? el('p', { class: 'bad' }, blocked) : null);
        this.become('ready');
    }

    /* Blanks are no reason, and nobody's name. */
    given() {
        for (const { field, input } of this.fields) {
            if (field.required && input.type !== 'number') {
                input.setCustomValidity(input.value !== ''
                    && blank(input.value)
                    ? 'There is nothing in it to be read.' : '');
            }
        }

        return this.form.reportValidity();
    }

    ownValid() {
        return this.fields.slice(0, -2).every(({ input }) =>
            input.reportValidity());
    }

    /* Sent at most once: the state is left before anything waits. */
    async send() {
        if (this.state !== 'ready' || this.blocked !== null
            || !this.given())
        {
            return;
        }

        let r, answer;

        try {
            r = this.request();
        } catch (e) {
            this.tell(el('p', {}, e.message));
            return;
        }

        this.tell(null);
        this.become('sending');

        try {
            answer = await call(r.method, r.path, { body: r.body });
        } catch (e) {
            await this.refused(e);
            return;
        }

        this.became(answer);
    }

    async refused(e) {
        const problem = e instanceof Problem ? e
            : new Problem({ title: String(e) });

        this.become('ready');
        this.tell(explain(problem));

        /* it is not as it was when it was shown: here is how it is */
        if (problem.status === 409 || problem.status === 412) {
            if (this.spec.ask) {
                this.unseen();
            } else {
                await this.look();
            }
        }
    }

    became(answer) {
        const { spec } = this;
        const said = spec.said?.(answer.body, this.values()) ?? 'Done.';
        const close = el('button', { type: 'button', class: 'primary',
            onclick: () => this.close() }, 'Close');

        this.state = 'done';
        this.form.setAttribute('aria-busy', 'false');
        clear(this.form,
            el('h2', { id: this.node.getAttribute('aria-labelledby') },
                spec.title ?? spec.label),
            el('div', { class: 'said', role: 'status' },
                typeof said === 'string' ? el('p', {}, said) : said),
            el('div', { class: 'buttons' }, close));
        close.focus();
        spec.done?.(answer.body);
    }
}


/* ----------------------------------------------------------------- outside */


/*
 * action(spec): a node with the button.
 *
 *   label      of the button; title of the dialog, if it is another
 *   session    as the page got it; role that it must have (operator)
 *   not        why it is not possible now; null if it is
 *   danger     true for what cannot be taken back
 *   fields     [{name, label, kind: text|textarea|select|date|number, value,
 *              options: [{value, label}], required, hint, affects}]; affects:
 *              what() is asked again when it changes.  requested_by and reason
 *              are always there.
 *   what       async (values) → node or text; or {node, seen, blocked}: seen
 *              goes to path() and body(), blocked says why it cannot be done
 *   ask        a button's label: what() is not called before it is pressed (a
 *              plan, which is stored)
 *   method, path, body   of the call; path and body may be functions of
 *              (values, seen).  Body by default {requested_by, reason}
 *   said       (answer, values) → text or node: what became of it
 *   done       (answer): it was done; the page shows it anew
 */
export function action(spec) {
    const no = whyNot(spec.session, spec.role) ?? spec.not ?? null;
    const id = unique('why');
    const button = el('button', {
        type: 'button',
        class: spec.danger ? 'danger' : null,
        disabled: no !== null,
        'aria-describedby': no === null ? null : id,
        'aria-haspopup': 'dialog',
        onclick: () => new Dialog({ ...spec, opener: button }).open(),
    }, spec.label);

    return el('span', { class: 'act', title: no },
        button,
        no === null ? null : el('span', { id, class: 'why-not' }, no));
}


/*
 * row(...actions): the actions beside each other.  What keeps all of them
 * from being used is said once, behind them.
 */
export function row(...actions) {
    const nodes = actions.flat(2).filter(Boolean);
    const whys = nodes.map((n) => n.querySelector('.why-not')?.textContent
        ?? null);
    const same = nodes.length > 0 && whys.every((w) => w !== null
        && w === whys[0]);

    if (nodes.length === 0) {
        return el('div', { class: 'acts' });
    }

    return el('div', { class: ['acts', same ? 'acts-same' : null] }, nodes,
        same ? el('p', { class: 'hint', 'aria-hidden': 'true' }, whys[0])
            : null);
}


/* jobLink, workLink: where an answer's job or work is shown. */
export const jobLink = (id, text = 'the job') =>
    link(`/ui/jobs/${encodeURIComponent(id)}`, text);

export const workLink = (key, text = key) =>
    link(`/ui/works/${encodeURIComponent(key)}`, text);

export const effectLink = (id, text = 'the effect') =>
    link(`/ui/effects/${encodeURIComponent(id)}`, text);
