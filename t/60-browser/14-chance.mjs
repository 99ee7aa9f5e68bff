import { claim, diag, done, given, is, launch, owner, page, until }
  from './lib/browser.mjs';
import { at, button, counts, jobs, kind, put, ticket } from './lib/button.mjs';

await launch({ args: ['--process-per-tab',
  '--host-resolver-rules=MAP shop.example 127.0.0.1'] });
await kind('chance', { overlap: 'allow' });

let { seed } = given;

function chance(n) {
  seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
  return Math.floor(seed / 65536) % n;
}

// what a person may do with the tabs of a browser, in any order
async function act(tabs, address) {
  const p = tabs[chance(tabs.length)];
  switch (chance(7)) {
    case 0:
    case 1:
      await p.evaluate(() => document.querySelector('interlock-button')
        ?.press());
      return;
    case 2:
      await p.reload({ waitUntil: chance(2) ? 'commit' : 'load',
        timeout: 3000 });
      return;
    case 3:
      await p.context().setOffline(true);
      return;
    case 4:
      await p.context().setOffline(false);
      return;
    case 5:
      if (tabs.length < 3) {
        tabs.push(await page({ in: p }));
        await tabs.at(-1).goto(address, { timeout: 3000 });
      }
      return;
    default:
      if (tabs.length > 1) {
        tabs.splice(tabs.indexOf(p), 1);
        await p.close();
      }
  }
}

for (let round = 1; round <= 6; round++) {
  const key = `ch:${round}`;
  // half of them where there are no locks
  const address = put(`chance-${round}`, button('chance',
    await ticket('chance', key), 'quiet'))
    .replace('127.0.0.1', round % 2 ? '127.0.0.1' : 'shop.example');
  const tabs = [await page()];
  const context = tabs[0].context();
  await tabs[0].goto(address);
  await at(tabs[0]).becomes('idle');
  await tabs[0].evaluate(() => {
    document.querySelector('interlock-button').press();
  });
  for (let step = 0; step < 9; step++) {
    // (a page cannot be had offline, a reload may be interrupted)
    await act(tabs, address).catch(() => {});
  }

  // at rest, with the network there, every tab knows of the one job
  await context.setOffline(false);
  for (const p of tabs) {
    await until(async () => await p.locator('interlock-button').count() > 0
      || p.goto(address).then(() => false, () => false), 'the page');
  }
  await Promise.all(tabs.map((p) => at(p).becomes('queued', 60)));
  if (!await counts(key, [1, 1], `round ${round}`)) {
    diag(`seed ${given.seed}`);
  }
  for (let n = await jobs(key); n > 0; n--) {
    await owner(await claim('chance'), 'complete', {});
  }
  is(await Promise.all(tabs.map((p) => at(p).becomes('done'))),
    tabs.map(() => 'Done.'), `and its end, in ${tabs.length} tabs`);
  await context.close();
}

await done();
