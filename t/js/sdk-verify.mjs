// sdk-verify.mjs DIR: on each line of standard input what a worker knows of a
// job: { source, url, headers, payload (base64) }; on each of standard output
// ok, or why the provider's own library does not take it.

import { readFileSync } from 'node:fs';
import { parse } from 'node:querystring';
import { createInterface } from 'node:readline';
import { hmacValidator as AdyenValidator } from '@adyen/api-library';
import { LinearWebhookClient } from '@linear/sdk/webhooks';
import { verify as githubVerify } from '@octokit/webhooks-methods';
import { Paddle } from '@paddle/paddle-node-sdk';
import '@shopify/shopify-api/adapters/node';
import { ApiVersion, LogSeverity, shopifyApi } from '@shopify/shopify-api';
import { WebhooksHelper as Square } from 'square';
import { Webhook as Standard } from 'standardwebhooks';
import Stripe from 'stripe';
import { Webhook as Svix } from 'svix';
import nacl from 'tweetnacl';
import twilio from 'twilio';

const dir = process.argv[2];
const secret = (name) =>
  readFileSync(`${dir}/secrets/${name}`, 'utf8').split('\n')[0];

const adyen = new AdyenValidator();
const linear = new LinearWebhookClient(secret('linear'));
const paddle = new Paddle('unused');
const stripe = new Stripe('sk_test_unused');
const standard = new Standard(secret('standard'));
const svix = new Svix(secret('standard'));
const shopify = shopifyApi({
  apiKey: 'unused', apiSecretKey: secret('shopify'), scopes: [],
  apiVersion: ApiVersion.July25, hostName: 'localhost', isEmbeddedApp: false,
  logger: { level: LogSeverity.Error },
});

// svix parses what it verified; a body that is no JSON is verified all the
// same, and only the parser's complaint is of no interest here.
function parsed(call) {
  try {
    call();
    return true;
  } catch (error) {
    if (error instanceof SyntaxError) return true;
    throw error;
  }
}

const VERIFY = {
  adyen: ({ text }) => adyen.validateHMAC(
    JSON.parse(text).NotificationRequestItem, secret('adyen')),
  'adyen-balance': ({ h, text }) =>
    adyen.validateHMACSignature(secret('adyen'), h.hmacsignature, text),
  discord: ({ h, payload }) => nacl.sign.detached.verify(
    Buffer.concat([Buffer.from(h['x-signature-timestamp']), payload]),
    Buffer.from(h['x-signature-ed25519'], 'hex'),
    Buffer.from(secret('discord'), 'hex')),
  github: ({ h, text }) =>
    githubVerify(secret('github'), text, h['x-hub-signature-256']),
  linear: ({ h, payload }) => linear.verify(payload, h['linear-signature'],
    linear.parseData(payload, h['linear-signature']).webhookTimestamp),
  paddle: ({ h, text }) => paddle.webhooks.isSignatureValid(text,
    secret('paddle'), h['paddle-signature']),
  shopify: async ({ h, text }) => {
    const rawRequest = { method: 'POST', url: '/in/shopify', headers: h };
    const said = await shopify.webhooks.validate({ rawBody: text, rawRequest,
      rawResponse: {} });
    return said.valid || said.reason;
  },
  square: ({ h, text, url }) => Square.verifySignature({ requestBody: text,
    signatureHeader: h['x-square-hmacsha256-signature'],
    signatureKey: secret('square'), notificationUrl: url }),
  standard: ({ h, payload }) => ('svix-id' in h
    ? parsed(() => svix.verify(payload, h))
    : parsed(() => standard.verify(payload, h))),
  stripe: ({ h, payload }) => stripe.webhooks.constructEvent(payload,
    h['stripe-signature'], secret('stripe')).id.startsWith('evt_'),
  twilio: ({ h, text, url }) => (url.includes('bodySHA256=')
    ? twilio.validateRequestWithBody(secret('twilio'),
      h['x-twilio-signature'], url, text)
    : twilio.validateRequest(secret('twilio'), h['x-twilio-signature'], url,
      parse(text))),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { source, url, headers: h, payload: base64 } = JSON.parse(line);
  const payload = Buffer.from(base64, 'base64');
  try {
    const said = await VERIFY[source]({ h, url, payload,
      text: payload.toString('utf8') });
    console.log(said === true ? 'ok' : `it says ${said}`);
  } catch (error) {
    console.log(`${error.name}: ${error.message.split('\n')[0]}`);
  }
}
