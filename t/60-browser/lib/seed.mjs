// Work in every state that a person decides about, made by the API as a user
// would make it; only time is not waited for.
//
//   const s = await seed();    // s.jobs.held, s.effects.human, s.gaps …

import { api, claim, owner, sql, until } from './browser.mjs';

async function must(promise, code = 299) {
  const answer = await promise;
  if (answer.status > code) {
    throw new Error(`${answer.status}: ${JSON.stringify(answer.body)}`);
  }
  return answer.body;
}

export const put = (path, body) => must(api('operator', 'PUT', path, body));

export const submit = (kind, key, more = {}) => must(api('submit', 'POST',
  '/v1/jobs', { kind, work_key: key, ...more }));

// run(kind, key, verb, body): a job that is claimed and ended so
export async function run(kind, key, verb, body) {
  await submit(kind, key, { payload: { n: 1 } });
  const lease = await claim(kind);
  await must(owner(lease, verb, body));
  return lease.job_id;
}

// effect(lease, kind, name): begun, and sent as far as anybody knows
export const effect = (lease, kind, name) => must(api(lease.owner_token,
  'POST', '/v1/effects', { name, kind, target: `https://pay.test/${name}` }));

export const outcome = (lease, e, state, more = {}) => must(api(
  lease.owner_token, 'POST', `/v1/effects/${e.effect_id}/outcome`,
  { send_id: e.send_id, state, ...more }));

// behind(name, interval): as if nobody had looked at it for so long
export const behind = (name, interval) => sql(`
  begin;
  set local session_replication_role = replica;
  update interlock.schedules s
  set since = least(s.since, clock_timestamp() - interval '${interval}'),
      scanned_to = clock_timestamp() - interval '${interval}',
      next_at = interlock.schedule_next(v, clock_timestamp()
          - interval '${interval}')
  from interlock.schedule_versions v
  where s.name = '${name}' and v.tenant = s.tenant and v.name = s.name
      and v.version = s.version;
  commit;`);

export async function kinds() {
  await put('/v1/kinds/solo', { overlap: 'skip', max_attempts: 1,
    on_lost: 'hold', lease_seconds: 3600, when_completed: 'run' });
  await put('/v1/kinds/plain', { overlap: 'skip', when_completed: 'run' });
  await put('/v1/kinds/steady', { overlap: 'allow', on_lost: 'retry',
    lease_seconds: 3600, limits: ['crm'] });
  await put('/v1/kinds/line', { overlap: 'buffer_all', max_waiting: 1,
    overflow: 'park', lease_seconds: 3600, limits: ['crm'] });
  await put('/v1/kinds/payer', { overlap: 'skip', effect_scope: 'work',
    lease_seconds: 3600, max_attempts: 5 });
  await put('/v1/kinds/night', { overlap: 'buffer_one', max_attempts: 1,
    when_completed: 'return', lease_seconds: 3600 });
  await put('/v1/effect-kinds/mute', { idempotent: false, send_deadline: 1 });
  await put('/v1/effect-kinds/asked', { idempotent: true, send_deadline: 1,
    check_delay: 86000, max_checks: 9, lookup: { type: 'worker' } });
  await put('/v1/limits/crm', { capacity: 4 });
  await put('/v1/limits/mail', { capacity: 4, start_rate: 5 });
}

// A job of solo that lost its lease, and so is held.
export async function held(key) {
  await submit('solo', key);
  const lease = await claim('solo');
  await must(api('operator', 'POST', `/v1/jobs/${lease.job_id}/revoke`,
    { requested_by: 'seed', reason: 'to have one that is held' }));
  return lease.job_id;
}

// An effect whose owner is gone without a word: a person's, or looked up.
export async function unsettled(kind, name) {
  await submit('payer', `pay:${name}`);
  const lease = await claim('payer');
  const e = await effect(lease, kind, name);
  await outcome(lease, e, 'unknown', { detail: 'timed out' });
  await must(owner(lease, 'fail', { error: 'the provider timed out' }));
  return { effect_id: e.effect_id, job_id: lease.job_id };
}

export async function effects() {
  const out = {};
  for (const name of ['happened', 'not-happened', 'send-again', 'spare']) {
    out[name] = await unsettled('mute', name);
  }
  out.asked = await unsettled('asked', 'asked');

  await submit('payer', 'pay:done');
  const lease = await claim('payer');
  const e = await effect(lease, 'asked', 'done');
  await outcome(lease, e, 'confirmed', { provider_ref: 'ch_12345',
    response: { id: 'ch_12345', amount: 10 } });
  await must(owner(lease, 'complete', { result: { paid: true } }));
  out.confirmed = { effect_id: e.effect_id, job_id: lease.job_id };
  return out;
}

// What becomes of the works of a schedule's four dates, by subject; the others
// wait.
const FATES = [
  { ash: true, box: false, cob: false }, { ash: false, box: true, cob: true },
  { box: false }, {},
];

// A schedule with works that are done, failed and still to be done.
export async function schedules() {
  await put('/v1/schedules/bills', { cron: '0 3 * * *', zone: 'UTC',
    kind: 'night', work_key: 'bill:{subject}:{date}', grace: 0,
    catch_up: 'all', subjects: ['ash', 'box', 'cob'] });
  // its last four dates, whatever the time of day is
  const since = (Date.now() / 3600e3 - 3) % 24;
  await behind('bills', `${Math.round((73 + since) * 3600)} seconds`);
  // (both would be looked at later)
  const lost = await until(async () => {
    await sql(`select 1 from interlock.schedule_scan(500);
      begin;
      set local session_replication_role = replica;
      update interlock.slots set check_at = clock_timestamp()
      where schedule = 'bills' and check_at > clock_timestamp();
      commit;
      select 1 from interlock.gap_scan(500);`);
    const { body } = await api('operator', 'GET', '/v1/gaps?schedule=bills');
    return body.items.length === 12 ? body.items : null;
  }, 'gaps', 30);
  const dates = [...new Set(lost.map((g) => g.business_date))].sort();
  const leases = [];
  for (let n = 0; n < lost.length; n++) {
    leases.push(await claim('night'));
  }
  for (const lease of leases) {
    const [, subject, date] = lease.work_key.split(':');
    const fate = FATES[dates.indexOf(date)][subject];
    await must(fate === undefined ? owner(lease, 'release')
      : fate ? owner(lease, 'complete', { result: { subject },
        counts: { processed: 10, failed: 0 } })
        : owner(lease, 'fail', { error: `no such customer: ${subject}`,
          retryable: false }));
  }
  return { gaps: lost, dates };
}

export async function seed() {
  const s = { jobs: {} };

  await kinds();
  s.jobs.queued = (await submit('solo', 'job:queued')).job_id;
  await must(api('operator', 'POST', `/v1/jobs/${s.jobs.queued}/cancel`,
    { requested_by: 'seed', reason: 'out of the way' }));
  for (const name of ['retry', 'succeed', 'fail', 'release', 'inbox']) {
    s.jobs[name] = await held(`held:${name}`);
  }
  for (const name of ['redrive', 'again', 'bulk-1', 'bulk-2']) {
    s.jobs[name] = await run('solo', `failed:${name}`, 'fail',
      { error: `the CRM said no to ${name}`, retryable: false });
  }

  await submit('line', 'line:one');
  s.lease = await claim('line');
  await must(owner(s.lease, 'progress', { progress: { done: 3, total: 10,
    note: 'third page' }, step: 'pages' }));
  await submit('line', 'line:one');
  s.jobs.parked = (await submit('line', 'line:one')).job_id;
  s.jobs['parked-too'] = (await submit('line', 'line:one')).job_id;

  await run('steady', 'doc:1', 'complete', { result: { text: 'first' },
    counts: { processed: 1, failed: 0 } });
  s.jobs.second = await run('steady', 'doc:1', 'complete',
    { result: { text: 'second', big: 1 } });
  await run('payer', 'again:1', 'complete', { result: 1 });
  await run('payer', 'changed:1', 'complete', { result: 1 });

  await submit('steady', 'run:revoke');
  s.revoke = await claim('steady');
  await submit('steady', 'run:cancel');
  s.cancel = await claim('steady');
  s.jobs.waiting = (await submit('solo', 'job:waiting')).job_id;

  s.effects = await effects();
  Object.assign(s, await schedules());
  return s;
}
