// The frame of the pages, and those of requests, works and jobs.

import { api, axe, claim, done, given, is, launch, like, ok, owner,
  page, sql, until } from './lib/browser.mjs';

const PAGES = ['/ui/', '/ui/requests', '/ui/works', '/ui/jobs'];

const submit = (kind, key, more = {}, headers = {}) => api('submit', 'POST',
  '/v1/jobs', { kind, work_key: key, ...more }, headers);

const text = (on, selector) => on.locator(selector).first().innerText();

// the ids of the rows that are shown, in their order
const ids = (on) => on.locator('tbody tr:not(.skeleton) th a').evaluateAll(
  (all) => all.map((a) => decodeURIComponent(a.pathname.split('/').pop())));

const count = (on, n) => until(async () => (await ids(on)).length === n,
  `${n} rows`);

const query = (on) => Object.fromEntries(new URL(on.url()).searchParams);

await launch();

// --- the door ---------------------------------------------------------------

const p = await page({ viewport: { width: 1280, height: 800 },
  timezoneId: 'Asia/Seoul', colorScheme: 'light' });

await p.goto(`${given.url}/ui/jobs?kind=tally`);
like(p.url(), /\/ui\/login\?next=/, 'without a session: the login page');
await p.fill('input[name=token]', given.tokens.operator);
await p.press('input[name=token]', 'Enter');
await p.waitForURL('**/ui/jobs?kind=tally');
ok(true, 'and from there to where one wanted');
await p.waitForSelector('.empty');
like(await text(p, '.empty'), /Nothing matches these filters/,
  'a filter that nothing passes says what to do');
await p.click('button:has-text("Clear")');
await until(async () => /makes one/.test(await text(p, '.empty')),
  'the words of an empty list');
ok(true, 'an empty list says how to fill it');
like(await text(p, '#who'), /demo.*operator/s, 'tenant and role are shown');
ok(!(await p.content()).includes(given.tokens.operator),
  'the token is nowhere in the page');

// --- what there is ----------------------------------------------------------

const batch = await api('submit', 'POST', '/v1/jobs:batch', {
  jobs: Array.from({ length: 120 }, (_, n) => ({ kind: 'free',
    work_key: `list:${String(n).padStart(3, '0')}` })),
});
is(batch.status, 200, '120 jobs');
const payload = '{"big":9007199254740993,"price":1.10,"far":1e400,'
  + '"html":"<img src=x onerror=\\"document.title=1\\">","e":"\\u00e9",'
  + '"twice":1,"twice":2}';
const raw = await (await fetch(`${given.url}/v1/jobs`, { method: 'POST',
  headers: { Authorization: `Bearer ${given.tokens.submit}`,
    'Content-Type': 'application/json', 'Idempotency-Key': 'shell-1' },
  body: `{"kind":"tally","work_key":"shell:<b>1</b>","payload":${payload},`
    + '"requested_by":"<script>document.title=2</script>"}' })).json();
for (let n = 0; n < 5; n++) {
  await fetch(`${given.url}/v1/jobs`, { method: 'POST',
    headers: { Authorization: `Bearer ${given.tokens.submit}`,
      'Content-Type': 'application/json', 'Idempotency-Key': 'shell-1' },
    body: `{"kind":"tally","work_key":"shell:<b>1</b>","payload":${payload},`
      + '"requested_by":"<script>document.title=2</script>"}' });
}

// --- going about ------------------------------------------------------------

for (const [link, head] of [['Overview', 'Overview'], ['Requests', 'Requests'],
  ['Works', 'Works'], ['Jobs', 'Jobs']]) {
  await p.click(`#nav a:has-text("${link}")`);
  await until(async () => await text(p, 'h1') === head, head);
  is(await p.locator('#nav [aria-current=page]').innerText(), link,
    `${link}: marked in the menu`);
  is(await p.title(), `${head} · interlock`, `${link}: its title`);
  await until(() => p.evaluate(() => document.activeElement?.id === 'title'),
    'the focus');
}
await p.goBack();
await until(async () => await text(p, 'h1') === 'Works', 'the page before');
ok(true, 'the back button leads back');
await p.goto(`${given.url}/ui/nowhere`);
like(await text(p, '.empty'), /no page at this address/,
  'an address of nothing says so');

// --- filters in the address -------------------------------------------------

await p.goto(`${given.url}/ui/jobs`);
await count(p, 50);
const first = await ids(p);
const all = (await sql('select id from interlock.jobs order by id desc'))
  .map(([id]) => id);
is(first, all.slice(0, 50), 'the newest jobs, newest first');
await p.waitForSelector('select[name=kind] option[value=tally]',
  { state: 'attached' });
await p.focus('select[name=kind]');
await p.selectOption('select[name=kind]', 'tally');
await count(p, 1);
is(query(p), { kind: 'tally' }, 'a filter is in the address');
is(await p.evaluate(() => document.activeElement.name), 'kind',
  'and the focus stays');
await p.fill('input[name=work_key]', 'nobody:has:this');
await p.press('input[name=work_key]', 'Enter');
await p.waitForSelector('.empty');
is(query(p), { kind: 'tally', work_key: 'nobody:has:this' }, 'two filters');
await p.goBack();
await count(p, 1);
is(await p.inputValue('input[name=work_key]'), '', 'back: one again');
await p.reload();
await count(p, 1);
is(await p.inputValue('select[name=kind]'), 'tally', 'kept over a reload');
await p.goBack();
await count(p, 50);
is(await p.inputValue('select[name=kind]'), '', 'back: none');

await p.fill('input[name=since]', '2020-01-02T03:04:05');
await p.locator('input[name=since]').blur();
await until(() => query(p).since, 'the time in the address');
is(query(p), { since: '2020-01-01T18:04:05Z' },
  'a time of the viewer\'s zone is UTC in the address');
await p.goBack();
await count(p, 50);
await p.goForward();
is(await until(() => p.inputValue('input[name=since]'), 'the time'),
  '2020-01-02T03:04:05', 'and the viewer\'s again in the field');
await p.goto(`${given.url}/ui/jobs`);
await count(p, 50);

// --- pages that do not move -------------------------------------------------

const late = [];
for (let n = 0; n < 3; n++) {
  late.push((await submit('free', `late:${n}`)).body.job_id);
}
await p.waitForSelector('button.newer:visible', { timeout: 25000 });
is(await ids(p), first, 'newer rows are told of, and move nothing');
await p.click('button:has-text("Older")');
await until(async () => (await ids(p))[0] === all[50], 'the second page');
is(await ids(p), all.slice(50, 100), 'the second page goes on exactly there');
await p.click('button:has-text("Older")');
await count(p, all.length - 100);
is(await ids(p), all.slice(100), 'the third to the end');
ok(await p.isDisabled('button:has-text("Older")'), 'where there are no more');
await p.reload();
await count(p, all.length - 100);
is(await ids(p), all.slice(100), 'the same after a reload');
await p.click('button:has-text("← Newer")');
await until(async () => (await ids(p))[0] === all[50], 'the second page');
await p.goBack();
await count(p, all.length - 100);
ok(true, 'and back');
await p.click('button:has-text("Newest")');
await until(async () => (await ids(p))[0] === late[2], 'the newest');
is((await ids(p)).slice(0, 4), [...late.reverse(), all[0]],
  'the first page again has the new ones');

// --- keyboard ---------------------------------------------------------------

await p.goto(`${given.url}/ui/jobs`);
await count(p, 50);
await p.keyboard.press('Tab');
is(await p.evaluate(() => document.activeElement.className), 'skip',
  'the first stop leads past the menu');
await p.keyboard.press('Enter');
ok(await p.evaluate(() => document.activeElement.id === 'main'), 'to the page');
await p.locator('tbody th a').first().focus();
await p.keyboard.press('ArrowDown');
is(await p.evaluate(() => document.activeElement.pathname.split('/').pop()),
  (await ids(p))[1], 'an arrow leads to the next row');
await p.keyboard.press('Enter');
await p.waitForURL('**/ui/jobs/*');

await until(async () => await text(p, 'h1')
  === `Job ${new URL(p.url()).pathname.slice(-8)}`, 'its page');
ok(true, 'and Enter to its job');

// --- stored JSON ------------------------------------------------------------

await p.goto(`${given.url}/ui/jobs/${raw.job_id}`);
await p.waitForSelector('pre.raw');
const shown = await p.locator('pre.raw').first().textContent();
is(shown.replace(/\n */g, '').replace(/": /g, '":'), payload,
  'a payload is shown letter for letter: 2^53+1, 1.10, doubles, escapes');
is(await p.locator('#page img, #page script').count(), 0,
  'what looks like markup in it is text');
like(await text(p, 'section[aria-label=Asked]'),
  /<script>document\.title=2<\/script>/, 'and who asked, too');
is(await p.title(), `Job ${raw.job_id.slice(-8)} · interlock`, 'nothing ran');
await p.context().grantPermissions(['clipboard-read', 'clipboard-write']);
await p.click('.lead .copy');
await p.waitForSelector('.lead .copy[data-done=yes]');
is(await p.evaluate(() => navigator.clipboard.readText()), raw.job_id,
  'a button copies an id');
const at = await p.locator('section[aria-label=Asked] time').first();
like(await at.getAttribute('title'), /UTC \(shown in Asia\/Seoul\)/,
  'UTC is said beside the viewer\'s time');
is((Date.parse(`${(await at.innerText()).replace(' ', 'T')}Z`)
  - Date.parse((await at.getAttribute('datetime')).replace(/\.\d+/, '')))
  / 3600e3, 9, 'which is nine hours ahead there');

// --- live -------------------------------------------------------------------

const list = await page({ in: p });
await list.goto(`${given.url}/ui/jobs?kind=tally`);
await count(list, 1);
const badges = async () => [
  await p.locator('section[aria-label="How it stands"] .badge').first()
    .getAttribute('data-state'),
  await list.locator('tbody .badge').first().getAttribute('data-state'),
];
is(await badges(), ['queued', 'queued'], 'queued in both tabs');
const lease = await claim('tally');
await until(async () => String(await badges()) === 'running,running',
  'both tabs to say that it runs');
ok(true, 'both tabs see that it runs');
await owner(lease, 'progress', { progress: { done: 3, total: 10,
  note: '<i>three</i>' }, step: 'copy' });
await until(async () => /3 of 10/.test(await text(list, 'tbody tr')),
  'the progress in the list');
await until(async () => /3 of 10[^]*<i>three<\/i>[^]*copy/
  .test(await text(p, 'section[aria-label=Progress]')), 'and in the job');
ok(true, 'both see how far it is');

// a tab that nobody sees has no stream; when it is seen it goes on from there
const see = (on, hidden) => on.evaluate((value) => {
  Object.defineProperty(document, 'hidden',
    { configurable: true, get: () => value });
  document.dispatchEvent(new Event('visibilitychange'));
}, hidden);
await see(list, true);
await until(async () => await list.locator('#live').textContent() === '',
  'the end of its stream');
const asked = [];
list.on('request', (r) => asked.push([new URL(r.url()).pathname,
  r.headers()['last-event-id']]));
await fetch(`${given.url}/v1/lease/complete`, { method: 'POST',
  headers: { Authorization: `Bearer ${lease.owner_token}`,
    'Content-Type': 'application/json' },
  body: '{"result":{"rows":9007199254740993,"sum":1.10}}' });
await until(async () => String(await badges()) === 'succeeded,running',
  'the tab that is seen to say that it is done');
await see(list, false);
await until(async () => String(await badges()) === 'succeeded,succeeded',
  'the other one to say so');
ok(true, 'and that it is done, the hidden one once it is seen');
is(asked.map(([path]) => path), ['/v1/events'], 'by its stream alone');
ok(asked[0][1], 'which went on from where it was');
like(await until(async () => {
  const results = await p.locator('section[aria-label=Result] pre.raw')
    .allTextContents();
  return results[0];
}, 'the result'), /9007199254740993[^]*1\.10/, 'the result as stored');
await list.close();

// nobody touches it: it asks nothing more, so that its session may end
// (a clock of its own is a whole profile's)
const left = await page({ storageState: await p.context().storageState() });
await left.clock.install();
await left.goto(`${given.url}/ui/jobs?kind=tally`);
await until(async () => await text(left, '#live') === 'Live', 'the stream');
await left.clock.fastForward(16 * 60 * 1000);
await until(async () => /^Asleep/.test(await text(left, '#live')), 'sleep');
ok(true, 'a page that nobody touches falls asleep');
await left.mouse.move(300, 300);
await until(async () => await text(left, '#live') === 'Live', 'the stream');
ok(true, 'and wakes by a hand');
await left.close();

// --- one work ---------------------------------------------------------------

await p.click('a:has-text("in one time line")');
await until(async () => await text(p, 'h1') === 'shell:<b>1</b>',
  'the work\'s page');
await p.waitForSelector('#timeline > li[data-what=published]');
is(await p.locator('#timeline > li').evaluateAll((l) => l.map((li) =>
  li.dataset.what)), ['request', 'duplicates', 'claimed', 'ended',
  'published'], 'its time line: the request, its repeats, the attempt');
like(await text(p, '.timeline summary'), /^5 duplicates/, 'repeats are one');
await p.click('.timeline summary');
is(await p.locator('.timeline .timeline > li').count(), 5, 'and all inside');
like(await text(p, 'section[aria-label=Result] pre'), /9007199254740993/,
  'its result as stored');
await p.selectOption('#timeline-sort', 'attempt');
is(query(p), { show: 'attempt' }, 'what is shown of it is in the address');
is(await p.locator('#timeline > li').count(), 2, 'the attempt alone');
await p.goBack();
await until(async () => await p.locator('#timeline > li').count() === 5,
  'all of it');

// --- search -----------------------------------------------------------------

for (const [q, what] of [[raw.job_id, 'Job'], ['shell:<b>1</b>', 'Work'],
  ['shell:', 'Work'], ['shell-1', 'Request']]) {
  await p.fill('#search-q', q);
  await p.press('#search-q', 'Enter');
  await until(async () => await text(p, 'h1') === `Search: ${q}`, q);
  await p.waitForSelector('tbody tr');
  is(await text(p, 'tbody td'), what, `found: ${what} by ${q}`);
}
await p.click('tbody th a');
await p.waitForURL('**/ui/requests?idempotency_key=shell-1');
await until(async () => await p.locator('tbody tr:not(.skeleton)').count()
  === 6, 'all requests with that key');
ok(true, 'an idempotency key leads to all requests with it');
await p.goto(`${given.url}/ui/search?q=nothing-has-this-name`);
await p.waitForSelector('.empty');
like(await text(p, '.empty'), /Nothing has that name/, 'what is not found');

// --- what goes wrong --------------------------------------------------------

await p.goto(`${given.url}/ui/jobs/01a22abb-6556-71d5-a83c-88ae58fc7883`);
await p.waitForSelector('.problem');
like(await text(p, '.problem'), /404[^]*never was/, 'what is not there, in words');
await p.route('**/v1/jobs?*', (route) => route.abort());
await p.goto(`${given.url}/ui/jobs`);
await p.waitForSelector('.problem');
like(await text(p, '.problem'), /cannot be reached/, 'no server, in words');
await p.unroute('**/v1/jobs?*');
await p.click('.problem button');
await count(p, 50);
ok(true, 'and tried again by a button');

// --- how it looks -----------------------------------------------------------

const ground = (on) => on.evaluate(() =>
  getComputedStyle(document.body).backgroundColor);
const light = await ground(p);
await p.emulateMedia({ colorScheme: 'dark' });
const dark = await ground(p);
ok(light !== dark, 'the system\'s theme');
await p.selectOption('#theme', 'light');
is(await ground(p), light, 'or the other one');
await p.reload();
await count(p, 50);
is(await ground(p), light, 'kept');
await p.selectOption('#theme', '');
is(await ground(p), dark, 'or the system\'s again');

const mine = [...PAGES, `/ui/jobs/${raw.job_id}`,
  `/ui/works/${encodeURIComponent('shell:<b>1</b>')}`, '/ui/search?q=list:'];
const settled = (on) => until(() => on.evaluate(() =>
  !document.querySelector('.skeleton, .loading, [aria-busy=true]')),
'the page to be complete');

for (const path of mine) {
  await p.emulateMedia({ colorScheme: 'light' });
  await p.goto(given.url + path);
  await settled(p);
  await axe(p, `axe, light: ${path}`);
  if (!/works|search/.test(path)) {
    await p.emulateMedia({ colorScheme: 'dark' });
    await axe(p, `axe, dark: ${path}`);
  }
  const paint = await p.evaluate(() => performance
    .getEntriesByName('first-contentful-paint')[0]?.startTime);
  ok(paint < 1000, `first paint within a second: ${path}`)
    || console.log(`# ${paint} ms`);
  await p.setViewportSize({ width: 360, height: 740 });
  ok(await p.evaluate(() => document.documentElement.scrollWidth
    <= innerWidth), `no scrolling sideways on a phone: ${path}`);
  await p.setViewportSize({ width: 1280, height: 800 });
}

await p.setViewportSize({ width: 360, height: 740 });
await p.goto(`${given.url}/ui/jobs`);
await count(p, 50);
ok(!(await p.isVisible('#nav')), 'on a phone the menu is folded');
await p.click('#menu');
await axe(p, 'axe: the menu on a phone');
await p.keyboard.press('Escape');
ok(!(await p.isVisible('#nav')), 'and folds again');
await p.setViewportSize({ width: 1280, height: 800 });

// what is loaded takes the place that was kept for it
const still = await page({ in: p });
await still.addInitScript(() => {
  window.moved = 0;
  new PerformanceObserver((seen) => {
    for (const entry of seen.getEntries()) {
      window.moved += entry.value;
    }
  }).observe({ type: 'layout-shift', buffered: true });
});
await still.goto(`${given.url}/ui/jobs`);
await count(still, 50);
const moved = await still.evaluate(() => window.moved);
ok(moved < 0.05, `nothing jumps while a list loads (${moved})`);
await still.close();

// --- out --------------------------------------------------------------------

await p.click('button:has-text("Log out")');
await p.waitForURL('**/ui/login**');
await p.goto(`${given.url}/ui/jobs`);
like(p.url(), /\/ui\/login/, 'logged out');

await done();
