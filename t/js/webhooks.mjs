// Verifies webhooks by the Standard Webhooks library: on each line of standard
// input { secret, headers, body }, on each of standard output ok or why not.

import { createInterface } from 'node:readline';
import { Webhook } from 'standardwebhooks';

for await (const line of createInterface({ input: process.stdin })) {
  const { secret, headers, body } = JSON.parse(line);
  try {
    new Webhook(secret).verify(body, headers);
    console.log('ok');
  } catch (error) {
    console.log(`${error.name}: ${error.message}`);
  }
}
