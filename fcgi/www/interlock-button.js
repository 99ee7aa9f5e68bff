// <interlock-button kind ticket [fresh] [src] [label] [patience] [quiet]
//   [text-…]>
//
// A button that has work done once: what it asks for has one idempotency key
// from the press until the outcome, over double clicks, reloads, other tabs
// and a network that was away.  README.md beside this file says how a page
// uses it.  No dependency, no build; as a module or as a plain script.
//
// An Intent is what one press wants.  It is shared by all buttons of one
// browser that mean the same work, and lives in localStorage; of the tabs that
// show it, one drives it (Web Locks) and the others follow by storage events.
// An Element shows an intent, and presses it.

'use strict';

{
  // In words.  An attribute text-NAME takes the place of any of them.
  const TEXTS = {
    idle: '',
    sending: 'Sending.',
    queued: 'Waiting to start.',
    retrying: 'A first try did not work; there will be another. {message}',
    running: 'Running.',
    progress: 'Running: {done} of {total}. {note}',
    checking: 'Being checked: an earlier run ended unclear.',
    held: 'Waits for somebody to decide how it goes on.',
    parked: 'Waiting in line.',
    busy: 'Too busy just now. Tries again by itself {when}.',
    offline: 'No connection. Goes on by itself when it is back.',
    away: 'No answer just now. Goes on by itself.',
    done: 'Done.',
    already: 'Already done.',
    link: 'Open the result',
    failed: 'Failed. {message}',
    canceled: 'Canceled.',
    expired: 'It waited too long and was given up.',
    superseded: 'A newer request has taken its place.',
    active: 'Something else is being done for this just now. Try again later.',
    later: 'Too busy just now. Please try again {when}.',
    unsent: 'It could not be sent. Please press again.',
    refused: 'This page is too old for that. Please reload it.',
    denied: 'This is not allowed here.',
    gone: 'Nothing is known of it any more.',
    error: 'It did not work. {message}',
    reload: 'Reload',
  };

  const LABEL = 'Start';

  // While one of these is shown the button takes no press.
  const WAITING = new Set(['sending', 'queued', 'retrying', 'running', 'checking', 'held',
    'parked', 'busy', 'offline', 'away']);

  // What a job's status is called here; of the others the name stays.
  const ENDED = { succeeded: 'done', failed: 'failed', canceled: 'canceled',
    superseded: 'superseded', expired: 'expired' };

  const PREFIX = 'interlock-button:';
  const PATIENCE = 600;           // seconds that a press is tried for
  const OUTCOME_MS = 3600e3;      // how long an outcome is shown after a reload
  const PRESS_MS = 5e3;           // in which two tabs' presses are one
  const FORGET_MS = 7 * 86400e3;  // as long as the server knows the key
  const LOOKS = 3;                // at once a page: browsers open 6 a host


  // --- small things ---------------------------------------------------------

  const now = () => Date.now();

  // A UUID; randomUUID is there only where the page came by https.
  function newKey() {
    if (crypto.randomUUID) {
      return crypto.randomUUID();
    }
    const b = crypto.getRandomValues(new Uint8Array(16));
    b[6] = (b[6] & 0x0f) | 0x40;
    b[8] = (b[8] & 0x3f) | 0x80;
    const hex = Array.from(b, (x) => x.toString(16).padStart(2, '0')).join('');
    return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  }

  // What a ticket says, unverified: it only names the intent here, and whether
  // it is good is the server's to judge.  v4.public.(claims, signature).footer
  function readTicket(ticket) {
    try {
      const part = ticket.split('.')[2].replace(/-/g, '+').replace(/_/g, '/');
      const bytes = Uint8Array.from(atob(part), (c) => c.charCodeAt(0));
      return JSON.parse(new TextDecoder().decode(bytes.subarray(0, -64)));
    } catch {
      return { work_key: ticket };
    }
  }

  // Resolves after ms, or as soon as the network is back, or when it is over.
  function sleep(ms, signal) {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        removeEventListener('online', end);
        signal.removeEventListener('abort', end);
        resolve();
      };
      const timer = setTimeout(end, ms);
      addEventListener('online', end);
      signal.addEventListener('abort', end);
    });
  }

  // Doubling from 1 s to 30 s, any time of the upper half: so many pages that
  // lost one server do not come back to it in step.
  function backoff(tries) {
    const most = Math.min(30e3, 1e3 * 2 ** Math.min(tries, 5));
    return most / 2 + Math.random() * most / 2;
  }

  // Retry-After in milliseconds: seconds or a date
  function retryAfter(headers) {
    const text = headers.get('Retry-After');
    if (!text) {
      return null;
    }
    const ms = /^\d+$/.test(text) ? text * 1000 : Date.parse(text) - now();
    return Number.isFinite(ms) ? Math.max(ms, 500) : null;
  }

  // A link is followed by a person: nothing but http and https.
  function safeLink(text, base) {
    try {
      const url = new URL(text, base);
      return /^https?:$/.test(url.protocol) ? url.href : null;
    } catch {
      return null;
    }
  }

  // Somebody else's words: what turns around those beside them is shown.
  const straight = (text) => String(text).replace(/\s+/g, ' ').trim()
    .replace(/[\u202a-\u202e\u2066-\u2069]/g, (c) =>
      `\u27e8U+${c.charCodeAt(0).toString(16).toUpperCase()}\u27e9`);

  // So many looks at once a page, the others in turn.
  const looks = { free: LOOKS, queue: [] };

  async function withLook(fn) {
    if (looks.free === 0) {
      await new Promise((turn) => { looks.queue.push(turn); });
    } else {
      looks.free--;
    }
    try {
      return await fn();
    } finally {
      const next = looks.queue.shift();
      if (next) {
        next();
      } else {
        looks.free++;
      }
    }
  }

  // withLock(name, signal, fn): one tab at a time; where there are no locks
  // (a page by http), every tab, which the one key makes harmless.
  function withLock(name, signal, fn) {
    if (!navigator.locks) {
      return fn();
    }
    return navigator.locks.request(name, { signal }, fn).catch((error) => {
      if (error.name !== 'AbortError') {
        throw error;
      }
    });
  }

  // oneKey(name, key, over): the key of whichever tab was first to press in
  // these seconds; `over` is one that is known to be history.  Tabs are
  // processes, and what one writes to localStorage the others see only a
  // little later; a transaction of IndexedDB is the same for all.
  function oneKey(name, key, over) {
    return new Promise((resolve) => {
      const none = () => resolve(key);
      setTimeout(none, 2000);
      try {
        const open = indexedDB.open('interlock-button', 1);
        open.onupgradeneeded = () => open.result.createObjectStore('presses');
        open.onerror = none;
        open.onsuccess = () => {
          const db = open.result;
          const presses = db.transaction('presses', 'readwrite');
          const store = presses.objectStore('presses');
          let first = key;
          store.openCursor().onsuccess = ({ target: { result: cursor } }) => {
            if (!cursor) {
              if (first === key) {
                store.put({ key, at: now() }, name);
              }
              return;
            }
            if (now() - cursor.value.at > PRESS_MS) {
              cursor.delete();
            } else if (cursor.key === name && cursor.value.key !== over) {
              first = cursor.value.key;
            }
            cursor.continue();
          };
          presses.oncomplete = () => {
            db.close();
            resolve(first);
          };
          presses.onabort = none;
        };
      } catch {
        none();
      }
    });
  }

  // keeper(which): what the browser will not keep is kept by the page
  function keeper(which) {
    const memory = new Map();
    return {
      get(name) {
        try {
          return memory.get(name) ?? globalThis[which].getItem(name);
        } catch {
          return null;
        }
      },
      set(name, text) {
        try {
          globalThis[which].setItem(name, text);
        } catch {
          memory.set(name, text);
        }
      },
    };
  }

  const storage = keeper('localStorage');   // of all tabs
  const session = keeper('sessionStorage'); // of this one

  function tried(text) {
    try {
      return JSON.parse(text) ?? {};
    } catch {
      return {};
    }
  }

  function parse(text) {
    const record = tried(text);
    return typeof record.key === 'string' && record.view ? record : null;
  }

  // Intents that nobody asks for any more make no rubbish heap.
  function tidy() {
    try {
      for (const name of Object.keys(localStorage)) {
        if (name.startsWith(PREFIX)) {
          const record = parse(localStorage.getItem(name));
          if (!record || now() - record.touched > FORGET_MS) {
            localStorage.removeItem(name);
          }
        }
      }
    } catch {
      // no storage, no rubbish
    }
  }


  // --- an intent ------------------------------------------------------------
  //
  // Its record: key, at (of the press), phase, job, view { state, done, total,
  // note, message, url, retry }, touched.  Phases:
  //   send   the server has not taken it yet (or it is not known)
  //   offer  the same, but nobody tries: the next press does, with this key
  //   watch  a job has it
  //   end    the outcome is there; the next press is another intent

  const unsettled = (record) => record !== null && record.phase !== 'end';

  class Intent extends EventTarget {

    static all = new Map();

    static of({ base, kind, ticket, fresh }) {
      const { tenant, work_key: work, user } = readTicket(ticket);
      const id = PREFIX + JSON.stringify([base, kind, tenant, work, user,
        fresh]);
      let intent = Intent.all.get(id);
      if (!intent) {
        intent = new Intent(id, base, kind, fresh);
        Intent.all.set(id, intent);
      }
      return intent;
    }

    constructor(id, base, kind, fresh) {
      super();
      Object.assign(this, { id, base, kind, fresh, ticket: '', record: null,
        refused: null, users: 0, tries: 0, driver: null, pressing: false,
        patience: PATIENCE });
    }

    // join, leave: a button shows it, or does so no longer
    join(ticket, patience, quiet) {
      this.patience = patience;
      this.users++;
      if (ticket !== this.ticket) {
        this.ticket = ticket;
        this.refused = null;
      }
      if (this.users === 1) {
        this.follow(storage.get(this.id));
        const begun = parse(session.get(this.id));
        if (begun && now() - begun.at < this.patience * 1e3) {
          this.press(begun.key);
        } else if (this.record === null && !this.fresh && !quiet) {
          this.ask();
        }
      }
      this.drive();
    }

    // Is it being done already, for somebody else or a schedule?  Then this
    // browser waits for it, too.
    async ask() {
      const control = new AbortController();
      const answer = await withLook(() => this.call(
        encodeURIComponent(this.kind), {}, 20, control.signal));
      const active = answer?.status === 200 ? answer.body.active : null;
      if (active && this.record === null && !this.pressing && this.users > 0) {
        this.save({ key: newKey(), at: now(), phase: 'watch',
          job: active.job_id, view: this.viewOf(active) });
        this.drive();
      }
    }

    leave() {
      this.users--;
      if (this.users === 0) {
        this.stop();
      }
    }

    get view() {
      return this.refused ?? this.record?.view ?? { state: 'idle' };
    }

    get waiting() {
      return this.pressing || WAITING.has(this.view.state);
    }

    // another tab's word, or what the last page here left behind
    follow(text) {
      const record = parse(text);
      const old = record && now() - record.touched;
      if (!record || old > (unsettled(record) ? FORGET_MS : OUTCOME_MS)) {
        this.record = null;
      } else {
        this.record = record;
      }
      this.changed();
    }

    changed() {
      this.dispatchEvent(new Event('change'));
    }

    save(change) {
      this.record = { ...this.record, ...change, touched: now() };
      storage.set(this.id, JSON.stringify(this.record));
      this.changed();
    }

    show(state, more = {}) {
      const view = { state, ...more };
      if (JSON.stringify(view) !== JSON.stringify(this.record.view)) {
        this.save({ view });
      }
    }

    end(state, more = {}) {
      this.save({ phase: 'end', view: { state, ...more } });
    }

    // This page's ticket is no longer good; another tab may have a better one,
    // and a reload brings one: the intent itself stands.
    refuse(state) {
      this.refused = { state };
      this.changed();
    }

    // press(): a new intent, or the one that is unsettled, wherever it is.
    async press(begun = null) {
      if (this.waiting || this.refused) {
        return;
      }
      this.pressing = true;
      this.tries = 0;
      this.changed();

      const before = parse(storage.get(this.id));
      const own = unsettled(before) ? before.key : begun ?? newKey();
      // (should the page be reloaded before the tabs have agreed)
      session.set(this.id, JSON.stringify({ key: own, at: now(), view: {} }));
      const key = await oneKey(this.id, own, before?.key);
      // (what another tab has stored may come later than its key)
      const stored = parse(storage.get(this.id));

      this.pressing = false;
      if (unsettled(stored) && stored.key === key && stored.phase !== 'offer') {
        this.record = stored;
      } else {
        this.record = { key, at: now(), phase: 'send', job: null,
          view: { state: 'sending' }, touched: now() };
        if (key === own) {
          this.save({});
        }
      }
      session.set(this.id, '');
      this.changed();
      this.drive();
    }

    // drive(): until the outcome; of several tabs the one that has the lock
    drive() {
      if (this.driver || this.refused || this.users === 0
          || !unsettled(this.record) || this.record.phase === 'offer')
      {
        return;
      }
      const control = new AbortController();
      this.driver = control;
      withLock(this.id, control.signal, async () => {
        // (the tab before may have come further)
        const stored = parse(storage.get(this.id));
        if (stored?.key === this.record.key) {
          this.record = stored;
          this.changed();
        }
        while (!control.signal.aborted && !this.refused
          && unsettled(this.record) && this.record.phase !== 'offer')
        {
          await (this.record.phase === 'send' ? this.send(control.signal)
            : this.look(control.signal));
        }
      }).finally(() => {
        if (this.driver === control) {
          this.driver = null;
        }
      });
    }

    stop() {
      this.driver?.abort();
      this.driver = null;
    }

    // call(): the answer, or null if there was none
    async call(path, options, seconds, signal) {
      const control = new AbortController();
      const abort = () => control.abort();
      const timer = setTimeout(abort, seconds * 1000);
      signal.addEventListener('abort', abort);
      if (signal.aborted) {
        abort();
      }
      try {
        const response = await fetch(`${this.base}/button/${path}`, {
          ...options,
          signal: control.signal,
          cache: 'no-store',
          redirect: 'error',
          headers: { Accept: 'application/json',
            'Interlock-Ticket': this.ticket, ...options.headers },
        });
        const text = await response.text();
        // (success that is not interlock's, as of a hotel's network that wants
        // a login first, is no answer; a refusal needs no body)
        const body = (response.ok ? JSON.parse(text) : tried(text)) ?? {};
        return { status: response.status, headers: response.headers, body };
      } catch {
        return null;
      } finally {
        clearTimeout(timer);
        signal.removeEventListener('abort', abort);
      }
    }

    // later(): shows why, and waits; a press that was not taken yet is tried
    // for no longer than `patience`.
    async later(state, after, signal) {
      const { record } = this;
      if (signal.aborted) {
        return;
      }
      if (!navigator.onLine) {
        state = 'offline';
      }
      const ms = after === null ? backoff(this.tries++)
        : after + Math.random() * Math.min(after / 10, 5e3);
      const retry = now() + ms;
      if (record.phase === 'send' && retry - record.at > this.patience * 1e3) {
        this.save({ phase: 'offer', view: state === 'busy'
          ? { state: 'later', retry } : { state: 'unsent' } });
        return;
      }
      this.show(state, state === 'busy' ? { retry } : {});
      await sleep(ms, signal);
    }

    async send(signal) {
      const { key, at } = this.record;
      if (now() - at > Math.max(this.patience, 10) * 1e3) {
        // left behind by a page that was closed: nobody waits for it now
        this.save({ phase: 'offer', view: { state: 'unsent' } });
        return;
      }
      const answer = await this.call(encodeURIComponent(this.kind), {
        method: 'POST',
        headers: { 'Idempotency-Key': key,
          ...(this.fresh ? { 'Interlock-Fresh': 'true' } : {}) },
      }, 40, signal);
      await (answer ? this.sent(answer, signal)
        : this.later('away', null, signal));
    }

    async sent({ status, headers, body }, signal) {
      const after = retryAfter(headers);
      const problem = String(body.type ?? '').replace(/^.*\//, '');

      if (status >= 200 && status < 300 && body.decision) {
        this.tries = 0;
        // its own job, or the one that it joins
        const job = (body.decision === 'skipped' && body.active_job_id)
          || body.job_id || null;
        if (body.decision === 'completed' || job === null) {
          this.save({ job });
          this.end('already', this.link(body));
        } else {
          this.save({ phase: 'watch', job, view: this.viewOf(body) });
        }
      } else if (status === 429) {
        await this.later('busy', after, signal);
      } else if (status < 300 || status >= 500 || status === 408
        || problem === 'request-in-progress')
      {
        await this.later('away', after, signal);
      } else if (problem === 'work-active') {
        this.end('active');
      } else if (status === 401) {
        // it was not taken: after the reload it is for the person to press
        this.end('idle');
        this.refuse('refused');
      } else if (status === 403) {
        this.end('denied');
      } else {
        this.end('error', { message: String(body.title ?? '') });
      }
    }

    // How long one look may wait: what changes is wanted soon by somebody who
    // has just pressed, less so later.
    get lookSeconds() {
      const passed = now() - this.record.at;
      if (looks.queue.length > 0 || passed < 30e3) {
        return 2;
      }
      return passed < 300e3 ? 5 : 20;
    }

    async look(signal) {
      const began = now();
      const answer = await withLook(() => {
        const wait = this.lookSeconds;
        return this.call(`jobs/${encodeURIComponent(this.record.job)}`,
          { headers: { Prefer: `wait=${wait}` } }, wait + 20, signal);
      });
      if (!answer) {
        await this.later('away', null, signal);
        return;
      }
      const { status, headers, body } = answer;

      if (status === 200 && body.status) {
        this.tries = 0;
        this.saw(body);
        if (unsettled(this.record)) {
          // (something between may not let it wait)
          await sleep(Math.max(0, 700 - (now() - began)), signal);
        }
      } else if (status === 401) {
        this.refuse('refused');
      } else if (status === 403) {
        this.refuse('denied');
      } else if (status === 404 || status === 410) {
        this.end('gone');
      } else {
        await this.later('away', retryAfter(headers), signal);
      }
    }

    saw(job) {
      if (job.status === 'superseded' && job.superseded_by
        && job.superseded_by !== this.record.job)
      {
        this.save({ job: job.superseded_by });
        return;
      }
      const view = this.viewOf(job);
      if (ENDED[job.status]) {
        this.end(view.state, view);
      } else {
        this.show(view.state, view);
      }
    }

    viewOf(job) {
      let state = ENDED[job.status]
        ?? (WAITING.has(job.status) ? job.status : 'queued');
      if (state === 'queued' && job.retry_at) {
        state = 'retrying';
      }
      const { done, total, note } = job.progress ?? {};
      const told = state === 'failed' || state === 'retrying';
      return { state,
        ...(state === 'running' ? { done, total, note } : {}),
        ...(told && job.user_message ? { message: job.user_message } : {}),
        ...(state === 'done' ? this.link(job) : {}) };
    }

    link(body) {
      const url = body.result_url
        && safeLink(body.result_url, this.base || document.baseURI);
      return url ? { url } : {};
    }
  }

  addEventListener('storage', ({ key, newValue }) => {
    const intent = Intent.all.get(key);
    if (intent?.users > 0) {
      intent.follow(newValue);
      intent.drive();
    }
  });

  // A page that is left sends nothing more; one that is come back to (the back
  // button brings it as it was) reads how things stand.
  addEventListener('pagehide', () => {
    for (const intent of Intent.all.values()) {
      intent.stop();
    }
  });
  addEventListener('pageshow', ({ persisted }) => {
    for (const intent of Intent.all.values()) {
      if (persisted && intent.users > 0) {
        intent.follow(storage.get(intent.id));
        intent.drive();
      }
    }
  });


  // --- the element ----------------------------------------------------------

  const STYLE = `
    :host { display: inline-flex; flex-wrap: wrap; gap: .5em;
      align-items: center; font: inherit; max-width: 100%; }
    :host([hidden]), [hidden] { display: none; }
    button { font: inherit; cursor: pointer;
      padding: var(--interlock-button-padding, .4em 1em);
      color: var(--interlock-button-color, ButtonText);
      background: var(--interlock-button-background, ButtonFace);
      border: var(--interlock-button-border, 1px solid ButtonBorder);
      border-radius: var(--interlock-button-radius, .3em); }
    button[aria-disabled=true] { cursor: default;
      opacity: var(--interlock-button-waiting-opacity, .75); }
    [part=status] { min-width: 0; overflow-wrap: anywhere; }
    progress { width: var(--interlock-button-progress-width, 8em); }
    #heard { position: absolute; width: 1px; height: 1px; overflow: hidden;
      clip-path: inset(50%); white-space: nowrap; }
  `;

  let sheet;

  // As a sheet and not as an element: a page may forbid inline styles.
  function style(root) {
    try {
      if (!sheet) {
        sheet = new CSSStyleSheet();
        sheet.replaceSync(STYLE);
      }
      root.adoptedStyleSheets = [sheet];
    } catch {
      // an old browser: it works, and looks plain
    }
  }

  const ATTRIBUTES = ['kind', 'ticket', 'src', 'fresh', 'patience', 'quiet',
    'label', ...Object.keys(TEXTS).map((name) => `text-${name}`)];

  class InterlockButton extends HTMLElement {

    static observedAttributes = ATTRIBUTES;

    #intent = null;
    #ready = false;
    #parts = {};
    #heard = { state: 'idle', at: 0 };
    #shown = '';
    #update = () => this.#render();

    constructor() {
      super();
      const root = this.attachShadow({ mode: 'open', delegatesFocus: true });
      const part = (tag, name, props = {}) => {
        const node = document.createElement(tag);
        node.setAttribute('part', name);
        Object.assign(node, props);
        this.#parts[name] = node;
        root.append(node);
        return node;
      };
      part('button', 'button', { type: 'button',
        onclick: () => this.press() });
      part('progress', 'progress', { hidden: true });
      // What is seen changes with every step, what is heard does not: nobody
      // wants each of a thousand steps read out.
      part('span', 'status').setAttribute('aria-hidden', 'true');
      part('span', 'heard', { id: 'heard' }).setAttribute('role', 'status');
      this.#parts.button.setAttribute('aria-describedby', 'heard');
      part('a', 'link', { hidden: true });
      part('button', 'reload', { type: 'button', hidden: true,
        onclick: () => location.reload() });
      style(root);
    }

    connectedCallback() {
      // the form inside may not be parsed yet
      if (document.readyState === 'loading') {
        addEventListener('DOMContentLoaded', () => this.#bind(),
          { once: true });
      } else {
        this.#bind();
      }
    }

    disconnectedCallback() {
      this.#unbind();
      this.#ready = false;
      this.#shown = '';
    }

    attributeChangedCallback(name) {
      if (!this.#ready) {
        return;
      }
      if (/^(?:text-|label)/.test(name)) {
        this.#render();
      } else {
        this.#bind();
      }
    }

    // state: what is shown, see TEXTS; job: its id, or null
    get state() {
      const view = this.#intent?.view ?? { state: 'idle' };
      return this.#intent?.pressing ? 'sending' : view.state;
    }

    get job() {
      return this.#intent?.record?.job ?? null;
    }

    // press(): what a click does.  `interlock-press` may be taken back by the
    // page (preventDefault), to ask "are you sure?" for one.
    async press() {
      if (!this.#intent || this.#intent.waiting || this.#intent.refused) {
        return;
      }
      if (this.dispatchEvent(new CustomEvent('interlock-press',
        { bubbles: true, composed: true, cancelable: true })))
      {
        await this.#intent.press();
      }
    }

    // An input of the form inside, or of that around: so the ticket need not
    // stand in the page twice.
    #field(name) {
      return (this.querySelector(`[name=${name}]`)
        ?? this.closest('form')?.querySelector(`[name=${name}]`))?.value;
    }

    #bind() {
      const kind = this.getAttribute('kind') ?? '';
      const ticket = this.getAttribute('ticket') || this.#field('ticket') || '';
      const src = this.getAttribute('src');
      const base = src === null ? location.origin
        : new URL(src, document.baseURI).href.replace(/\/+$/, '');
      const patience = Number(this.getAttribute('patience') ?? PATIENCE);
      const intent = this.isConnected && kind && ticket
        ? Intent.of({ base, kind, ticket, fresh: this.hasAttribute('fresh') })
        : null;

      this.#unbind();
      this.#ready = this.isConnected;
      this.#intent = intent;
      intent?.addEventListener('change', this.#update);
      intent?.join(ticket, Number.isFinite(patience) ? patience : PATIENCE,
        this.hasAttribute('quiet'));
      this.#render();
    }

    #unbind() {
      this.#intent?.removeEventListener('change', this.#update);
      this.#intent?.leave();
      this.#intent = null;
    }

    #text(name) {
      return this.getAttribute(`text-${name}`) ?? TEXTS[name] ?? '';
    }

    // say(node, text, values): each value that there is in a <bdi>, so that
    // words from right to left move nothing beside them
    #say(node, text, values) {
      const value = (name) => straight(values[name] ?? '');
      node.replaceChildren(...text.replace(/\s*\{(\w+)\}/g, (all, name) =>
        (value(name) === '' ? '' : all)).replace(/\s+/g, ' ').trim()
        .split(/\{(\w+)\}/).map((part, i) => (i % 2 === 0 ? part
          : Object.assign(document.createElement('bdi'),
            { textContent: value(part) }))));
    }

    // "in 30 seconds", "at 10:42" in the page's language
    #when(retry) {
      const language = this.closest('[lang]')?.lang || undefined;
      const seconds = Math.max(1, Math.ceil((retry - now()) / 1000));
      try {
        return seconds <= 120
          ? new Intl.RelativeTimeFormat(language).format(seconds, 'second')
          : new Intl.RelativeTimeFormat(language)
            .format(Math.ceil(seconds / 60), 'minute');
      } catch {
        return `+${seconds} s`;
      }
    }

    #render() {
      const { button, progress, status, heard, link, reload } = this.#parts;
      const intent = this.#intent;
      const { state } = this;
      const { state: _, ...view } = intent && !intent.pressing ? intent.view
        : {};
      const total = Number(view.total);
      const done = Number(view.done);
      const moves = state === 'running' && total > 0 && done >= 0;
      const words = this.#text(moves ? 'progress' : state);
      const values = { ...view, when: view.retry && this.#when(view.retry) };

      const label = this.getAttribute('label')
        || this.querySelector('button, [type=submit]')?.textContent.trim()
        || LABEL;
      button.textContent = label;
      // (not `disabled`: that would take the keyboard's focus away)
      button.setAttribute('aria-disabled', String(!intent || intent.waiting
        || intent.refused !== null));
      progress.hidden = !moves;
      if (moves) {
        progress.max = total;
        progress.value = Math.min(done, total);
        progress.setAttribute('aria-label', label);
      }
      this.#say(status, words, values);
      link.hidden = !view.url;
      if (view.url) {
        link.href = view.url;
        link.textContent = this.#text('link');
      }
      reload.hidden = state !== 'refused';
      reload.textContent = this.#text('reload');

      if (state !== this.#heard.state || now() - this.#heard.at > 20e3) {
        this.#heard = { state, at: now() };
        this.#say(heard, words, values);
      }
      this.#tell(state, view);
    }

    #tell(state, view) {
      const text = JSON.stringify([state, view, this.job]);
      if (text === this.#shown || !this.isConnected) {
        return;
      }
      this.#shown = text;
      this.setAttribute('state', state);
      this.dispatchEvent(new CustomEvent('interlock-state', { bubbles: true,
        composed: true, detail: { ...view, state, job: this.job } }));
    }
  }

  if (!customElements.get('interlock-button')) {
    tidy();
    customElements.define('interlock-button', InterlockButton);
  }
}
