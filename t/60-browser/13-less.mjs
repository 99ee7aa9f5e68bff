import { claim, done, given, is, launch, ok, owner, page, until }
  from './lib/browser.mjs';
import { at, button, counts, jobs, kind, put, ticket } from './lib/button.mjs';

// tabs in processes of their own, as a browser has them that is used
await launch({ args: ['--process-per-tab',
  '--host-resolver-rules=MAP shop.example 127.0.0.1'] });

await kind('press', { overlap: 'allow' });

const pressAll = (tabs) => Promise.all(tabs.map((p) => p.evaluate(() =>
  document.querySelector('interlock-button').press())));


// --- a page by plain http

{
  const tabs = [await page()];
  tabs.push(await page({ in: tabs[0] }), await page({ in: tabs[0] }));
  for (const round of [1, 2, 3]) {
    const address = put(`http-${round}`, button('press',
      await ticket('press', `l:http:${round}`), 'quiet'))
      .replace('127.0.0.1', 'shop.example');
    await Promise.all(tabs.map((p) => p.goto(address)));
    await Promise.all(tabs.map((p) => at(p).becomes('idle')));
    await pressAll(tabs);
    await Promise.all(tabs.map((p) => at(p).becomes('queued')));
    await counts(`l:http:${round}`, [1, 1], 'three tabs pressed at once');
  }
  is(await tabs[0].evaluate(() => [navigator.locks, crypto.randomUUID]
    .map((x) => x === undefined)), [true, true],
  'there are neither locks nor UUIDs here');

  await tabs[0].reload();
  await at(tabs[0]).becomes('queued');
  await at(tabs[0]).again();
  for (let n = 0; n < 3; n++) {
    await owner(await claim('press'), 'complete', {});
  }
  await Promise.all(tabs.map((p) => at(p).becomes('done')));
  await counts('l:http:3', [1, 1], 'and one of them reloaded');
  await tabs[0].context().close();
}


// --- a browser that keeps nothing, and an old one

{
  const p = await page();
  await p.addInitScript(() => {
    const no = { get() { throw new DOMException('no', 'SecurityError'); } };
    Object.defineProperty(globalThis, 'localStorage', no);
    Object.defineProperty(globalThis, 'indexedDB', no);
    delete globalThis.CSSStyleSheet;
  });
  await p.goto(put('nothing', button('press',
    await ticket('press', 'l:nothing'))));
  await at(p).becomes('idle');
  await at(p).press.dblclick();
  await at(p).becomes('queued');
  await at(p).again();
  await counts('l:nothing', [1, 1], 'without storage');
  await p.reload();
  is(await at(p).becomes('queued'), 'Waiting to start.',
    'after a reload it asks how things stand');
  ok(await at(p).waits(), 'and waits for what is under way');
  await owner(await claim('press'), 'complete', {});
  await at(p).becomes('done');
  await p.context().close();
}


// --- the page is reloaded before its tabs have agreed on a key

{
  const p = await page();
  await p.addInitScript(() => {
    if (!sessionStorage.getItem('again')) {
      sessionStorage.setItem('again', 'yes');
      IDBFactory.prototype.open = () => ({});
    }
  });
  await p.goto(put('early', button('press', await ticket('press', 'l:early'))));
  await at(p).becomes('idle');
  await at(p).press.click();
  await at(p).becomes('sending');
  is(await jobs('l:early'), 0, 'nothing is sent yet');
  await p.reload();
  await at(p).becomes('queued');
  await counts('l:early', [1, 1], 'reloaded in the same instant');
  await owner(await claim('press'), 'complete', {});
  await at(p).becomes('done');
  await p.context().close();
}


// --- somebody else answers: a network that wants a login first

{
  const p = await page();
  await p.goto(put('hotel', button('press', await ticket('press', 'l:hotel'),
    'quiet')));
  await at(p).becomes('idle');
  let n = 0;
  await p.route('**/button/**', (route) => (n++ < 2
    ? route.fulfill({ status: 200, contentType: 'text/html',
      body: n === 1 ? '<p>Welcome!' : 'null' }) : route.continue()));
  await at(p).press.click();
  is(await at(p).becomes('away'), 'No answer just now. Goes on by itself.',
    'that is no answer');
  await at(p).becomes('queued');
  await counts('l:hotel', [1, 1], 'after two such answers');
  await owner(await claim('press'), 'complete', {});
  await at(p).becomes('done');
  await p.context().close();
}


// --- put aside and taken up again (the back button, as a rule)

{
  const p = await page();
  const asked = [];
  p.on('request', (request) => asked.push(request.url()));
  await p.goto(put('aside', button('press', await ticket('press', 'l:aside'))));
  await at(p).becomes('idle');
  await at(p).press.click();
  await at(p).becomes('queued');
  const turn = (name) => p.evaluate((type) => {
    dispatchEvent(new PageTransitionEvent(type, { persisted: true }));
  }, name);
  await turn('pagehide');
  is(await p.evaluate(() => navigator.locks.query().then(({ held, pending }) =>
    held.length + pending.length).then(async (n) => {
    // (the last answer may be on its way)
    while (n > 0) {
      await new Promise((wake) => { setTimeout(wake, 20); });
      const { held, pending } = await navigator.locks.query();
      n = held.length + pending.length;
    }
    return n;
  })), 0, 'it lets go of its lock');
  const before = asked.length;
  await owner(await claim('press'), 'complete', {});
  is([await at(p).state(), asked.length - before], ['queued', 0],
    'and asks nothing while it is aside');
  await turn('pageshow');
  is(await at(p).becomes('done'), 'Done.', 'then it reads how things stand');
  is(await jobs('l:aside'), 1, 'one job');
  await p.context().close();
}


// --- taken out of the page and put back

{
  const p = await page();
  await p.goto(put('out', `<div id="a">${button('press',
    await ticket('press', 'l:out'))}</div><div id="b"></div>`));
  await at(p).becomes('idle');
  await at(p).press.click();
  await at(p).becomes('queued');
  await p.evaluate(() => document.querySelector('#b').append(
    document.querySelector('interlock-button')));
  await owner(await claim('press'), 'complete', {});
  is(await at(p).becomes('done'), 'Done.', 'moved within the page');
  await counts('l:out', [1, 1], 'moved');

  // a page that makes its buttons by script
  const signed = await ticket('press', 'l:made');
  await p.evaluate((text) => {
    const made = document.createElement('interlock-button');
    document.querySelector('#a').append(made);
    made.setAttribute('kind', 'press');
    made.setAttribute('ticket', text);
    made.setAttribute('label', 'Made');
  }, signed);
  is([await at(p).press.textContent(), await at(p).waits()], ['Made', false],
    'an element that gets its attributes later');
  await at(p).press.click();
  await at(p).becomes('queued');
  await owner(await claim('press'), 'complete', {});
  await at(p).becomes('done');
  await counts('l:made', [1, 1], 'made by a script');
  await p.context().close();
}

await done();
