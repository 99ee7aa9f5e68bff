// Each page with markup, script and odd text in every field that a client can
// set: nothing of it runs, nothing is fetched for it, it is shown as text.

import { createServer } from 'node:http';
import { diag, done, given, is, launch, like, ok, until }
  from './lib/browser.mjs';
import { details, lists, person, visit } from './lib/pages.mjs';

// where what is hostile would have something fetched from
const asked = [];
const away = createServer((req, res) => {
  asked.push(req.url);
  res.end();
});
await new Promise((up) => away.listen(given.away, '127.0.0.1', up));

await launch();
const p = await person('operator');
const dialogs = [];
const strange = [];

p.on('dialog', (d) => {
  dialogs.push(d.message());
  d.dismiss();
});
p.on('popup', (w) => strange.push(`popup ${w.url()}`));
p.on('download', (d) => strange.push(`download ${d.url()}`));
p.on('request', (r) => {
  if (!r.url().startsWith(given.url) && !r.url().startsWith('data:')) {
    strange.push(r.url());
  }
});

// what runs, or is markup, leaves a trace
const traces = () => p.evaluate(() => ({
  evil: window.evil ?? null,
  title: / · interlock$/.test(document.title),
  nodes: [...document.querySelectorAll('#page script, #page iframe, '
    + '#page img, #page style, base, #page [onerror], #page [onload], '
    + '#page svg[onload]')].map((n) => n.outerHTML.slice(0, 80)),
  links: [...document.querySelectorAll('#main a[href]')]
    .map((a) => a.href).filter((href) => !/^https?:/.test(href)),
}));

const none = { evil: null, title: true, nodes: [], links: [] };
let words = '';
const pages = [...lists, ...details(given.rows)];

for (const [name, path] of pages) {
  const { trouble } = await visit(p, path);
  is(trouble, null, `${name}: no trouble`);
  // all that can be opened
  for (const closed of await p.locator('#page details:not([open]) > summary')
    .all()) {
    await closed.click({ timeout: 1000 }).catch(() => {});
  }
  await until(() => p.waits() === 0, 'what was opened');
  is(await traces(), none, `${name}: nothing of it is a part of the page`);
  words += `${await p.locator('#page').innerText()}\n`;
}

// as text, from every field
for (const field of given.fields) {
  ok(words.includes(field), `${field}: is shown`);
}
like(words, /<script>window\.evil="/, 'a script is text');
like(words, /onerror="window\.evil=/, 'so is a tag');
like(words, /\{\{7\*7\}\}\$\{7\*7\}/, 'and what a template would count');
ok(!/\b49\b.*\b49\b/.test(words.match(/\{\{7.*$/m)?.[0] ?? ''),
  'which nothing does');
like(words, /9007199254740993/, 'a number beyond doubles is as it was');

is(dialogs, [], 'no dialog');
is(strange, [], 'no request to elsewhere');
is(asked, [], 'and none came there');
diag(`${pages.length} pages`);
away.close();
await done();
