// Schedules, gaps, kinds, sources and the inbox: each action pressed in the
// browser and looked up in the database; the same by the command that it
// shows; what an auditor can do of all that.

import { execFileSync } from 'node:child_process';
import { api, axe, done, given, is, launch, like, ok, owner, claim,
  sql, until } from './lib/browser.mjs';
import { act, open, person, rows, status, what } from './lib/acts.mjs';
import { held, kinds, schedules, submit, unsettled }
  from './lib/seed.mjs';

await launch();
await kinds();
const { gaps, dates } = await schedules();
const p = await person('operator');
const at = '/ui/schedules/bills';


// --- schedules ------------------------------------------------------------------

await p.goto(given.url + at);
await p.locator('table.calendar button').first().waitFor();
const words = await p.locator('table.calendar').innerText();
like(words, /gap[^]*done|done[^]*gap/,
  'the calendar says gap and done in words');
await axe(p, 'axe: a schedule with its calendar');

await act(p, null, 'Pause', { verb: 'schedule_pause',
  says: /No slot of bills fires.*3 subjects/s });
is(await sql(`select paused from interlock.schedules where name = 'bills'`),
  [['t']], 'it is paused');
await act(p, null, 'Resume', { verb: 'schedule_resume',
  says: /goes on with its next slot/ });
is(await sql(`select paused from interlock.schedules where name = 'bills'`),
  [['f']], 'and goes on');

await act(p, null, 'Run a date …', { verb: 'schedule_run',
  fill: { date: '2026-03-01', subjects: 'ash\nbox' },
  says: /works of 2026-03-01 are queued/ });
is(await sql(`select work_key from interlock.works
  where work_key like 'bill:%:2026-03-01' order by 1`),
[['bill:ash:2026-03-01'], ['bill:box:2026-03-01']],
'one date runs, for two subjects');

const { row } = await act(p, null, 'Backfill …', { verb: 'schedule_backfill',
  fill: { from: '2026-02-01', to: '2026-02-02' }, ask: 'Make a plan',
  says: /6 works from 2026-02-01 to 2026-02-02/ });
is(await sql(`select count(*) from interlock.works
  where work_key like 'bill:%:2026-02-0_'`), [['6']],
'a range runs, by its plan');
ok(row, 'with a row in the actions');

// what failed of a date, and what has changed meanwhile
const again = await open(p, `${at}?date=${dates[0]}`, 'Run again …');
like(await what(again), /2 works would be run/, 'what failed of a date');
const other = await api('operator', 'GET',
  `/v1/schedules/bills/slots/${dates[0]}/impact`);
is((await api('operator', 'POST', `/v1/schedules/bills/slots/${dates[0]}/rerun`,
  { only: 'failed', impact_id: other.body.impact_id, requested_by: 'Kim',
    reason: 'faster' })).status, 200, '(somebody else is faster)');
await again.locator('[name="reason"]').fill('slower');
await again.locator('button[type="submit"]').click();
await again.locator('.trouble').waitFor();
like(await again.locator('.trouble').innerText(), /has changed since/,
  'the second is refused, in words');
await until(async () => /None of its works/.test(await what(again)),
  'the new impact');
ok(await again.locator('button[type="submit"]').isDisabled(),
  'and nothing of that sort is left to be run');
is(await rows('slower'), [], 'nothing was done');
await p.keyboard.press('Escape');
await act(p, `${at}?date=${dates[1]}`, 'Run again …', {
  verb: 'schedule_rerun', fill: { only: 'failed' },
  says: /1 work would be run/ });
is(await sql(`select status from interlock.jobs where rerun_of is not null
  and work_key = 'bill:ash:${dates[1]}'`), [['queued']],
'what failed of a date runs again');


// --- gaps ---------------------------------------------------------------------

const gap = async (state) => {
  const [[gap_id, work_key]] = await sql(`select g.id, g.work_key
    from interlock.gaps g
    join interlock.slots s using (tenant, schedule, slot_at, subject)
    join interlock.jobs j on j.tenant = s.tenant and j.id = s.job_id
    where g.state = 'open' and j.status = '${state}'
        and g.business_date > '${dates[1]}' order by g.work_key limit 1`);
  return { gap_id, work_key };
};
const one = await gap('failed');
const two = await gap('queued');
const busy = await open(p, '/ui/gaps?schedule=bills', 'Run it now',
  { within: two.work_key });
like(await what(busy), /under way already/, 'what is under way is said');
ok(await busy.locator('button[type="submit"]').isDisabled(),
  'and not run beside it');
await p.keyboard.press('Escape');
await act(p, null, 'Run it now', { verb: 'gap_approve',
  within: one.work_key, says: /is not done/ });
await act(p, null, 'Leave it undone', { verb: 'gap_dismiss',
  within: two.work_key, says: /nobody is told/ });
is(await sql(`select state, requested_by from interlock.gaps where id in
  ('${one.gap_id}', '${two.gap_id}') order by state`),
[['approved', 'Dana'], ['dismissed', 'Dana']], 'both gaps are decided');


// --- kinds, sources -------------------------------------------------------------

await act(p, '/ui/kinds/solo', 'Pause', { verb: 'kind_pause',
  says: /Nothing of solo is claimed.*Queued now: 0 jobs/s });
is(await sql(`select what, name from interlock.pauses`), [['kind', 'solo']],
  'a kind is paused');
await act(p, null, 'Resume', { verb: 'kind_resume',
  says: /Dana paused it/ });
is(await sql('select count(*) from interlock.pauses'), [['0']],
  'and goes on');

await p.locator('.explain [name="work_key"]').fill('a:b');
await p.getByRole('button', { name: 'What would it get?' }).click();
const note = p.locator('.explain .note');
await note.waitFor();
like(await note.innerText(), /accepted \(202\)/, 'a request is explained');

await api('operator', 'POST', '/v1/sources/github/pause',
  { requested_by: 'seed', reason: 'to resume it' });
await act(p, '/ui/config', 'Resume', { verb: 'source_resume',
  within: 'github', says: /to resume it/ });
is(await sql('select count(*) from interlock.pauses'), [['0']],
  'a source is taken again');
await axe(p);


// --- the inbox --------------------------------------------------------------------

const job = await held('inbox:job');
const effect = await unsettled('mute', 'inbox');
await act(p, '/ui/inbox', 'Assign …', { verb: 'inbox_assign',
  within: 'inbox:job', fill: { assignee: 'Kim', due: '2026-12-24T18:00' },
  says: /Kim looks after it/ });
is(await sql(`select assignee from interlock.jobs where id = '${job}'`),
  [['Kim']], 'a job of the inbox is Kim’s');
await act(p, null, 'Done already', { verb: 'job_decide',
  within: 'inbox:job', says: /counts as done/ });
is(await status(job), 'succeeded', 'a job is decided from the inbox');
await axe(p);

// the same as a command, copied from the dialog and run by sh
const reason = 'it’s "done" $(id) `id` \\ 100% <b>';
const dialog = await open(p, '/ui/inbox', 'It happened',
  { within: 'pay:inbox' });
await dialog.locator('[name="requested_by"]').fill('O\'Hara');
await dialog.locator('[name="reason"]').fill(reason);
await dialog.locator('summary').getByText('as a command').click();
const command = await dialog.locator('pre code').innerText();
ok(!command.includes(given.tokens.operator), 'no token is in the command');
const out = execFileSync('sh', ['-c', command], { encoding: 'utf8', env: {
  ...process.env, INTERLOCK_TOKEN_FILE: `${given.dir}/tokens/operator` } });
is(JSON.parse(out).state, 'confirmed', 'the command does what the button does');
is((await rows(reason)).map((r) => r[1]), ['O\'Hara'],
  'with the same name and reason, letter for letter');
await dialog.locator('button[type="submit"]').click();
await dialog.locator('.trouble').waitFor();
like(await dialog.locator('.trouble').innerText(), /Nothing was done/,
  'the button, afterwards, says that nothing was done');
await p.keyboard.press('Escape');
await owner(await claim('payer'), 'complete');


// --- an auditor ---------------------------------------------------------------------

const human = await unsettled('mute', 'audit');
const waits = await held('audit:job');
await submit('steady', 'audit:lease');
const lease = await claim('steady');
const count = async () => (await sql(
  'select count(*) from interlock.actions'))[0][0];
const actions = await count();
const a = await person('auditor');
const PAGES = ['/ui/inbox', `/ui/effects/${human.effect_id}`, '/ui/leases',
  '/ui/schedules', at, '/ui/gaps', '/ui/kinds', '/ui/kinds/solo',
  `/ui/jobs/${waits}`, '/ui/works/audit:job'];

for (const path of PAGES) {
  await a.goto(given.url + path);
  await a.locator('.act button').first().waitFor();
  // in one step: a list may be shown anew between two of them
  is(await a.evaluate(() => [...document.querySelectorAll('.act button')]
    .filter((b) => !b.disabled || !/auditor/.test(document.getElementById(
      b.getAttribute('aria-describedby'))?.textContent)).length), 0,
  `${path}: every action is disabled, with its reason`);
}
await axe(a, 'axe: a work, as an auditor sees it');

const CALLS = [`/v1/effects/${human.effect_id}/check`,
  `/v1/effects/${human.effect_id}/resolve`, `/v1/jobs/${waits}/decide`,
  `/v1/jobs/${waits}/cancel`, `/v1/jobs/${lease.job_id}/revoke`,
  '/v1/redrive', '/v1/works/audit:job/rerun', '/v1/works/audit:job/publish',
  '/v1/schedules/bills/pause', '/v1/schedules/bills/resume',
  '/v1/schedules/bills/run', '/v1/schedules/bills/backfill',
  `/v1/schedules/bills/slots/${dates[0]}/rerun`,
  `/v1/gaps/${gaps[0].gap_id}/approve`, `/v1/gaps/${gaps[0].gap_id}/dismiss`,
  '/v1/kinds/solo/pause', '/v1/kinds/solo/resume', '/v1/kinds/solo/explain',
  '/v1/sources/github/pause', '/v1/sources/github/resume',
  `/v1/inbox/${encodeURIComponent(`job:${waits}`)}/assign`];
is(await a.evaluate(async (calls) => {
  const other = [];
  for (const path of calls) {
    const r = await fetch(path, { method: 'POST', headers: {
      'Content-Type': 'application/json', 'Interlock-UI': '1' },
    body: '{"requested_by":"me","reason":"forced"}' });
    if (r.status !== 403) {
      other.push(`${path}: ${r.status}`);
    }
  }
  return other;
}, CALLS), [], `each of ${CALLS.length} calls by force is 403`);
is(await count(), actions, 'and leaves nothing');
is([await status(waits), await status(lease.job_id)], ['held', 'running'],
  'nor changes anything');
await owner(lease, 'complete');


// --- what people did ------------------------------------------------------------------

await a.goto(`${given.url}/ui/audit?by=Dana`);
await a.locator('table.rows tbody th').first().waitFor();
like(await a.locator('table.rows').innerText(), /gap dismiss/,
  'the audit lists what Dana did');
await axe(a);
await a.goto(`${given.url}/ui/audit?work_key=pay:inbox`);
await a.locator('.timeline li').first().waitFor();
like(await a.locator('.timeline').innerText(), /O'Hara/,
  'the history of one work key has it, too');
await done();
