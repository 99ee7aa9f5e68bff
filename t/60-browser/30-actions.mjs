// Actions on jobs, works, leases and effects, each pressed in the browser, its
// effect looked up in the database.

import { api, axe, claim, done, given, is, launch, like, ok, owner, sql, until }
  from './lib/browser.mjs';
import { act, becomes, open, person, rows, status, what } from './lib/acts.mjs';
import { effects, held, kinds, run, submit } from './lib/seed.mjs';

await launch();
await kinds();
const p = await person('operator');


// --- jobs ---------------------------------------------------------------------

const job = {};
for (const name of ['retry', 'succeed', 'fail', 'release']) {
  job[name] = await held(`held:${name}`);
}

await act(p, `/ui/jobs/${job.retry}`, 'Run again', { verb: 'job_decide',
  says: /queued again.*at most 1/s });
is(await status(job.retry), 'queued', 'a held job is queued again');

await act(p, null, 'Cancel', { verb: 'job_cancel', twice: true,
  says: /ends at once/ });
is(await status(job.retry), 'canceled', 'and canceled, once for two clicks');

await act(p, `/ui/jobs/${job.succeed}`, 'Count as done', { verb: 'job_decide',
  says: /no result \(null\)/, fill: { assignee: 'Kim' } });
is(await sql(`select status, assignee from interlock.jobs
  where id = '${job.succeed}'`), [['succeeded', 'Kim']],
'a held job counts as done, and Kim looks after it');

await act(p, `/ui/jobs/${job.fail}`, 'Count as failed', { verb: 'job_decide' });
is(await status(job.fail), 'failed', 'a held job counts as failed');

await act(p, `/ui/jobs/${job.release}`, 'Hand back', { verb: 'job_decide',
  says: /last attempt had not been/ });
is(await status(job.release), 'queued', 'a held job is handed back');
await owner(await claim('solo'), 'complete');

await submit('line', 'line:one');
const first = await claim('line');
await submit('line', 'line:one');
const parked = (await submit('line', 'line:one')).job_id;
is(await status(parked), 'parked', '(a job that is parked)');
await act(p, `/ui/jobs/${parked}`, 'Let in now', { verb: 'job_decide',
  says: /before the others/ });
is(await status(parked), 'queued', 'a parked job is let in');

await act(p, `/ui/jobs/${first.job_id}`, 'Cancel', { verb: 'job_cancel',
  says: /asked to end/ });
is((await owner(first, 'complete')).body.type?.split('/').pop(),
  'job-canceled', 'what was asked to end may complete nothing');


// --- redrive --------------------------------------------------------------------

const no = (name) => run('solo', `failed:${name.replace(' ', '-')}`, 'fail',
  { error: `the CRM said no to ${name}`, retryable: false });
job.one = await no('one');
job.two = await no('bulk two');
job.three = await no('bulk three');

await act(p, `/ui/jobs/${job.one}`, 'Requeue by a plan', { verb: 'redrive',
  says: /1 failed job would be queued/ });
is(await status(job.one), 'queued', 'one job requeued by its plan');

const bulk = await open(p, '/ui/jobs', 'Requeue failed jobs …',
  { fill: { error: 'to bulk' } });
ok(await bulk.locator('button[type="submit"]').isDisabled(),
  'nothing is sent before a plan was seen');
await p.keyboard.press('Escape');
await act(p, null, 'Requeue failed jobs …', { verb: 'redrive', rows: 2,
  fill: { error: 'to bulk' }, ask: 'Make a plan', says: /2 failed jobs/ });
is([await status(job.two), await status(job.three)], ['queued', 'queued'],
  'many, by a plan that was seen');


await run('steady', 'doc:1', 'complete', { result: { text: 'first' } });
await run('steady', 'doc:1', 'complete', { result: { text: 'second' } });
await run('plain', 'changed:1', 'complete', { result: 1 });
const e = await effects();


// --- leases -----------------------------------------------------------------------

await submit('steady', 'run:revoke');
const taken = await claim('steady');
await p.goto(`${given.url}/ui/leases`);
const remains = p.locator('[data-until]').first();
await remains.waitFor();
const before = await remains.innerText();
await until(async () => await remains.innerText() !== before,
  'the time that remains to count down');
ok(true, `the time that remains counts down from ${before}`);
await act(p, null, 'Take the lease away', { verb: 'job_revoke',
  within: 'run:revoke', says: /had been lost.*runs again/s });
is((await owner(taken, 'renew')).body.type?.split('/').pop(), 'lease-lost',
  'its owner is refused');
is(await status(taken.job_id), 'queued', 'and its job runs again');


// --- works --------------------------------------------------------------------

await p.goto(`${given.url}/ui/works/doc:1`);
await p.getByText('All revisions of its result').click();
await act(p, null, 'Let it stand', { verb: 'work_publish',
  within: /^1\b/, says: /Stands now.*second.*Will stand.*first/s });
is(await sql(`select published_revision from interlock.works
  where work_key = 'doc:1'`), [['1']], 'the first revision stands again');

await act(p, '/ui/works/doc:1', 'Run again …', { verb: 'work_rerun',
  fill: { payload: '{"n":12345678901234567890}' },
  says: /Revision 1 stands/ });
is(await sql(`select convert_from(p.payload, 'UTF8') from interlock.jobs j
  join interlock.payloads p on p.tenant = j.tenant and p.job_id = j.id
  where j.work_key = 'doc:1' and j.rerun_of is not null`),
[['{"n":12345678901234567890}']], 'run again, a large number as written');

// between look and click, somebody else runs it
const dialog = await open(p, '/ui/works/changed:1', 'Run again …');
const seen = await what(dialog);
like(seen, /Its last 1 job/, 'one job was there when it was looked at');
await run('plain', 'changed:1', 'complete', { result: 2 });
await dialog.locator('[name="reason"]').fill('too late');
await dialog.locator('button[type="submit"]').click();
const trouble = dialog.locator('.trouble');
await trouble.waitFor();
like(await trouble.innerText(), /has changed since it was shown/,
  'refused, in words');
await until(async () => /Its last 2 jobs/.test(await what(dialog)),
  'the new impact');
is(await rows('too late'), [], 'nothing was done');
await dialog.locator('button[type="submit"]').click();
await dialog.locator('.said').waitFor();
is((await rows('too late')).length, 1,
  'asked again, with the new impact shown, it is done');
await dialog.getByRole('button', { name: 'Close' }).click();


// --- effects ----------------------------------------------------------------------

const state = async (name) => (await sql(`select state from interlock.effects
  where id = '${e[name].effect_id}'`))[0][0];

await p.goto(`${given.url}/ui/effects`);
await p.getByRole('region', { name: 'Not settled' }).or(p.locator('section'))
  .getByText('Look and decide').first().waitFor();
await axe(p);

await act(p, `/ui/effects/${e.happened.effect_id}`, 'It happened',
  { verb: 'effect_resolve', says: /not sent again/ });
is(await state('happened'), 'confirmed', 'settled: it happened');
await act(p, `/ui/effects/${e['not-happened'].effect_id}`,
  'It did not happen', { verb: 'effect_resolve', says: /happens twice/ });
is(await state('not-happened'), 'failed', 'settled: it did not');
await act(p, `/ui/effects/${e['send-again'].effect_id}`, 'Send again',
  { verb: 'effect_resolve', says: /does not honour/ });
is(await state('send-again'), 'failed', 'settled: to be sent again');
await becomes(e['send-again'].job_id, ['queued'], 'its job goes on');

await act(p, `/ui/effects/${e.asked.effect_id}`, 'Check now',
  { verb: 'effect_check', says: /effect-check/ });
await until(async () => (await sql(`select count(*) from interlock.checks
  where target = '${e.asked.effect_id}' and due_at < clock_timestamp() + interval '1 hour'`))[0][0]
  === '1', 'its look-up to be due');
ok(true, 'its look-up, which was to wait for a day, does not wait');
await axe(p);

const without = await open(p, `/ui/effects/${e.spare.effect_id}`, 'Check now');
like(await what(without), /no look-up/, 'without a look-up that is said');
ok(await without.locator('button[type="submit"]').isDisabled(),
  'and cannot be sent');
await p.keyboard.press('Escape');


// --- an answer that does not come ---------------------------------------------------

await p.route('**/resolve', (route) => route.abort());
const lost = await open(p, null, 'It happened');
await lost.locator('[name="reason"]').fill('lost on its way');
await lost.locator('button[type="submit"]').click();
await lost.locator('.trouble').waitFor();
like(await lost.locator('.trouble').innerText(), /not known whether/,
  'that it is not known whether it was done is said');
is(await state('spare'), 'needs_human', '(it was not)');
is((await api('operator', 'GET', '/v1/actions?limit=1')).status, 200,
  'the actions can be read');

await done();
