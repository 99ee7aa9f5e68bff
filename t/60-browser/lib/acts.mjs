// A person at the operators' pages: logs in, presses an action's button, reads
// what it says, gives a reason, and sends it.

import { context, given, is, like, ok, sql, until } from './browser.mjs';

let serial = 0;

// person(role, options): a page of somebody who is logged in
export async function person(role, options = {}) {
  const where = await context({ viewport: { width: 1280, height: 900 },
    ...options });
  const answer = await where.request.post(`${given.url}/ui/login`, {
    headers: { Origin: given.url }, form: { token: given.tokens[role] },
    maxRedirects: 0 });
  is(answer.status(), 303, `${role} logs in`);
  return where.newPage();
}

// open(page, path, label, { within, fill, ask }): presses the button, fills
// the fields, has the plan made; the dialog, ready to be sent
export async function open(page, path, label, { within, fill = {}, ask } = {}) {
  if (path) {
    await page.goto(given.url + path);
  }
  const area = within ? page.locator('tr, li, section')
    .filter({ hasText: within }).last() : page.locator('main');
  await area.getByRole('button', { name: label, exact: true }).first().click();
  const dialog = page.locator('dialog[open]');
  for (const [name, value] of Object.entries(fill)) {
    const field = dialog.locator(`[name="${name}"]`);
    if (await field.evaluate((node) => node.tagName) === 'SELECT') {
      await field.selectOption(value);
    } else {
      await field.fill(value);
    }
  }
  if (ask) {
    await dialog.getByRole('button', { name: ask }).click();
  }
  await dialog.locator('form[aria-busy="false"]').waitFor();
  return dialog;
}

// what(dialog): what it says would happen
export const what = (dialog) => dialog.locator('.what').innerText();

// row(reason): the row in actions that was given for that reason
export const rows = (reason) => sql(`select what, requested_by, token_name,
    target, detail from interlock.actions where reason = $r$${reason}$r$
    order by id`);

// act(page, path, label, { says, verb, …open }): all of it; checks the words
// before and the row in actions after.  Gives { said, row, reason }.
export async function act(page, path, label, options = {}) {
  const reason = options.reason ?? `because ${++serial}`;
  const name = options.name ?? label;
  const dialog = await open(page, path, label, options);
  if (options.says) {
    like(await what(dialog), options.says, `${name}: what will happen`);
  }
  await dialog.locator('[name="requested_by"]').fill('Dana');
  await dialog.locator('[name="reason"]').fill(reason);
  const go = dialog.locator('button[type="submit"]');
  await (options.twice ? go.dblclick() : go.click());
  const said = dialog.locator('.said, .trouble:not([hidden])').first();
  await said.waitFor();
  const text = await said.innerText();
  ok(await dialog.locator('.said').count() === 1, `${name}: ${text}`);
  const made = await rows(reason);
  is(made.map((r) => r.slice(0, 3)), Array(options.rows ?? 1)
    .fill([options.verb, 'Dana', 'operator']),
  `${name}: on record, with name and token`);
  await dialog.getByRole('button', { name: 'Close' }).click();
  return { said: text, row: made[0], reason };
}

// status(job): as the database has it
export const status = async (job) => (await sql(
  `select status from interlock.jobs where id = '${job}'`))[0][0];

export const becomes = (job, wanted, name) => until(async () =>
  wanted.includes(await status(job)), `${name}: ${wanted}`)
  .then(() => ok(true, `${name}: it is ${wanted}`));
