// Forms without a script, and the pages that answer them.

import { writeFileSync } from 'node:fs';
import { axe, claim, context, done, given, is, launch, like, ok,
  owner, shot } from './lib/browser.mjs';
import { counts, kind, ticket } from './lib/button.mjs';

await launch();

const EVIL = '"\'><script>alert(1)</script><img src=x onerror="alert(2)">'
  + '<svg onload=alert(3)><a href="javascript:alert(4)">x</a>';

const c = await context();
let alerts = 0;
const p = await c.newPage();
p.on('dialog', (dialog) => { alerts++; dialog.dismiss(); });

// form(name, kind, ticket, key): a page with one; its address
function form(name, of, signed, key) {
  const text = (s) => s.replace(/&/g, '&amp;').replace(/"/g, '&quot;')
    .replace(/</g, '&lt;');
  writeFileSync(`${given.pages}/${name}.html`, `<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>${name}</title>
<link rel="icon" href="data:,"><main><h1>${name}</h1>
<form method="post" action="/button/${of}">
<input type="hidden" name="ticket" value="${text(signed)}">
<input type="hidden" name="idempotency_key" value="${text(key)}">
<button>Make it</button></form></main></html>`);
  return `${given.url}/t/${name}.html`;
}

const title = () => p.locator('h1').textContent();
const said = () => p.locator('[role=status]').textContent();
const press = () => p.locator('button').click();

async function shown(name, words, picture) {
  like(`${await title()}: ${await said()}`, words, name);
  is(await p.evaluate(() => getComputedStyle(document.body).maxWidth), '576px',
    `${name}: its style is let in`);
  ok(!p.url().includes('v4.public'), `${name}: no ticket in the address`);
  await axe(p, `${name}: axe`);
  if (picture) {
    await shot(p, picture);
  }
}


// --- a press, from the first page to the last one --------------------------

await kind('made', { key_template: null });
const key = `made:${EVIL.replace(/[ %:]/g, '_')}`;
const good = await ticket('made', key, { user: EVIL });
await p.goto(form('first', 'made', good, `k${EVIL}`));
await press();
await shown('taken', /^Waiting: It was taken/, 'button-page-waiting');

let lease = await claim('made');
await owner(lease, 'progress', { progress: { done: 3, total: 40,
  note: `${EVIL}\u202e${'W'.repeat(900)}` } });
await press();
await shown('looked at', /^Under way: It is being done: 3 of 40/,
  'button-page-running');
like(await p.locator('main').textContent(), /<script>alert\(1\)/,
  'what the worker says is shown as it stands');
like(await p.locator('main').textContent(), /<U\+202E>W/,
  'and so is what would turn it around');
ok(await p.evaluate(() => document.documentElement.scrollWidth
  <= document.documentElement.clientWidth), 'a long word is broken');

await p.reload();
like(await title(), /Under way/, 'loaded again: how it stands');

await owner(lease, 'complete', { result_url: `/report?${EVIL.replace(/ /g, '+')}` });
await press();
await shown('done', /^Done/, 'button-page-done');
const link = await p.locator('a').getAttribute('href');
like(link, /^\/report\?"'><script>/, 'the result\'s address is one, no more');
is(await p.locator('a').count(), 1, 'and the only one');
is(await p.locator('script, img, svg').count(), 0, 'nothing was made of it');

await p.goto(form('again', 'made', good, `k${EVIL}`));
await press();
like(await title(), /Done/, 'the same press again');
const sqlKey = key.replace(/'/g, "''");
await counts(sqlKey, [1, 1], 'all of it was one press');


// --- failure, too busy, too old, another site's ------------------------------

await kind('broken');
await p.goto(form('second', 'broken', await ticket('broken', 'b:1'), 'k1'));
await press();
lease = await claim('broken');
await owner(lease, 'fail', { error: 'inside', retryable: false,
  user_message: EVIL });
await press();
await shown('failed', /^Failed/, 'button-page-failed');
ok(!(await p.content()).includes('inside'), 'what went wrong inside is not');

await kind('full', { max_queued: 1 });
await p.goto(form('third', 'full', await ticket('full', 'f:1'), 'full-1'));
await press();
await p.goto(form('next', 'full', await ticket('full', 'f:2'), 'full-2'));
await press();
await shown('too busy', /^Too busy: .* Try again in \d+ (second|minute|hour)/,
  'button-page-busy');
await claim('full');
await press();
like(await title(), /Waiting/, 'the same press, when there is room');
await counts('f:2', [1, 1], 'one press');

await p.goto(form('fourth', 'made', good.slice(0, -3), 'k'));
await press();
await shown('too old', /^This page is too old/, 'button-page-old');

await p.goto(form('fifth', 'made', good, ''));
await press();
await shown('without a key', /^Not started/);

// localhost is another site than 127.0.0.1
const port = new URL(given.url).port;
await p.goto(form('sixth', 'made', good, 'cross').replace('127.0.0.1',
  'localhost'));
await p.evaluate((to) => { document.forms[0].action = to; },
  `http://127.0.0.1:${port}/button/made`);
await press();
await shown('from another site', /^Not started: The button was pressed from/);
await counts(sqlKey, [1, 1], 'another site\'s form made nothing');

is(alerts, 0, 'nothing of what was stored ever ran');

await done();
