// What the tests of the button share: kinds, tickets, pages with buttons.

import { writeFileSync } from 'node:fs';
import { api, given, is, sql, until } from './browser.mjs';

// kind(name, policy): puts it
export async function kind(name, policy = {}) {
  const { status } = await api('operator', 'PUT', `/v1/kinds/${name}`,
    { overlap: 'skip', lease_seconds: 30, ...policy });
  if (status !== 200 && status !== 201) {
    throw new Error(`PUT of kind ${name}: ${status}`);
  }
}

// ticket(kind, work_key, more): as a site's server gets one
export async function ticket(of, key, more = {}) {
  const { status, body } = await api('submit', 'POST', '/v1/tickets',
    { kind: of, work_key: key, user: 'ann', seconds: 600, ...more });
  if (status !== 200 && status !== 201) {
    throw new Error(`POST of a ticket: ${status} ${JSON.stringify(body)}`);
  }
  return body.ticket;
}

// button(kind, ticket, attributes): its HTML, with the form inside
export function button(of, signed, attributes = '') {
  return `<interlock-button kind="${of}" ticket="${signed}" ${attributes}>
<form method="post" action="/button/${of}">
<input type="hidden" name="ticket" value="${signed}">
<input type="hidden" name="idempotency_key" value="form-${Math.random()}">
<button>Make it</button></form></interlock-button>`;
}

// put(name, body, script): a page of the instance, at /t/NAME.html; its address
export function put(name, body, script = '/interlock-button.js') {
  writeFileSync(`${given.pages}/${name}.html`, `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>${name}</title>
<link rel="icon" href="data:,">
<script type="module" src="${script}"></script></head>
<body><main><h1>${name}</h1>${body}</main></body></html>`);
  return `${given.url}/t/${name}.html`;
}

// at(page): the button of a page, or its nth
export function at(page, n = 0) {
  const host = page.locator('interlock-button').nth(n);
  const part = (name) => host.locator(`[part=${name}]`);
  return {
    host,
    press: part('button'),
    link: part('link'),
    reload: part('reload'),
    progress: part('progress'),
    // (playwright would wait for a button that is aria-disabled)
    again: () => part('button').click({ force: true }),
    words: () => part('status').textContent(),
    heard: () => part('heard').textContent(),
    state: () => host.getAttribute('state'),
    waits: async () => await part('button').getAttribute('aria-disabled')
      === 'true',
    // becomes(state): waits for it; the words that are then there
    async becomes(state, seconds = 30) {
      let seen;
      await until(async () => {
        seen = await host.getAttribute('state');
        return seen === state;
      }, `a button to become ${state}`, seconds).catch((error) => {
        throw new Error(`${error.message}: it is ${seen}`);
      });
      return part('status').textContent();
    },
  };
}

// jobs(key): how many there are of that work, whatever became of them
export async function jobs(key) {
  return Number((await sql(`select count(*) from interlock.jobs
    where work_key = '${key}'`))[0][0]);
}

// counts(key, [jobs, keys], name): so many of that work
export async function counts(key, expected, name) {
  const [[made, keys]] = await sql(`select
    (select count(*) from interlock.jobs where work_key = '${key}'),
    (select count(distinct idempotency_key) from interlock.requests
     where work_key = '${key}')`);
  return is([Number(made), Number(keys)], expected,
    `${name}: [jobs, idempotency keys]`);
}
