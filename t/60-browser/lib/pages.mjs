// Every page of the operators', opened as a person would, and looked at.

import { context, given } from './browser.mjs';

const enc = encodeURIComponent;

// lists: the pages that show many things, by name
export const lists = [['overview', '/ui/'], ['inbox', '/ui/inbox'],
  ['requests', '/ui/requests'], ['works', '/ui/works'], ['jobs', '/ui/jobs'],
  ['leases', '/ui/leases'], ['effects', '/ui/effects'],
  ['schedules', '/ui/schedules'], ['gaps', '/ui/gaps'],
  ['kinds', '/ui/kinds'], ['limits', '/ui/limits'], ['audit', '/ui/audit'],
  ['config', '/ui/config'], ['search', '/ui/search?q=rows%3A1']];

// details(rows): the pages about one thing, of what Interlock::Rows has made
export function details(rows) {
  return [
    ...Object.entries(rows.jobs ?? {}).map(([status, id]) => [
      `job-${status}`, `/ui/jobs/${id}`]),
    ...(rows.works ?? []).map((key, n) => [`work-${n + 1}`,
      `/ui/works/${enc(key)}`]),
    ...Object.entries(rows.effects ?? {}).map(([state, id]) => [
      `effect-${state}`, `/ui/effects/${id}`]),
    ...(rows.schedule ? [['schedule', `/ui/schedules/${rows.schedule}`]] : []),
    ...(rows.kind ? [['kind', `/ui/kinds/${rows.kind}`]] : []),
    ...(rows.works ?? []).slice(0, 2).map((key, n) => [`audit-${n + 1}`,
      `/ui/audit?work_key=${enc(key)}`]),
    ...(rows.works ?? []).slice(0, 2).map((key, n) => [`search-${n + 1}`,
      `/ui/search?q=${enc(key)}`]),
  ];
}

// person(role, options): somebody who is logged in; a page of his that counts
// what it still waits for
export async function person(role, options = {}) {
  const where = await context({ viewport: { width: 1280, height: 900 },
    reducedMotion: 'reduce', ...options });
  const answer = await where.request.post(`${given.url}/ui/login`, {
    headers: { Origin: given.url }, form: { token: given.tokens[role] },
    maxRedirects: 0 });
  if (answer.status() !== 303) {
    throw new Error(`login: ${answer.status()}`);
  }
  const page = await where.newPage();
  const open = new Set();
  page.on('request', (r) => {
    // an event stream does not end
    if (!r.url().includes('/v1/events')) {
      open.add(r);
    }
  });
  page.on('requestfinished', (r) => open.delete(r));
  page.on('requestfailed', (r) => open.delete(r));
  page.on('framenavigated', () => open.clear());
  page.waits = () => open.size;
  return page;
}

// visit(page, path): opens it and waits until all of it is there; answers
// { paint: ms to the first contentful paint, whole: ms, trouble: what the page
// says went wrong, or null }
export async function visit(page, path) {
  const began = Date.now();
  await page.goto(given.url + path, { waitUntil: 'load' });
  let quiet = 0;
  while (quiet < 3) {
    const ready = page.waits() === 0 && await page.evaluate(() =>
      document.querySelector('#page')?.childElementCount > 0
      && document.querySelector('.skeleton, #page [aria-busy="true"]')
        === null);
    quiet = ready ? quiet + 1 : 0;
    if (Date.now() - began > 20000) {
      throw new Error(`${path} is not there after 20 s: ${page.waits()} `
        + 'requests are open');
    }
    await new Promise((wake) => setTimeout(wake, 30));
  }
  const whole = Date.now() - began;
  const { paint, trouble } = await page.evaluate(() => ({
    paint: performance.getEntriesByName('first-contentful-paint')[0]
      ?.startTime ?? null,
    trouble: [...document.querySelectorAll('#page .problem, '
      + '#page .trouble')]
      .filter((n) => n.checkVisibility()).map((n) => n.innerText)
      .join(' / ') || null,
  }));
  return { paint, whole, trouble };
}
