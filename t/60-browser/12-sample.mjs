import { axe, claim, complained, done, given, is, launch, like, ok, owner, page,
  shot, sql, until } from './lib/browser.mjs';
import { at, button, counts, jobs, kind, put, ticket } from './lib/button.mjs';

await launch();


// --- the sample

{
  const p = await page();
  const bodies = [];
  p.on('response', (response) => bodies.push(response.text().catch(() => '')));
  const response = await p.goto(`${given.url}/sample/`);
  like(response.headers()['content-security-policy'], /^default-src 'none';/,
    'under a strict policy');
  is(response.headers()['cache-control'], 'no-store',
    'a page with a ticket is kept nowhere');
  const day = /\d{4}-\d\d-\d\d$/.exec(await p.textContent('h1'))[0];
  const key = `org:acme:daily-sales:${day}`;
  is(await p.locator('form button').filter({ visible: true }).count(), 0,
    'the element takes the place of its form');
  await axe(p, 'axe: the sample');
  await shot(p, 'sample');

  await at(p).press.dblclick();
  await at(p).becomes('queued');
  const lease = await claim('daily-sales');
  is([lease.work_key, lease.kind], [key, 'daily-sales'], 'its work');
  await owner(lease, 'progress', { progress: { done: 5, total: 8 } });
  await until(async () => await at(p).words() === 'Running: 5 of 8.',
    'its progress');
  await axe(p, 'axe: it runs');
  await shot(p, 'sample-running');
  await owner(lease, 'complete', { result_url: '/sample/sample.css' });
  await at(p).becomes('done');
  is(await at(p).link.getAttribute('href'), `${given.url}/sample/sample.css`,
    'a relative link leads to interlock');
  await axe(p, 'axe: it is done');
  await counts(key, [1, 1], 'pressed twice');

  await at(p).press.click();
  is(await at(p).becomes('already'), 'Already done.', 'not made again');
  is(await at(p, 1).press.textContent(), 'Make it again',
    'unless somebody means it');
  await at(p, 1).press.click();
  await at(p, 1).becomes('queued');
  await owner(await claim('daily-sales'), 'fail', { error: 'no',
    retryable: false, user_message: '<b>Ask Ann.</b>' });
  is(await at(p, 1).becomes('failed'), 'Failed. <b>Ask Ann.</b>',
    'a message is text and nothing else');
  await counts(key, [2, 3], 'and once again');

  const dark = await page({ colorScheme: 'dark',
    viewport: { width: 360, height: 740 } });
  await dark.goto(`${given.url}/sample/`);
  await axe(dark, 'axe: dark, on a phone');
  is(await dark.evaluate(() => document.documentElement.scrollWidth), 360,
    'nothing stands out of a phone');
  await shot(dark, 'sample-dark');

  const all = (await Promise.all(bodies)).join('\n');
  ok(all.includes('v4.public.') && Object.values(given.tokens)
    .every((token) => !all.includes(token.trim())),
  'a ticket has come to the browser, and no API token');
  await p.context().close();
  await dark.context().close();
}


// --- the sample without a script

{
  const p = await page({ javaScriptEnabled: false });
  await p.goto(`${given.url}/sample/`);
  await p.locator('form button').nth(1).click();
  await p.waitForURL('**/button/daily-sales');
  const lease = await claim('daily-sales');
  await owner(lease, 'complete', {});
  await p.locator('form button').first().click();
  await until(async () => /done/i.test(await p.textContent('body')),
    'the page to say done');
  is(await sql(`select count(*) from interlock.jobs where source = 'button'`),
    [['3']], 'the form with fresh made one more');
  await p.context().close();
}


// --- interlock at an address of its own

{
  await kind('press');
  const p = await page();
  await p.goto(put('other', button('press', await ticket('press', 's:other'),
    `src="${given.other}/"`)));
  await at(p).becomes('idle');
  await at(p).press.click();
  await at(p).becomes('queued');
  const lease = await claim('press');
  await at(p).becomes('running');
  await p.reload();
  await at(p).becomes('running');
  await owner(lease, 'complete', { result_url: '/report' });
  await at(p).becomes('done');
  is(await at(p).link.getAttribute('href'), `${given.other}/report`,
    'a relative link leads there');
  await counts('s:other', [1, 1], 'from an origin that is named');

  // the same page under a name that is not
  const q = await page();
  put('stranger', button('press', await ticket('press', 's:stranger'),
    `src="${given.other}/" patience="1"`));
  await q.goto(`${given.url.replace('127.0.0.1', 'localhost')}/t/stranger.html`);
  await at(q).becomes('idle');
  await at(q).press.click();
  is(await at(q).becomes('unsent'), 'It could not be sent. Please press again.',
    'from one that is not');
  is(await jobs('s:stranger'), 0, 'nothing is made');
  ok(complained(/CORS policy/) > 0, 'which the browser says, too');
  await p.context().close();
  await q.context().close();
}


// --- of one work: a later press takes the place of one that waits

{
  await kind('latest', { overlap: 'buffer_one', max_attempts: 2,
    backoff: 1, max_backoff: 1 });
  const pages = [];
  for (const user of ['ann', 'bob', 'cid']) {
    const p = await page();
    await p.goto(put(user, button('latest',
      await ticket('latest', 's:latest', { user }), 'quiet')));
    await at(p).becomes('idle');
    pages.push(p);
  }
  const [a, b, c] = pages.map((p) => at(p));
  await a.press.click();
  await a.becomes('queued');
  const lease = await claim('latest');
  await a.becomes('running');
  await b.press.click();
  await b.becomes('queued');
  await c.press.click();
  await c.becomes('queued');
  const [[last]] = await sql(`select id from interlock.jobs
    where work_key = 's:latest' and status = 'queued' order by id desc`);
  await until(async () => (await pages[1].evaluate(() =>
    document.querySelector('interlock-button').job)) === last,
  'the one that was superseded to follow its successor');

  await owner(lease, 'complete', {});
  await a.becomes('done');
  await owner(await claim('latest'), 'fail', { error: 'x', retryable: true,
    user_message: 'The printer is off.' });
  is(await b.becomes('retrying'), 'A first try did not work; there will be'
    + ' another. The printer is off.', 'a try that failed is no end');
  await owner(await claim('latest'), 'complete', {});
  await Promise.all([b.becomes('done'), c.becomes('done')]);
  await counts('s:latest', [3, 3], 'three people');
}

await done();
