// Each page with markup, script and odd text in every field that a client can
// set: nothing of it runs, nothing is fetched for it, it is shown as text.

import { createServer } from 'node:http';
import { api, diag, done, given, is, launch, like, ok, until, violations }
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

// names as long as they may be, and some that would be read as others
const LONG = 'W'.repeat(500);
const keys = { long: `odd:${LONG}`, arabic: `odd:${'\u0627'.repeat(250)}:12:34`,
  turned: `odd:\u202egnp.exe:${LONG}` };
const odd = {};
for (const [name, key] of Object.entries(keys)) {
  const { status, body } = await api('submit', 'POST', '/v1/jobs', {
    kind: 'e-plain', work_key: key, payload: 1, requested_by: `\u2067${name}`,
    reason: `\u200b${LONG}` });
  ok(status < 300, `${name}: a job of that key`);
  odd[name] = body.job_id;
}
const pages = [...lists, ...details({ ...given.rows,
  jobs: { ...given.rows.jobs, turned: odd.turned },
  works: [...Object.values(keys), ...given.rows.works] })];

// what is wrong for the eyes and the keyboard, at the width that it has
const RULES = ['scrollable-region-focusable', 'empty-table-header',
  'landmark-unique'];
const wrong = async (rules = RULES) => [
  ...rules.length > 0 ? await violations(p, rules) : [],
  ...await p.evaluate(() => {
    const root = document.documentElement;
    const odd = new RegExp('[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f'
      + '\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]|\\r(?!\\n)');
    const texts = [['title', document.title]];
    for (const node of document.body.querySelectorAll('*')) {
      for (const name of ['title', 'aria-label', 'placeholder']) {
        texts.push([name, node.getAttribute(name) ?? '']);
      }
    }
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      texts.push([walk.currentNode.parentNode.tagName, walk.currentNode.data]);
    }
    return [
      ...(root.scrollWidth > root.clientWidth
        ? [`${root.scrollWidth} px in ${root.clientWidth}`] : []),
      ...texts.filter(([, text]) => odd.test(text)).map(([where, text]) =>
        `unseen: ${where}: ${JSON.stringify(text.slice(0, 60))}`),
    ];
  })];
const WIDE = { width: 1280, height: 900 };
const PHONE = { width: 360, height: 740 };

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
  is(await wrong(), [], `${name}: nothing is unseen or out of reach`);
  await p.setViewportSize(PHONE);
  is(await wrong([]), [], `${name}: nor on a phone`);
  await p.setViewportSize(WIDE);
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

like(words, /⟨U\+202E⟩/, 'what turns the text around is named');
like(words, /\u{1f469}\u200d\u{1f4bb}/u, 'an emoji of two stays one');

// a dialog that asks about such a name
await p.setViewportSize(PHONE);
await visit(p, `/ui/jobs/${odd.turned}`);
await p.getByRole('button', { name: 'Cancel', exact: true }).click();
const dialog = p.locator('dialog[open]');
await dialog.locator('form[aria-busy="false"]').waitFor();
await dialog.locator('[name="reason"]').fill(' \u200b\n');
await dialog.locator('button[type="submit"]').click();
is(await dialog.locator('[name="reason"]').evaluate((f) =>
  [f.validity.customError, f.form.getAttribute('aria-busy')]), [true, 'false'],
'blanks are no reason');
await dialog.locator('[name="reason"]').fill('\u202e"why\u2066');
await dialog.locator('summary').click();
like(await dialog.locator('code').innerText(),
  /"reason": ?"\\u202e\\"why\\u2066"/, 'the command says it in ASCII');
is(await wrong(), [], 'dialog: nothing is unseen or out of reach');
ok(await dialog.evaluate((d) => d.scrollWidth <= d.clientWidth),
  'dialog: it fits on a phone');
await dialog.locator('button[type="submit"]').click();
await dialog.locator('.said').waitFor();
const { body: ended } = await api('operator', 'GET', `/v1/jobs/${odd.turned}`);
is(ended.status, 'canceled', 'with a reason it is canceled');

is(dialogs, [], 'no dialog');
is(strange, [], 'no request to elsewhere');
is(asked, [], 'and none came there');
diag(`${pages.length} pages`);
away.close();
await done();
