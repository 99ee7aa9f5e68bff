// Verifies an owner token with an independent PASETO library, by the public
// key that the server publishes.  Prints the claims as JSON.

import { verify } from 'paseto-ts/v4';

const [key, token] = process.argv.slice(2);
const { payload, footer } = verify(key, token);
console.log(JSON.stringify({ payload, footer }));
