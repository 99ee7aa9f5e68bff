// Reads fcgi/openapi.yaml and, from standard input, one recorded exchange a
// line: { method, path (the template), status, type, body, request }.  Prints
// one complaint a line: an answer that the document does not describe, a
// request that it would not allow, an operation that was never tried.

import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import Ajv from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { parse } from 'yaml';

const doc = parse(readFileSync(process.argv[2], 'utf8'));
const ajv = new Ajv({ strict: false, allErrors: true });
addFormats(ajv);
ajv.addSchema(doc, 'doc');

// Follows a local reference to where the thing itself is.
function at(pointer) {
  let node = doc;
  for (const part of pointer.slice(2).split('/')) {
    node = node?.[part.replace(/~1/g, '/').replace(/~0/g, '~')];
  }
  return node?.$ref ? at(node.$ref) : { node, pointer };
}

const escape = (s) => s.replace(/~/g, '~0').replace(/\//g, '~1');

function complain(x, why) {
  console.log(`${x.method} ${x.path} ${x.status}: ${why}`);
}

function check(x, where, what, value) {
  const validate = ajv.getSchema(`doc${where}/schema`);
  if (validate && !validate(value)) {
    complain(x, `${what}: ${ajv.errorsText(validate.errors)}`);
  }
}

const tried = new Set();

for await (const line of createInterface({ input: process.stdin })) {
  const x = JSON.parse(line);
  const op = `#/paths/${escape(x.path)}/${x.method.toLowerCase()}`;

  if (!at(op).node) { complain(x, 'no such operation'); continue; }
  tried.add(op);

  const { node, pointer } = at(`${op}/responses/${x.status}`);
  if (!node) { complain(x, 'status not described'); continue; }

  const media = x.type?.split(';')[0];
  if (node.content) {
    if (!node.content[media]) { complain(x, `type ${media}`); continue; }
    if (media.endsWith('json')) {
      check(x, `${pointer}/content/${escape(media)}`, 'answer',
        JSON.parse(x.body));
    }
  }

  const accepts = at(`${op}/requestBody/content/application~1json`);
  if (x.request && x.status < 300 && accepts.node) {
    check(x, accepts.pointer, 'request', JSON.parse(x.request));
  }
}

for (const [path, item] of Object.entries(doc.paths)) {
  for (const method of ['get', 'put', 'post', 'delete']) {
    if (item[method] && !tried.has(`#/paths/${escape(path)}/${method}`)) {
      console.log(`${method.toUpperCase()} ${path}: never tried`);
    }
  }
}
