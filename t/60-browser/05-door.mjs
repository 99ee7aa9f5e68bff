// The door of the pages: login, logout, and a page of another site.

import http from 'node:http';
import { axe, complained, context, done, given, is, launch, like, ok, page, shot,
  until } from './lib/browser.mjs';

await launch();

const where = (p) => p.url().slice(given.url.length);
const cookies = (p) => p.context().cookies(given.url);

async function enter(p, role) {
  await p.fill('#token', given.tokens[role]);
  await p.keyboard.press('Enter');
}


// --- in, by the keyboard alone ----------------------------------------------

let p = await page();
await p.goto(`${given.url}/ui/jobs?status=failed`);
is(where(p), '/ui/login?next=/ui/jobs?status=failed', 'to the login page');
is(await p.title(), 'Log in – interlock', 'which says so');
is(await p.evaluate(() => document.activeElement.id), 'token',
  'the field has the focus');
await axe(p);
await shot(p, 'login');

await p.keyboard.type('not-a-token');
await p.keyboard.press('Tab');
is(await p.evaluate(() => document.activeElement.textContent), 'Log in',
  'Tab goes to the button');
await p.keyboard.press('Enter');
await p.waitForSelector('[role=alert]');
like(await p.textContent('[role=alert]'), /not valid/, 'a wrong token, in words');
is(where(p), '/ui/login?next=/ui/jobs?status=failed',
  'and the way is not forgotten');
is(await p.inputValue('#token'), '', 'what was typed is gone');
await axe(p);
await shot(p, 'login-failed');

await enter(p, 'submit');
await p.waitForFunction(() => /for programs/.test(
  document.querySelector('[role=alert]')?.textContent));
ok(true, 'a token for programs, in words');
is((await cookies(p)).length, 0, 'no cookie yet');

await enter(p, 'operator');
await p.waitForURL(`${given.url}/ui/jobs?status=failed`);
ok(true, 'in, and where the way was going');
const [cookie] = await cookies(p);
is([cookie.name, cookie.httpOnly, cookie.sameSite, cookie.path],
  ['interlock_session', true, 'Strict', '/'], 'the cookie');
is(await p.evaluate(() => document.cookie), '', 'that no script sees');
is(await p.evaluate(() => JSON.stringify([localStorage.length,
  sessionStorage.length]).includes('ilk_')), false, 'nor is the token kept');


// --- a link of another site -------------------------------------------------

const forms = ['/ui/logout', '/ui/login', '/v1/kinds/free/pause',
  '/v1/kinds/free/resume', '/v1/redrive', '/v1/jobs'];
const server = http.createServer((request, response) => {
  response.setHeader('content-type', 'text/html');
  response.end(`<!DOCTYPE html><title>Another site</title>
    <a id="link" href="${given.url}/ui/works?prefix=a">look</a>
    ${forms.map((path, n) => `<form id="f${n}" method="post" target="frame"
      enctype="${n < 2 ? 'application/x-www-form-urlencoded' : 'text/plain'}"
      action="${given.url}${path}"><input name='{"requested_by":"x","reason":"'
      value='y"}'><input name="token" value="${given.tokens.auditor}">
      </form>`).join('')}
    <iframe name="frame"></iframe>`);
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
// another site: "localhost" and "127.0.0.1" are two
const port = server.address().port;
const elsewhere = `http://localhost:${port}/`;

await p.goto(elsewhere);
await p.click('#link');
await p.waitForURL(`${given.url}/ui/works?prefix=a`);
ok(true, 'a link of another site leads in, although the cookie is not sent');


// --- what another site's page attempts --------------------------------------

// the neighbour: another port of this very host, to which the browser sends
// the cookie (ports are one site)
for (const [name, base] of [['another site', elsewhere],
  ['a neighbour', `http://127.0.0.1:${port}/`]]) {
  const q = await page({ in: p });
  const statuses = [];
  q.on('response', (r) => {
    if (r.url().startsWith(given.url) && r.request().method() === 'POST') {
      statuses.push(r.status());
    }
  });
  await q.goto(base);
  for (let n = 0; n < forms.length; n++) {
    await q.evaluate((id) => document.getElementById(id).submit(), `f${n}`);
    await until(() => statuses.length === n + 1,
      `${name}: the form to ${forms[n]} is answered`);
  }
  is(statuses.map((s) => (s === 401 || s === 403 ? 'no' : s)),
    forms.map(() => 'no'), `${name}: its forms are refused`);

  const read = await q.evaluate(async (url) => {
    const tried = [];
    for (const [method, path, options] of [
      ['GET', '/ui/session', {}], ['GET', '/v1/kinds', {}],
      ['GET', '/v1/kinds', { mode: 'no-cors' }],
      ['POST', '/v1/kinds/free/pause', { mode: 'no-cors',
        body: '{"requested_by":"x","reason":"y"}' }],
      ['POST', '/v1/kinds/free/pause', { headers: { 'Interlock-UI': '1' },
        body: '{"requested_by":"x","reason":"y"}' }],
      ['PUT', '/v1/kinds/forged', { headers: { 'Interlock-UI': '1' },
        body: '{}' }],
      ['DELETE', '/v1/kinds/free', {}]]) {
      try {
        const r = await fetch(url + path, { method, credentials: 'include',
          ...options });
        tried.push(r.type === 'opaque' ? 'unread' : `${r.status}`);
      } catch {
        tried.push('unread');
      }
    }
    return tried;
  }, given.url);
  is(read, read.map(() => 'unread'), `${name}: its scripts read nothing`);

  // nor by a frame, nor as a script
  await q.evaluate((url) => {
    const frame = document.createElement('iframe');
    frame.src = `${url}/ui/`;
    frame.id = 'pages';
    const load = new Promise((resolve) => { frame.onload = resolve; });
    document.body.append(frame);
    return load;
  }, given.url);
  is(await q.evaluate(() => {
    try {
      return document.getElementById('pages').contentDocument?.title ?? '';
    } catch {
      return '';
    }
  }), '', `${name}: no page in a frame of its own`);
  ok(!q.frames().some((f) => /Overview/.test(f.url())), 'none at all');
  await q.close();
}

ok(complained(/blocked by CORS policy/) >= 10, 'the browser says so of scripts');
ok(complained(/directive: "frame-ancestors 'none'"/) >= 2, 'and of frames');
is((await cookies(p))[0]?.value, cookie.value, 'the session is the same');
await p.reload();
is(where(p), '/ui/works?prefix=a', 'and nobody is out');


// --- out --------------------------------------------------------------------

await p.click('text=Log out');
await p.waitForURL(`${given.url}/ui/login`);
is((await cookies(p)).length, 0, 'out, and the cookie is gone');
await p.goBack();
await p.waitForURL('**/ui/login?next=*');
ok(true, 'the back button shows nothing of before');


// --- without a script, in the dark ------------------------------------------

p = await (await context({ javaScriptEnabled: false, colorScheme: 'dark',
  viewport: { width: 360, height: 640 } })).newPage();
await p.goto(`${given.url}/ui/login?next=https://evil.example/`);
await shot(p, 'login-dark');
await p.fill('#token', given.tokens.auditor);
await p.click('button');
await p.waitForURL(`${given.url}/ui/`);
ok(true, 'without a script, and not to where a stranger wants');

p = await page({ colorScheme: 'dark' });
await p.goto(`${given.url}/ui/login`);
await axe(p);

// too often
for (let n = 0; n < 10; n++) {
  await p.request.post(`${given.url}/ui/login`, { form: { token: 'wrong' },
    headers: { origin: given.url } });
}
await enter(p, 'operator');
await p.waitForSelector('[role=alert]');
like(await p.textContent('[role=alert]'), /too many failed attempts/,
  'too many attempts, in words');

server.close();
await done();
