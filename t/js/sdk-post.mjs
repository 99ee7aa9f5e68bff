// sdk-post.mjs URL DIR: posts to the sample locations what each provider's own
// library signs, and what is signed for the libraries that only verify.  One
// JSON line for each delivery: what, source, url, status and text of the
// answer, and, in base64, the bytes that are to be stored (for a body that is
// split: those of each element).

import { createHmac, createPrivateKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { hmacValidator as AdyenValidator } from '@adyen/api-library';
import { Signature as HubSpot } from '@hubspot/api-client';
import { sign as githubSign } from '@octokit/webhooks-methods';
import { Webhook as Standard } from 'standardwebhooks';
import Stripe from 'stripe';
import { Webhook as Svix } from 'svix';
import nacl from 'tweetnacl';
import twilio from 'twilio';

const [base, dir] = process.argv.slice(2);
const secret = (name) =>
  readFileSync(`${dir}/secrets/${name}`, 'utf8').split('\n')[0];
const hmac = (source, text, encoding) =>
  createHmac('sha256', secret(source)).update(text).digest(encoding);

async function post(what, source, url, headers, body, stored = [body]) {
  const res = await fetch(url, { method: 'POST', body,
    headers: { 'content-type': 'application/json', ...headers } });
  console.log(JSON.stringify({ what, source, url, status: res.status,
    text: await res.text(),
    stored: stored.map((s) => Buffer.from(s).toString('base64')) }));
}

// What a second encoding would lose, each as the inside of a JSON object.

const TEXTS = {
  plain: '"a":1',
  'spaces and numbers': ' "a" :  1.10, "b":9007199254740993 ,"c":1e2 ',
  'an escaped slash': '"a":"https:\\/\\/example.com\\/"',
  'escapes in lower case': '"a":"\\u00e9\\ud83d\\ude00"',
  'escapes in upper case': '"a":"\\u00E9\\uD83D\\uDE00"',
  emoji: '"a":"caf\u00e9 \u{1f680}\u{1f468}\u200d\u{1f469}"',
  CRLF: '\r\n  "a": "b"\r\n',
  'NUL, escaped': '"a":"x\\u0000y"',
  'a name twice': '"a":1,"a":2',
};

const bodies = (id) => [
  ...Object.entries(TEXTS).map(([what, text], n) =>
    [what, `{${id(n)},${text}}`]),
  ['a trailing newline', `{${id('n')}}\n`],
  ['two trailing CRLF', `{${id('r')}}\r\n\r\n`],
];

// Where no key is taken from the body, it need not be JSON.

const anyBodies = (id) => [...bodies(id),
  ['a byte order mark', `\ufeff{${id('bom')}}`],
  ['NUL', `{${id('nul')}}\0\0`],
  ['no JSON', 'a=b&c=\r\n'],
];

const json = (name, prefix) => (n) => `"${name}":"${prefix}_${n}"`;

for (const [what, body] of anyBodies(json('id', 'gh'))) {
  await post(what, 'github', `${base}/in/github`, {
    'x-github-event': 'issues', 'x-github-delivery': `sdk-${what.length}-${
      Buffer.from(body).toString('hex').slice(-24)}`,
    'x-hub-signature-256': await githubSign(secret('github'), body),
  }, body);
}

const stripe = new Stripe('sk_test_unused');
for (const [what, body] of bodies(json('id', 'evt'))) {
  await post(what, 'stripe', `${base}/in/stripe`, {
    'stripe-signature': stripe.webhooks.generateTestHeaderString({
      payload: body, secret: secret('stripe') }),
  }, body);
}

for (const [prefix, Library] of [['webhook', Standard], ['svix', Svix]]) {
  const library = new Library(secret('standard'));
  let n = 0;
  for (const [what, body] of anyBodies(json('id', prefix))) {
    const [id, at] = [`msg_${prefix}_${++n}`, new Date()];
    await post(`${prefix}: ${what}`, 'standard', `${base}/in/standard`, {
      [`${prefix}-id`]: id,
      [`${prefix}-timestamp`]: String(Math.floor(at.getTime() / 1000)),
      [`${prefix}-signature`]: library.sign(id, at, body),
    }, body);
  }
}

// A form: names are sorted, a name that is repeated has its values sorted and
// once.  Twilio's own URL is signed as it is, escapes and all.

const twilioToken = secret('twilio');
const forms = [
  [['Body', 'Hello!'], ['From', '+15551230000'], ['MessageSid', 'SM1']],
  [['b', '2'], ['B', '1'], ['a', ''], ['b', '10'], ['b', '2']],
  [['Body', 'caf\u00e9 \u{1f680}\r\n& = + %'], ['Empty', '']],
];
let n = 0;
for (const query of ['', '?a=%2F&b=c%20d', '?a=b&a=c']) {
  const url = `${base}/in/twilio${query}`;
  for (const form of forms) {
    const fields = [...form, ['N', String(++n)]];
    const params = {};
    for (const [name, value] of fields) {
      params[name] = name in params ? [params[name], value].flat() : value;
    }
    const body = new URLSearchParams(fields).toString();
    await post(`form ${n}${query}`, 'twilio', url, {
      'content-type': 'application/x-www-form-urlencoded',
      'i-twilio-idempotency-token': `tw-${n}`,
      'x-twilio-signature':
        twilio.getExpectedTwilioSignature(twilioToken, url, params),
    }, `${body}${'&'.repeat(n % 2)}`);
  }
}
for (const [what, body] of anyBodies(json('id', 'tw'))) {
  const url = `${base}/in/twilio?bodySHA256=${
    twilio.getExpectedBodyHash(body)}`;
  await post(`JSON: ${what}`, 'twilio', url, {
    'i-twilio-idempotency-token': `tw-${++n}`,
    'x-twilio-signature':
      twilio.getExpectedTwilioSignature(twilioToken, url, {}),
  }, body);
}

// Adyen signs eight fields of each item, so the rest of an item is anything.

const adyen = new AdyenValidator();
const adyenItem = (psp, more, fields = {}) => {
  const item = { additionalData: {}, amount: { currency: 'EUR', value: 1130 },
    eventCode: 'AUTHORISATION', merchantAccountCode: 'Shop',
    merchantReference: `a:b\\${psp}`, pspReference: psp, success: 'true',
    ...fields };
  item.additionalData.hmacSignature =
    adyen.calculateHmac(item, secret('adyen'));
  const text = JSON.stringify(item);
  return `{ "NotificationRequestItem" :${text.slice(0, -1)}${more}}\n}`;
};
const adyenBodies = [
  [adyenItem('PSP1', '')],
  [adyenItem('PSP2', ',"x":"\\u00e9\\/\u{1f680}"', {
    merchantReference: 'caf\u00e9 \u{1f680}',
    originalReference: 'PSP1', eventCode: 'CAPTURE', success: 'false' }),
  adyenItem('PSP3', ',"x":1.10', { amount: { currency: 'JPY', value: 0 } })],
];
for (const [i, items] of adyenBodies.entries()) {
  await post(`${i + 1} items`, 'adyen', `${base}/in/adyen`, {},
    `{"live":"false","notificationItems":[${items.join(' , ')}]}\n`, items);
}
for (const [what, body] of bodies(json('id', 'bal'))) {
  await post(what, 'adyen-balance', `${base}/in/adyen-balance`, {
    hmacsignature: adyen.calculateHmac(body, secret('adyen')) }, body);
}

// HubSpot's elements, and a URL with escapes, which its library signs as the
// caller gives it.

n = 0;
for (const query of ['', '?a=%2F%3A&b=c%20d']) {
  const url = `${base}/in/hubspot${query}`;
  const at = Date.now();
  const events = Object.values(TEXTS).map((text) =>
    `{"eventId":${++n},"subscriptionId":7,"occurredAt":${at},${text}}`);
  const body = `[ ${events.join('\n, ')}]\r\n`;
  await post(`events${query}`, 'hubspot', url, {
    'x-hubspot-request-timestamp': String(at),
    'x-hubspot-signature-v3': HubSpot.getSignature('POST', 'v3', {
      clientSecret: secret('hubspot'), requestBody: body, url,
      timestamp: at }),
  }, body, events);
}

// Discord's key pair: TweetNaCl has no PEM, but makes the pair of its seed.

const pem = createPrivateKey(readFileSync(`${dir}/senders/discord.pem`));
const pair = nacl.sign.keyPair.fromSeed(
  Buffer.from(pem.export({ format: 'jwk' }).d, 'base64url'));
for (const [what, body] of bodies(json('id', 'dc'))) {
  const at = String(Math.floor(Date.now() / 1000));
  await post(what, 'discord', `${base}/in/discord`, {
    'x-signature-timestamp': at,
    'x-signature-ed25519': Buffer.from(nacl.sign.detached(
      Buffer.from(at + body), pair.secretKey)).toString('hex'),
  }, body);
}

// These have libraries that verify only (see sdk-verify.mjs).  Paddle's takes
// what is at most 5 s old, Linear's what is within a minute: those come from a
// sender whose clock is ahead, so that a slow machine may take its time.

for (const [what, body] of bodies(json('event_id', 'sq'))) {
  await post(what, 'square', `${base}/in/square`, {
    'x-square-hmacsha256-signature':
      hmac('square', `${base}/in/square${body}`, 'base64') }, body);
}

const later = (seconds) => Math.floor(Date.now() / 1000) + seconds;

for (const [what, body] of bodies(json('event_id', 'evt'))) {
  const at = later(200);
  await post(what, 'paddle', `${base}/in/paddle`, { 'paddle-signature':
    `ts=${at};h1=${hmac('paddle', `${at}:${body}`, 'hex')}` }, body);
}

n = 0;
for (const [what, body] of anyBodies(json('id', 'shop'))) {
  await post(what, 'shopify', `${base}/in/shopify`, {
    'x-shopify-webhook-id': `shop-${++n}`, 'x-shopify-topic': 'orders/create',
    'x-shopify-api-version': '2025-07',
    'x-shopify-shop-domain': 'shop.myshopify.com',
    'x-shopify-hmac-sha256': hmac('shopify', body, 'base64') }, body);
}

n = 0;
for (const [what, body] of bodies((i) =>
  `"id":"lin_${i}","webhookTimestamp":${later(45)}000`)) {
  await post(what, 'linear', `${base}/in/linear`, {
    'linear-delivery': `lin-${++n}`, 'linear-event': 'Issue',
    'linear-signature': hmac('linear', body, 'hex') }, body);
}
