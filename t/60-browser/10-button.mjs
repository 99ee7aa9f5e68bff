import { claim, context, done, given, is, launch, like, ok, owner, page, sql,
  until } from './lib/browser.mjs';
import { at, button, counts, jobs, kind, put, ticket } from './lib/button.mjs';

await launch();

await kind('press');
await kind('report', { overlap: 'buffer_one', when_completed: 'return',
  allow_fresh: true });

// a page for one work of a kind
const pageOf = async (of, key, attributes) =>
  put(key.replace(/:/g, '-'), button(of, await ticket(of, key), attributes));

const queued = (key) => until(async () => await jobs(key) > 0, `a job ${key}`);


// --- a press, from start to end; a double click is one of them

{
  const p = await page();
  await p.goto(await pageOf('press', 'b:double'));
  const b = at(p);
  is(await b.becomes('idle'), '', 'nothing is said before');
  is(await b.press.textContent(), 'Make it', 'the label is the form\'s');
  is(await b.waits(), false, 'and it can be pressed');

  await b.press.dblclick();
  is(await b.becomes('queued'), 'Waiting to start.', 'queued, in words');
  is(await b.waits(), true, 'the button waits');
  await b.again();
  await b.again();

  const lease = await claim('press');
  is(await b.becomes('running'), 'Running.', 'running');
  await owner(lease, 'progress', { progress: { done: 3, total: 40,
    note: ' Page\n\u202ethree. ' } });
  await until(async () => await b.words()
    === 'Running: 3 of 40. Page ⟨U+202E⟩three.',
    'its progress in words');
  is(await b.progress.evaluate((bar) => [bar.value, bar.max, bar.hidden]),
    [3, 40, false], 'and as a bar');

  await owner(lease, 'complete', { result: {},
    result_url: 'https://files.example/report.pdf' });
  is(await b.becomes('done'), 'Done.', 'done');
  is(await b.heard(), 'Done.', 'which is announced');
  is([await b.link.textContent(), await b.link.getAttribute('href')],
    ['Open the result', 'https://files.example/report.pdf'], 'with its link');
  is(await b.waits(), false, 'the button is free again');
  await counts('b:double', [1, 1], 'clicked four times');

  // the next press is another intent
  await b.press.click();
  await b.becomes('queued');
  is(await b.link.isVisible(), false, 'the old link is gone');
  await counts('b:double', [2, 2], 'pressed again after the outcome');
  await owner(await claim('press'), 'complete', {});
  await b.becomes('done');
  is(await b.link.isVisible(), false, 'no link if there is none');
  await p.context().close();
}


// --- two tabs, pressed in the same instant; one follows the other

{
  const first = await page();
  const address = await pageOf('press', 'b:tabs');
  await first.goto(address);
  const second = await page({ in: first });
  await second.goto(address);
  const [a, b] = [at(first), at(second)];
  await Promise.all([a.becomes('idle'), b.becomes('idle')]);

  await Promise.all([first, second].map((p) => p.evaluate(() =>
    document.querySelector('interlock-button').press())));
  await Promise.all([a.becomes('queued'), b.becomes('queued')]);
  await counts('b:tabs', [1, 1], 'two tabs pressed at once');

  const third = await page({ in: first });
  await third.goto(address);
  await at(third).becomes('queued');
  await at(third).again();
  const lease = await claim('press');
  await Promise.all([a, b, at(third)].map((x) => x.becomes('running')));

  // of three tabs one asks
  const asked = await Promise.all([first, second, third].map((p) =>
    p.evaluate(() => navigator.locks.query().then(({ held, pending }) =>
      [held.length, pending.length]))));
  is(asked, [[1, 2], [1, 2], [1, 2]], 'one of three tabs holds the lock');

  // when that one is closed, another goes on
  for (const p of [first, second]) {
    await p.close();
  }
  await owner(lease, 'fail', { error: 'no', retryable: false,
    user_message: 'The figures are not in yet.' });
  is(await at(third).becomes('failed'), 'Failed. The figures are not in yet.',
    'the one that is left says how it ended');
  await counts('b:tabs', [1, 1], 'and has sent nothing of its own');
  await third.context().close();
}


// --- reload in the middle, back button, another page's button

{
  const p = await page();
  const address = await pageOf('press', 'b:reload');
  await p.goto(address);
  await at(p).press.click();
  await p.reload();
  is(await at(p).becomes('queued'), 'Waiting to start.',
    'a reload goes on with it');
  is(await at(p).waits(), true, 'and takes no second press');
  await at(p).again();
  await counts('b:reload', [1, 1], 'reloaded at once');

  // with a new ticket, as a page has that is made anew
  await pageOf('press', 'b:reload');
  await p.reload();
  await at(p).becomes('queued');
  const lease = await claim('press');
  await p.goto(put('elsewhere', '<p>elsewhere</p>'));
  await p.goBack();
  is(await at(p).becomes('running'), 'Running.', 'so does the back button');
  await owner(lease, 'complete', {});
  await at(p).becomes('done');
  await p.goto(put('elsewhere', '<p>elsewhere</p>'));
  await p.goBack();
  is(await at(p).becomes('done'), 'Done.', 'an outcome is shown again');
  await counts('b:reload', [1, 1], 'reloaded and come back to');

  // the request may have arrived or not: the page goes before the answer
  await p.goto(await pageOf('press', 'b:cut'));
  await at(p).becomes('idle');
  await p.route('**/button/press', async (route) => {
    await route.fetch();
    await route.abort();
  }, { times: 1 });
  await at(p).press.click();
  await queued('b:cut');
  await p.reload();
  await at(p).becomes('queued');
  await counts('b:cut', [1, 1], 'the answer was lost, then a reload');
  // (what the edge answers by itself is on record a little later)
  const decisions = () => sql(`select decision from interlock.requests
    where work_key = 'b:cut' order by arrived_at`);
  await until(async () => (await decisions()).length > 1, 'the second one');
  is(await decisions(), [['accepted'], ['duplicate']],
    'it was sent twice, with one key');
  await owner(await claim('press'), 'complete', {});
  await at(p).becomes('done');
  await p.context().close();
}


// --- already done; fresh; somebody else's

{
  const p = await page();
  const address = put('report', button('report',
    await ticket('report', 'b:report')) + button('report',
    await ticket('report', 'b:report'), 'fresh label="Once more"'));
  await p.goto(address);
  await at(p).press.click();
  await owner(await claim('report'), 'complete', {
    result_url: 'https://files.example/1' });
  await at(p).becomes('done');

  await at(p).press.click();
  is(await at(p).becomes('already'), 'Already done.', 'already done');
  is(await at(p).link.getAttribute('href'), 'https://files.example/1',
    'with the link to what there is');
  await counts('b:report', [1, 2], 'asked for twice');

  is(await at(p, 1).press.textContent(), 'Once more', 'the other button');
  is(await at(p, 1).state(), 'idle', 'has an intent of its own');
  await at(p, 1).press.click();
  await at(p, 1).becomes('queued');
  await counts('b:report', [2, 3], 'fresh');

  // another person, another browser: the work is under way
  const other = await page();
  await other.goto(put('other', button('report',
    await ticket('report', 'b:report', { user: 'bob' }))));
  is(await at(other).becomes('queued'), 'Waiting to start.',
    'another person sees it under way');
  ok(await at(other).waits(), 'and waits for it');
  await owner(await claim('report'), 'complete', {});
  await Promise.all([at(p, 1).becomes('done'), at(other).becomes('done')]);
  await counts('b:report', [2, 3], 'and asked for nothing');
  await p.context().close();
  await other.context().close();
}


// --- canceled, superseded, in the page's own words, with its say

{
  const p = await page();
  await p.goto(put('words', button('press', await ticket('press', 'b:words'),
    'label="Los" text-queued="Gleich." text-canceled="Abgebrochen."')));
  await p.evaluate(() => {
    globalThis.told = [];
    addEventListener('interlock-state', ({ detail }) => {
      globalThis.told.push(detail.state);
    });
    addEventListener('interlock-press', (event) => event.preventDefault(),
      { once: true });
  });
  await at(p).press.click();
  is(await at(p).state(), 'idle', 'a page may take a press back');
  await at(p).press.click();
  is(await at(p).becomes('queued'), 'Gleich.', 'in the page\'s own words');
  const [[id]] = await sql(`select id from interlock.jobs
    where work_key = 'b:words'`);
  is(await p.evaluate(() => document.querySelector('interlock-button').job),
    id, 'the job is to be read');
  await sql(`select * from interlock.jobs limit 0`);
  const canceled = await (await fetch(`${given.url}/v1/jobs/${id}/cancel`, {
    method: 'POST', headers: { 'Content-Type': 'application/json',
      Authorization: `Bearer ${given.tokens.operator}` },
    body: '{"requested_by": "test", "reason": "enough"}' })).status;
  is(canceled, 202, 'an operator cancels it');
  is(await at(p).becomes('canceled'), 'Abgebrochen.', 'which is said');
  is(await p.evaluate(() => globalThis.told), ['sending', 'queued',
    'canceled'], 'a page hears of each state');
  await p.context().close();
}


// --- several buttons of a page do not wait for each other

{
  const p = await page();
  const many = [];
  for (let n = 0; n < 8; n++) {
    many.push(button('press', await ticket('press', `b:many:${n}`)));
  }
  await p.goto(put('many', many.join('\n')));
  for (let n = 0; n < 8; n++) {
    await at(p, n).press.click();
  }
  for (let n = 0; n < 8; n++) {
    await at(p, n).becomes('queued');
  }
  for (let n = 0; n < 8; n++) {
    await owner(await claim('press'), 'complete', {});
  }
  for (let n = 0; n < 8; n++) {
    await at(p, n).becomes('done');
  }
  ok(true, 'eight buttons, eight outcomes');
  is(await sql(`select count(*), count(distinct work_key) from interlock.jobs
    where work_key like 'b:many:%'`), [['8', '8']], 'of one job each');
  await p.context().close();
}

await done();
