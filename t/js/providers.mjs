// Posts real payloads, signed by the providers' own libraries, and prints one
// JSON line for each delivery: what, status, decision, job_id, and the SHA-256
// of the bytes that were sent.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { sign as githubSign } from '@octokit/webhooks-methods';
import Stripe from 'stripe';
import { Webhook } from 'standardwebhooks';

const [url, dir] = process.argv.slice(2);
const secret = (name) =>
  readFileSync(`${dir}/secrets/${name}`, 'utf8').split('\n')[0];

async function post(what, path, headers, body) {
  const res = await fetch(url + path, {
    method: 'POST', body,
    headers: { 'content-type': 'application/json', ...headers },
  });
  const text = await res.text();
  let jobId = null;
  try { jobId = JSON.parse(text).job_id ?? null; } catch { /* not JSON */ }
  console.log(JSON.stringify({
    what, status: res.status, job_id: jobId,
    decision: res.headers.get('interlock-decision'),
    replayed: res.headers.get('idempotency-replayed'),
    sha256: createHash('sha256').update(body).digest('hex'),
    body: res.status >= 400 ? text : undefined,
  }));
}

// Every payload of GitHub's published examples, whatever its event.

const require = createRequire(import.meta.url);
const loaded = require('@octokit/webhooks-examples');
const events = loaded.default ?? loaded;
let n = 0;

for (const { name, examples } of events) {
  for (const example of examples) {
    const body = JSON.stringify(example);
    const delivery = `octokit-${++n}`;
    await post(`github ${name} ${n}`, '/in/github', {
      'x-github-event': name,
      'x-github-delivery': delivery,
      'x-hub-signature-256': await githubSign(secret('github'), body),
    }, body);
  }
}

// Stripe signs with its own helper.  The body keeps what re-encoding would
// lose: spaces, an escaped slash, a number with a trailing zero.

const stripe = new Stripe('sk_test_unused');
for (const amount of ['1.10', '9007199254740993', '1e2']) {
  const body = `{ "id": "evt_${amount}", "type": "charge.succeeded",\n`
    + `  "url": "https:\\/\\/example.com", "amount": ${amount} }\n`;
  const header = stripe.webhooks.generateTestHeaderString({
    payload: body, secret: secret('stripe'),
  });
  await post(`stripe ${amount}`, '/in/stripe',
    { 'stripe-signature': header }, body);
}

// Standard Webhooks, and the same under Svix's header names.

const wh = new Webhook(secret('standard'));
for (const prefix of ['webhook', 'svix']) {
  const id = `msg_${prefix}`;
  const at = new Date();
  const body = '{"type":"contact.created","data":{"note":"caf\u00e9 \u{1f680}"}}';
  await post(`standard ${prefix}`, '/in/standard', {
    [`${prefix}-id`]: id,
    [`${prefix}-timestamp`]: String(Math.floor(at.getTime() / 1000)),
    [`${prefix}-signature`]: wh.sign(id, at, body),
  }, body);
}
