import { axe, claim, complained, context, done, given, is, launch, like, ok,
  owner, api, page, sql, until } from './lib/browser.mjs';
import { at, button, counts, jobs, kind, put, ticket } from './lib/button.mjs';

await launch();

await kind('press');
// (its Retry-After is the lease's length, as long as nothing has ended)
await kind('narrow', { overlap: 'allow', max_queued: 1, lease_seconds: 5 });


// --- offline and back

{
  const p = await page();
  await p.goto(put('offline', button('press',
    await ticket('press', 't:offline'))));
  await at(p).becomes('idle');
  await p.context().setOffline(true);
  await at(p).press.click();
  is(await at(p).becomes('offline'),
    'No connection. Goes on by itself when it is back.', 'no network');
  is(await at(p).waits(), true, 'the button waits');
  await at(p).again();
  is(await jobs('t:offline'), 0, 'nothing has arrived');
  await p.context().setOffline(false);
  await at(p).becomes('queued');
  await counts('t:offline', [1, 1], 'back again');

  await p.context().setOffline(true);
  const lease = await claim('press');
  await at(p).becomes('offline');
  await owner(lease, 'complete', {});
  await p.context().setOffline(false);
  is(await at(p).becomes('done'), 'Done.',
    'what was done meanwhile is seen when it is back');
  await counts('t:offline', [1, 1], 'away in the middle');
  await p.context().close();
}


// --- too busy

{
  await api('submit', 'POST', '/v1/jobs', { kind: 'narrow', work_key: 't:n' });
  const p = await page();
  await p.goto(put('busy', button('narrow', await ticket('narrow', 't:busy'))));
  await at(p).becomes('idle');
  await at(p).press.click();
  like(await at(p).becomes('busy'),
    /^Too busy just now\. Tries again by itself in \d+ seconds?\.$/,
    'a full queue says when');
  is(await at(p).waits(), true, 'the button waits');
  is(await jobs('t:busy'), 0, 'no job');
  await owner(await claim('narrow'), 'complete', {});
  is(await at(p).becomes('queued', 20), 'Waiting to start.',
    'room: it goes on by itself');
  await counts('t:busy', [1, 1], 'busy, then let in');

  // who will not wait is told when to come back
  const q = await page();
  await q.goto(put('later', button('narrow', await ticket('narrow', 't:later'),
    'patience="0"')));
  await at(q).becomes('idle');
  await at(q).press.click();
  like(await at(q).becomes('later'),
    /^Too busy just now\. Please try again in \d+ \w+\.$/, 'or offers it');
  is(await at(q).waits(), false, 'the button is free');
  await q.reload();
  await at(q).becomes('later');
  await owner(await claim('narrow'), 'complete', {});
  await at(q).press.click();
  await at(q).becomes('queued');
  await counts('t:later', [1, 1], 'tried again, with the same key');
  await owner(await claim('narrow'), 'complete', {});
  await p.context().close();
  await q.context().close();
}


// --- no answer

{
  const p = await page();
  await p.goto(put('away', button('press', await ticket('press', 't:away'))));
  await at(p).becomes('idle');
  process.kill(given.interlockd, 'SIGKILL');
  await at(p).press.click();
  is(await at(p).becomes('queued', 20), 'Waiting to start.',
    'interlockd dies and comes back');
  await counts('t:away', [1, 1], 'without it for a while');
  await owner(await claim('press'), 'complete', {});
  await at(p).becomes('done', 20);
  await p.context().close();
}


// --- the ticket is over, before the press and in the middle

{
  const p = await page();
  const address = put('old', button('press', await ticket('press', 't:old',
    { seconds: 1 })));
  await p.goto(address);
  await at(p).becomes('idle');
  await until(async () => (await fetch(`${given.url}/button/press`, { headers:
    { 'Interlock-Ticket': await at(p).host.getAttribute('ticket') } }))
    .status === 401, 'the end of the ticket');
  await at(p).press.click();
  is(await at(p).becomes('refused'),
    'This page is too old for that. Please reload it.', 'too old');
  is(await jobs('t:old'), 0, 'no job');
  await axe(p, 'axe: too old');

  const over = await at(p).host.getAttribute('ticket');
  put('old', button('press', await ticket('press', 't:old')));
  await Promise.all([p.waitForNavigation(), at(p).reload.click()]);
  await at(p).becomes('idle');
  await at(p).press.click();
  await at(p).becomes('queued');
  const lease = await claim('press');
  // its time is over in the middle
  await at(p).host.evaluate((host, signed) => {
    host.setAttribute('ticket', signed);
  }, over);
  await at(p).becomes('refused');
  put('old', button('press', await ticket('press', 't:old')));
  await Promise.all([p.waitForNavigation(), at(p).reload.click()]);
  is(await at(p).becomes('running'), 'Running.',
    'a reload goes on where the ticket ended');
  await owner(lease, 'complete', {});
  await at(p).becomes('done');
  await counts('t:old', [1, 1], 'over two tickets');

  // or without a reload: the page gets a new one
  await at(p).host.evaluate((host, signed) => {
    host.setAttribute('ticket', signed);
  }, await ticket('press', 't:old'));
  is(await at(p).state(), 'done', 'a new ticket changes nothing else');
  await p.context().close();
}


// --- without a script: the form and its pages

{
  const p = await page({ javaScriptEnabled: false });
  const address = put('form', button('press', await ticket('press', 't:form')));
  await p.goto(address);
  await axe(await (async () => {
    // (axe is a script itself)
    const twin = await page();
    await twin.route('**/interlock-button.js', (route) => route.abort());
    await twin.goto(address);
    return twin;
  })(), 'axe: the form');
  await p.locator('form button').dblclick();
  // (the second click may find the answer's own button under it)
  await p.waitForURL('**/button/**');
  like(await p.textContent('body'), /waiting|queue/i, 'a page says how it stands');
  await counts('t:form', [1, 1], 'a form sent twice');

  const lease = await claim('press');
  await p.locator('form button').first().click();
  await until(async () => /running|under way/i.test(
    await p.textContent('body')), 'the page to look again');
  await owner(lease, 'complete', { result_url: 'https://files.example/2' });
  await p.locator('form button').first().click();
  await until(async () => /done/i.test(await p.textContent('body')),
    'the page to say done');
  is(await p.locator('a').first().getAttribute('href'),
    'https://files.example/2', 'with its link');
  await counts('t:form', [1, 1], 'and looking makes nothing');
  await p.context().close();
}


// --- by the keyboard alone, inside a form of the page's own

{
  const p = await page();
  await p.goto(put('keys', `<form method="post" action="/button/press">
<input type="hidden" name="ticket" value="${await ticket('press', 't:keys')}">
<label>A note <input name="note"></label>
<interlock-button kind="press"><button>Make it</button></interlock-button>
</form>`));
  await at(p).becomes('idle');
  await p.keyboard.press('Tab');
  await p.keyboard.press('Tab');
  const focused = () => p.evaluate(() => document.activeElement.shadowRoot
    ?.activeElement?.getAttribute('part') ?? document.activeElement.tagName);
  is(await focused(), 'button', 'the tab key comes to it');
  await p.keyboard.press('Enter');
  await p.keyboard.press('Enter');
  await p.keyboard.press('Space');
  await at(p).becomes('queued');
  is(await focused(), 'button', 'the focus stays while it waits');
  like(await p.locator('main').ariaSnapshot(),
    /- button "Make it" \[disabled\]\n *- status: Waiting to start\.$/m,
    'as a screen reader has it: a button that waits, and a status');
  await axe(p, 'axe: while it waits');
  is(new URL(p.url()).pathname, '/t/keys.html', 'the form was not sent');
  const lease = await claim('press');
  await owner(lease, 'progress', { progress: { done: 1, total: 2 } });
  await at(p).becomes('running');
  await axe(p, 'axe: running, with progress');
  await owner(lease, 'complete', { result_url: `${given.url}/t/old.html` });
  await at(p).becomes('done');
  await axe(p, 'axe: done, with a link');
  await p.keyboard.press('Tab');
  is(await focused(), 'link', 'then to the link');
  await Promise.all([p.waitForNavigation(), p.keyboard.press('Enter')]);
  is(p.url(), `${given.url}/t/old.html`, 'which is followed');
  await counts('t:keys', [1, 1], 'by keys');
  await p.context().close();
}

await done();
