// bodies.mjs URL URL2 DIR OUT: posts bodies of every kind, signed by three
// schemes (GitHub: the body only; Standard Webhooks: with id and time; Discord:
// Ed25519) and, if compressed, by what is in them, over HTTP/1.1 (URL) and
// HTTP/2 (URL2), with Content-Length and without.  Each body is left in a file
// in OUT.  One JSON line for each delivery: what, scheme, way, the file's path,
// the delivery's id, the answer, whether a repeat has the same, and the status
// of the same request with one bit changed (null for the largest, which is sent
// once and as it is).

import { createHmac, createPrivateKey } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';
import { gunzipSync, gzipSync } from 'node:zlib';
import { sign as githubSign } from '@octokit/webhooks-methods';
import { Webhook } from 'svix';
import nacl from 'tweetnacl';

const [url, url2, dir, out] = process.argv.slice(2);
const secret = (name) =>
  readFileSync(`${dir}/secrets/${name}`, 'utf8').split('\n')[0];

// Bytes.  The buffer of the sample configuration is 64k.

const BUFFER = 64 * 1024;
const MB = 1024 * 1024;

// JSON of exactly that many bytes, nowhere the same
function sized(size) {
  const head = `{"size":${size},"x":"`;
  const text = Buffer.alloc(size, 'x');
  let state = size >>> 0;
  for (let i = 0; i < size; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    text[i] = 97 + (state >>> 16) % 26;
  }
  text.write(head);
  text.write('"}', size - 2);
  return text;
}

const utf8 = (text) => Buffer.from(text, 'utf8');
const BODIES = {
  'one byte': utf8('7'),
  'one less than the buffer': sized(BUFFER - 1),
  'the buffer': sized(BUFFER),
  'one more than the buffer': sized(BUFFER + 1),
  '1 MB': sized(MB),
  '25 MB': sized(25 * MB),
  gzip: gzipSync(sized(5000)),
  'gzip, larger than the buffer': gzipSync(sized(4 * BUFFER)),
  'a byte order mark': utf8('\ufeff{"a":"b"}'),
  CRLF: utf8('{\r\n  "a": "b\\r\\n"\r\n}\r\n'),
  'CR and LF alone': utf8('{\r"a":\n"b"\n\r}'),
  emoji: utf8('{"a":"\u{1f680}\u{1f468}\u200d\u{1f469} caf\u00e9 cafe\u0301"}'),
  'escapes in lower case': utf8('{"a":"\\u00e9\\ud83d\\ude00\\u0000"}'),
  'escapes in upper case': utf8('{"a":"\\u00E9\\uD83D\\uDE00"}'),
  'an escaped slash': utf8('{"a":"https:\\/\\/example.com\\/"}'),
  'a trailing newline': utf8('{"a":"b"}\n'),
  'NUL first, within and last': utf8('\0{"a":"b\0c"}\0'),
  'every byte': Buffer.from(Array.from({ length: 512 }, (_, i) => i & 255)),
  'a form': utf8('a=b+c&d=%7B%22e%22%3A1%7D&f=\u00e9'),
};

// Signatures: by the provider's library where the body is a text, which is all
// that those take.

const isText = (body) => Buffer.from(body.toString()).equals(body);
const pem = createPrivateKey(readFileSync(`${dir}/senders/discord.pem`));
const pair = nacl.sign.keyPair.fromSeed(
  Buffer.from(pem.export({ format: 'jwk' }).d, 'base64url'));
const webhook = new Webhook(secret('standard'));
const now = Math.floor(Date.now() / 1000);
const signed = new Map();

const SIGN = {
  github: async (id, body) => ({
    'x-github-event': 'issues',
    'x-github-delivery': id,
    'x-hub-signature-256': isText(body)
      ? await githubSign(secret('github'), body.toString())
      : `sha256=${createHmac('sha256', secret('github')).update(body)
        .digest('hex')}`,
  }),
  standard: (id, body) => ({
    'webhook-id': id,
    'webhook-timestamp': String(now),
    'webhook-signature': isText(body)
      ? webhook.sign(id, new Date(now * 1000), body.toString())
      : `v1,${createHmac('sha256',
        Buffer.from(secret('standard').replace(/^whsec_/, ''), 'base64'))
        .update(`${id}.${now}.`).update(body).digest('base64')}`,
  }),
  discord: (id, body) => {
    // slow for a large one, and the same whatever the id is
    if (!signed.has(body)) {
      signed.set(body, Buffer.from(nacl.sign.detached(
        Buffer.concat([utf8(String(now)), body]), pair.secretKey)));
    }
    return { 'x-id': id, 'x-signature-timestamp': String(now),
      'x-signature-ed25519': signed.get(body).toString('hex') };
  },
};
const PATH = { github: '/in/github', standard: '/in/standard',
  discord: '/in/bodies', inflated: '/in/inflated' };

// A compressed body is also posted with a signature of what is in it.
SIGN.inflated = (id, body) => SIGN.github(id, gunzipSync(body));
const schemes = (what) =>
  Object.keys(SIGN).filter((s) => s !== 'inflated' || what.startsWith('gzip'));

// Ways: each { status, text }.  Without Content-Length the pieces are of an
// odd size, so that they end within characters and beside any buffer's end.

const agent = new http.Agent({ keepAlive: true });
const client = http2.connect(url2);

function pieces(stream, body) {
  const size = body.length > 2 * MB ? 65521 : 997;
  let at = 0;
  const next = () => {
    while (at < body.length) {
      const piece = body.subarray(at, at += size);
      if (!stream.write(piece)) {
        stream.once('drain', next);
        return;
      }
    }
    stream.end();
  };
  next();
}

function http1(path, headers, body, whole) {
  return new Promise((resolve, reject) => {
    const req = http.request(url + path, { method: 'POST', agent,
      headers: whole ? { ...headers, 'content-length': body.length }
        : { ...headers, 'transfer-encoding': 'chunked' } }, (res) => {
      let text = '';
      res.setEncoding('utf8').on('data', (d) => { text += d; })
        .on('end', () => resolve({ status: res.statusCode, text }));
    });
    req.on('error', reject);
    if (whole) req.end(body); else pieces(req, body);
  });
}

function over2(path, headers, body, whole) {
  return new Promise((resolve, reject) => {
    const req = client.request({ ':method': 'POST', ':path': path, ...headers,
      ...(whole ? { 'content-length': String(body.length) } : {}) });
    let [status, text] = [0, ''];
    req.on('response', (h) => { status = h[':status']; });
    req.setEncoding('utf8').on('data', (d) => { text += d; });
    req.on('end', () => resolve({ status, text })).on('error', reject);
    if (whole) req.end(body); else pieces(req, body);
  });
}

const WAYS = {
  'HTTP/1.1': [http1, true],
  'HTTP/1.1, in chunks': [http1, false],
  'HTTP/2': [over2, true],
  'HTTP/2, no length': [over2, false],
};

let n = 0;
let file = 0;
for (const [what, body] of Object.entries(BODIES)) {
  const path = `${out}/${++file}`;
  writeFileSync(path, body, { mode: 0o644 });
  const changed = Buffer.from(body);
  changed[body.length >> 1] ^= 1;

  for (const scheme of schemes(what)) {
    for (const [way, [send, whole]] of Object.entries(WAYS)) {
      const id = `body-${++n}`;
      const headers = { 'content-type': 'application/octet-stream',
        ...(what.startsWith('gzip') ? { 'content-encoding': 'gzip' } : {}),
        ...await SIGN[scheme](id, body) };

      // first what must not pass: had it left anything, the other would not
      const forged = body.length > MB ? null
        : (await send(PATH[scheme], headers, changed, whole)).status;
      const res = await send(PATH[scheme], headers, body, whole);
      const again = body.length > MB ? null
        : await send(PATH[scheme], headers, body, whole);
      console.log(JSON.stringify({ what, scheme, way, path, id, forged,
        answer: `${res.status} ${res.text}`,
        same: again === null || again.text === res.text }));
    }
  }
}

client.close();
agent.destroy();
