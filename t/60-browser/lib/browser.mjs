// What the browser tests share: chromium, TAP, the database, accessibility.
//
//   import { launch, page, ok, is, like, until, axe, sql, done }
//     from './lib/browser.mjs';
//   await launch();
//   const p = await page();
//   await p.goto(`${given.url}/sample/`);
//   is(await p.title(), 'Sample', 'the title');
//   await done();
//
// Started by Interlock::Browser, which hands `given` over: url, dir, dsn,
// tokens by role, and whatever else the test gave.  An exception that nobody
// caught fails the test.

import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { isDeepStrictEqual } from 'node:util';
import { chromium } from 'playwright-core';

export const given = JSON.parse(readFileSync(0, 'utf8'));

const axeSource = readFileSync(createRequire(import.meta.url)
  .resolve('axe-core/axe.min.js'), 'utf8');

let browser;
let count = 0;
let failed = 0;
const complaints = [];


// --- TAP --------------------------------------------------------------------

const oneLine = (text) => String(text).replace(/\s+/g, ' ').replace(/#/g, '\\#');

export function diag(text) {
  process.stdout.write(String(text).replace(/^/gm, '# ') + '\n');
}

export function ok(value, name) {
  count++;
  if (!value) {
    failed++;
  }
  process.stdout.write(`${value ? '' : 'not '}ok ${count} - ${oneLine(name)}\n`);
  return Boolean(value);
}

// is(got, expected, name): deeply equal
export function is(got, expected, name) {
  const same = isDeepStrictEqual(got, expected);
  ok(same, name);
  if (!same) {
    diag(`     got: ${JSON.stringify(got)}\nexpected: ${JSON.stringify(expected)}`);
  }
  return same;
}

export function like(got, re, name) {
  const matches = re.test(got);
  ok(matches, name);
  if (!matches) {
    diag(`     got: ${JSON.stringify(got)}\nexpected: ${re}`);
  }
  return matches;
}

// done(): ends the browser and the test.  Whatever was asserted, no page may
// have met an error of its script or a rule of its CSP.
export async function done() {
  is(complaints, [], 'no error of a script and no breach of the CSP');
  process.stdout.write(`1..${count}\n`);
  await browser?.close();
  process.exit(failed ? 1 : 0);
}

async function broken(error) {
  diag(error?.stack ?? error);
  let n = 0;
  for (const context of browser?.contexts() ?? []) {
    for (const open of context.pages()) {
      diag(`at ${open.url()}`);
      await shot(open, `failed-${process.pid}-${n++}`).catch(() => {});
    }
  }
  await browser?.close().catch(() => {});
  process.exit(2);
}

process.on('uncaughtException', broken);
process.on('unhandledRejection', broken);


// --- browser ----------------------------------------------------------------

// launch(): the browser, once a script.  It talks to nobody but the pages'
// servers.
export async function launch(options = {}) {
  browser = await chromium.launch({
    executablePath: given.chromium,
    // root may not use the sandbox
    chromiumSandbox: false,
    ...options,
    args: ['--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
      '--disable-background-networking', '--disable-component-update',
      ...(options.args ?? [])],
  });
  return browser;
}

// context(options): a browser's profile of its own, as of another person;
// options as playwright's newContext has them (javaScriptEnabled, viewport,
// colorScheme, timezoneId…).
export async function context(options = {}) {
  const made = await browser.newContext({ locale: 'en-GB', ...options });
  made.setDefaultTimeout(30000);
  made.on('weberror', (e) => complaints.push(`${e.error().stack}`));
  made.on('console', (message) => {
    // an answer of 4xx or 5xx is the test's own business
    if (message.type() === 'error'
        && !/^Failed to load resource/.test(message.text())) {
      complaints.push(`${message.text()} (${message.location().url})`);
    }
  });
  return made;
}

// page(options): a page in a new profile; with { in: page } another tab of
// that page's.
export async function page(options = {}) {
  const where = options.in ? options.in.context() : await context(options);
  return where.newPage();
}

// complained(re): takes back those complaints that a test provoked; how many
export function complained(re) {
  const before = complaints.length;
  for (let n = complaints.length - 1; n >= 0; n--) {
    if (re.test(complaints[n])) {
      complaints.splice(n, 1);
    }
  }
  return before - complaints.length;
}

// violations(page, rules): what axe-core finds serious or critical, in words;
// of these rules alone, if there are any, whatever it takes them for
export async function violations(on, rules = null) {
  // (a script that is evaluated is not the page's, so its CSP stays as it is)
  await on.evaluate(axeSource);
  const result = await on.evaluate((only) => window.axe.run(document,
    { resultTypes: ['violations'], ...(only ? { runOnly: only } : {}) }),
  rules);
  return result.violations
    .filter(({ impact }) => rules || impact === 'serious'
      || impact === 'critical')
    .map(({ id, help, nodes }) => `${id}: ${help}: `
      + nodes.slice(0, 4).map((node) => node.target.join(' ')).join(', '));
}

// axe(page, name): there is nothing of that sort
export async function axe(on, name = `axe: ${new URL(on.url()).pathname}`) {
  return is(await violations(on), [], name);
}

// shot(page, name): build/screenshots/NAME.png
export async function shot(on, name, options = {}) {
  const dir = `${given.build}/screenshots`;
  mkdirSync(dir, { recursive: true });
  await on.screenshot({ path: `${dir}/${name}.png`, fullPage: true,
    animations: 'disabled', ...options });
}

// until(fn, what, seconds): what fn answers as soon as that is true; throws
// when the time is over
export async function until(fn, what, seconds = 30) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const value = await fn();
    if (value) {
      return value;
    }
    if (Date.now() > end) {
      throw new Error(`waited ${seconds} s for ${what}`);
    }
    await new Promise((wake) => setTimeout(wake, 25));
  }
}


// --- the system behind ------------------------------------------------------

// sql(text): rows of columns as text, null as null; over psql as the
// superuser
export function sql(text) {
  return new Promise((resolve, reject) => {
    const psql = execFile('psql', ['-XAtq', '-v', 'ON_ERROR_STOP=1', '-F',
      '\x1f', '-R', '\x1e', '-P', 'null=\x01', '-d', given.dsn, '-f', '-'],
    { maxBuffer: 64 << 20 }, (error, out, err) => {
      if (error) {
        reject(new Error(`psql: ${err || error}`));
        return;
      }
      const body = out.replace(/\n$/, '');
      resolve(body === '' ? [] : body.split('\x1e').map((row) => row
        .split('\x1f').map((value) => (value === '\x01' ? null : value))));
    });
    psql.stdin.end(text);
  });
}

// api(role, method, path, body, headers): { status, headers, body }, parsed if
// it is JSON; a role that is no token's name goes as the token itself (an
// owner token), null is nobody
export async function api(role, method, path, body, headers = {}) {
  const answer = await fetch(given.url + path, {
    method,
    headers: {
      ...(role ? { Authorization: `Bearer ${given.tokens[role] ?? role}` } : {}),
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      ...headers,
    },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await answer.text();
  let parsed = text;
  try {
    parsed = JSON.parse(text);
  } catch {
    // it stays text
  }
  return { status: answer.status, headers: answer.headers, body: parsed };
}

// claim(kind): the next job's lease, waited for
export function claim(kind) {
  return until(async () => {
    const { body } = await api('worker', 'POST', '/v1/leases',
      { worker: 'browser-test', kinds: [kind], max: 1, wait: 5 });
    return body.leases?.[0];
  }, `a job of ${kind}`);
}

// owner(lease, verb, body): renew, progress, complete, fail or release
export function owner(lease, verb, body = {}) {
  return api(lease.owner_token, 'POST', `/v1/lease/${verb}`, body);
}
