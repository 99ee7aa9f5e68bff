// json.js: what is stored is shown letter for letter.

import { isDeepStrictEqual } from 'node:util';
import { Numeral, format, parse, stringify, textOf }
  from '../../fcgi/www/ui/lib/json.js';

let count = 0;

function ok(value, name) {
  count++;
  console.log(`${value ? '' : 'not '}ok - ${name}`);
}

function is(got, expected, name) {
  const same = isDeepStrictEqual(got, expected);
  ok(same, name);
  if (!same) {
    console.log(`${JSON.stringify(got)} is not ${JSON.stringify(expected)}`);
  }
}

// numbers that JavaScript would give back otherwise

for (const text of ['9007199254740993', '-9007199254740993', '1.10', '1.0',
  '1e400', '-1e400', '1E5', '1e-400', '0.1000000000000000055511151231257827',
  '-0', '123456789012345678901234567890']) {
  const value = parse(text);
  ok(value instanceof Numeral, `${text} stays`);
  is(String(value), text, `${text} as text`);
  is(stringify({ n: value }), `{"n":${text}}`, `${text} in a body`);
  is(value * 1, Number(text), `${text} as a value`);
}

for (const text of ['0', '-1', '1.5', '9007199254740991', '0.1', '1e+21']) {
  is(parse(text), Number(text), `${text} is a number`);
}

// members, their order and their text

const doc = ' { "b" :[ 1.10,{} , []], "a": "\\u00e9\\/" ,"2":1 , "1": 2,'
  + '"b": {"x" : [1, 2]}, "__proto__": {"polluted": true} }\n';
const value = parse(doc);
is(value.b, { x: [1, 2] }, 'the last of two members of one name');
is(value.a, 'é/', 'escapes are read');
ok(Object.hasOwn(value, '__proto__') && {}.polluted === undefined,
  '__proto__ is a name like any other');
is(textOf(value), doc.trim(), 'the text of an object, as it was written');
is(textOf(value, 'a'), '"\\u00e9\\/"', 'of a string, with its escapes');
is(textOf(value, 'b'), '{"x" : [1, 2]}', 'of a member');
is(textOf(parse('[1, 1.10 ,"x"]'), 1), '1.10', 'of an element');
is(textOf(parse('{"r":null}'), 'r'), 'null', 'of null');
is(textOf(parse('{}'), 'r'), 'null', 'of none');
is(textOf({ a: 1 }), '{"a":1}', 'of what was never parsed');

// laid out

is(format('{"a":[1.10,9007199254740993,{}],"a":"x, {y}: \\"z\\"","e":[]}'),
  `{
  "a": [
    1.10,
    9007199254740993,
    {}
  ],
  "a": "x, {y}: \\"z\\"",
  "e": []
}`, 'laid out in lines');
is(format(doc).replace(/\s+/g, ''), doc.replace(/\s+/g, ''),
  'with nothing but blanks changed');
is(format('no JSON <b>'), 'no JSON <b>', 'what is none stays');
is(format('"\\ud800"'), '"\\ud800"', 'half a pair stays as written');

// what is no JSON

for (const text of ['', ' ', '{', '[1,]', '{"a":1,}', '01', '1.', '.5', '+1',
  '"\n"', '"\\x"', '"', 'nul', 'NaN', '[1 2]', '{"a" 1}', '{1:1}', '1 2',
  '[1}', '\u00a01', '\ufeff1', "'a'", '[1]//']) {
  let error = null;
  try {
    parse(text);
  } catch (e) {
    error = e;
  }
  ok(error instanceof SyntaxError, `refused: ${JSON.stringify(text)}`);
}

// as everybody else reads it

const all = { s: '\u2028 é \u0000 "\\', n: [0, -1.5, 1e21], t: true, f: false,
  z: null, o: { deep: [[[{}]]] } };
is(parse(JSON.stringify(all, null, 3)), all, 'the same as JSON.parse');
is(JSON.parse(stringify(all)), all, 'and stringify is read by it');

// nothing is too deep or too long

const deep = '['.repeat(300000) + ']'.repeat(300000);
is(parse(deep).length, 1, '300,000 levels');
const long = 'x'.repeat(8 << 20);
is(parse(`"${long}"`).length, long.length, 'a string of 8 MiB');
is(parse(`"${'\\n'.repeat(1 << 20)}"`).length, 1 << 20, 'of escapes alone');
const nested = '['.repeat(5000) + ']'.repeat(5000);
is(format(nested).replace(/\s/g, ''), nested, 'laid out, too');

console.log(`1..${count}`);
