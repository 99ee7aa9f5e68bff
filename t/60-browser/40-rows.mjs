// Each page with the rows that there are: it is there, soon, without an error,
// and fit for everybody.

import { axe, diag, done, given, is, launch, ok } from './lib/browser.mjs';
import { details, lists, person, visit } from './lib/pages.mjs';

await launch();

const p = await person('operator');
const all = [...lists, ...details(given.rows)];
let slowest = 0;

for (const [n, [name, path]] of all.entries()) {
  let seen = await visit(p, path);
  // a machine that is busy with something else gets another try
  for (let again = 0; again < 2 && !(seen.paint < 1000); again++) {
    seen = await visit(p, path);
  }
  ok(seen.paint !== null && seen.paint < 1000,
    `${given.what}: ${name}: first paint after ${Math.round(seen.paint)} ms`);
  is(seen.trouble, null, `${given.what}: ${name}: no trouble`);
  slowest = Math.max(slowest, seen.whole);
  diag(`${name}: whole after ${seen.whole} ms`);
  // a list is looked at where it is fullest
  if (given.axe === 'all' || (given.axe === 'details' && n >= lists.length)) {
    await axe(p, `${given.what}: ${name}: axe`);
  }
}

ok(slowest < 10000, `${given.what}: all of it within ${slowest} ms`);
if (given.least) {
  const text = await p.goto(`${given.url}/ui/jobs`)
    .then(() => p.waitForSelector('tbody tr:not(.skeleton)'))
    .then(() => p.locator('tbody tr').count());
  ok(text >= given.least, `${given.what}: ${text} rows on a page of jobs`);
}

await done();
