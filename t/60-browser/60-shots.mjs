// A picture of each page, for the manual.

import { existsSync, statSync } from 'node:fs';
import { done, given, is, launch, ok, shot } from './lib/browser.mjs';
import { details, lists, person, visit } from './lib/pages.mjs';

await launch();

const light = await person('operator', { colorScheme: 'light' });
const dark = await person('auditor', { colorScheme: 'dark' });
const phone = await person('operator', { colorScheme: 'light',
  viewport: { width: 390, height: 844 } });

async function take(page, name, path) {
  const { trouble } = await visit(page, path);
  is(trouble, null, `${name}: no trouble`);
  await shot(page, name);
  const file = `${given.build}/screenshots/${name}.png`;
  ok(existsSync(file) && statSync(file).size > 5000, `${name}.png`);
}

for (const [name, path] of [...lists, ...details(given.rows)]) {
  await take(light, name, path);
}
for (const [name, path] of lists.slice(0, 2)) {
  await take(dark, `${name}-dark`, path);
  await take(phone, `${name}-phone`, path);
}

// nothing is wider than a phone
for (const [name, path] of lists) {
  await visit(phone, path);
  is(await phone.evaluate(() => document.documentElement.scrollWidth), 390,
    `${name}: fits a phone`);
}

await done();
