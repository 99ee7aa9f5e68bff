import { api, axe, claim, complained, done, given, is, launch, like, ok, owner,
  page, shot, sql, until, violations } from './lib/browser.mjs';

await launch();
is(given.word, 'bird', 'what the test gives arrives');

const p = await page();
await p.goto(`${given.url}/t/page`);
is(await p.textContent('h1'), 'It is here', 'a page of the instance');
is(await p.title(), 'A page', 'an inline script does not run');
ok(await until(() => complained(/Content Security Policy/), 'the complaint'),
  'and its complaint is seen');

like((await violations(p)).join(' '), /image-alt/, 'axe finds what is wrong');
const fine = await page({ in: p });
await fine.goto('data:text/html,<!DOCTYPE html><html lang=en>'
  + '<title>Fine</title><main><h1>Fine</h1></main>');
await axe(fine, 'and nothing where nothing is');

await shot(p, 'harness');

const made = await api('submit', 'POST', '/v1/jobs',
  { kind: 'free', work_key: 'browser:1' });
is(made.status, 202, 'a job by the API');
const lease = await claim('free');
is((await owner(lease, 'complete', {})).status, 200, 'claimed and done');
is(await sql(`select status, null from interlock.jobs
  where id = '${made.body.job_id}'`), [['succeeded', null]], 'so says SQL');
like(lease.owner_token, /^v4\.public\./, 'by its token');

await done();
