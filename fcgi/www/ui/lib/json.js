/*
 * json.js: JSON (RFC 8259) without loss.
 *
 * A number whose text JavaScript would not give back (9007199254740993, 1.10,
 * 1e400) stays a Numeral with that text; any other is a number.  Objects and
 * arrays remember the text that they came from, see textOf().
 */

/* A number as it was written: text for people, a value for sums. */
export class Numeral {
    constructor(text) {
        this.text = text;
        Object.freeze(this);
    }

    toString() { return this.text; }

    valueOf() { return Number(this.text); }
}


const sources = new WeakMap();

const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
/* the control characters are what must not be in a string */
const STRING =
    /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const WORD = /true|false|null/y;
const WORDS = { true: true, false: false, null: null };


function fail(text, at) {
    const what = at < text.length ? JSON.stringify(text[at]) : 'its end';
    throw new SyntaxError(`not JSON at ${at}: ${what}`);
}


function match(pattern, text, at) {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    return found === null ? null : found[0];
}


function string(text, at) {
    const token = match(STRING, text, at);

    return token === null ? fail(text, at) : token;
}


function number(token) {
    const value = Number(token);

    return String(value) === token ? value : new Numeral(token);
}


/* The scalar that begins there: [its value, its end]. */
function scalar(text, at) {
    if (text[at] === '"') {
        const token = string(text, at);
        return [JSON.parse(token), at + token.length];
    }

    const word = match(WORD, text, at);
    if (word !== null) {
        return [WORDS[word], at + word.length];
    }

    const token = match(NUMBER, text, at);
    if (token === null) {
        fail(text, at);
    }

    return [number(token), at + token.length];
}


/* Enters a value into the object or array that is being read. */
function enter(frame, value) {
    if (Array.isArray(frame.value)) {
        frame.value.push(value);
        return;
    }

    /* "__proto__" is a name like any other */
    Object.defineProperty(frame.value, frame.name, {
        value, writable: true, enumerable: true, configurable: true,
    });
}


/*
 * walk(text, on): goes over the values without recursion, so that no nesting
 * is too deep.  on.enter(frame, value), on.close(frame, end) may be left out.
 */
function walk(text, at) {
    const stack = [];
    let   value, end;

    const skip = (from) => from + match(SPACE, text, from).length;

    const name = (frame, from) => {
        const token = string(text, from);
        frame.name = JSON.parse(token);
        const colon = skip(from + token.length);
        if (text[colon] !== ':') {
            fail(text, colon);
        }
        return skip(colon + 1);
    };

    at = skip(at);

    for ( ;; ) {

        if (text[at] === '{' || text[at] === '[') {
            const frame = {
                value: text[at] === '{' ? {} : [],
                close: text[at] === '{' ? '}' : ']',
                start: at,
                name: '',
            };

            at = skip(at + 1);

            if (text[at] !== frame.close) {
                stack.push(frame);
                if (frame.close === '}') {
                    at = name(frame, at);
                }
                continue;
            }

            at += 1;
            value = frame.value;
            sources.set(value, { text, start: frame.start, end: at });

        } else {
            [value, end] = scalar(text, at);
            at = end;
        }

        /* a value has ended; so may what it is in */

        for ( ;; ) {
            at = skip(at);

            if (stack.length === 0) {
                return [value, at];
            }

            const frame = stack[stack.length - 1];
            enter(frame, value);

            if (text[at] === ',') {
                at = skip(at + 1);
                if (frame.close === '}') {
                    at = name(frame, at);
                }
                break;
            }

            if (text[at] !== frame.close) {
                fail(text, at);
            }

            at += 1;
            stack.pop();
            value = frame.value;
            sources.set(value, { text, start: frame.start, end: at });
        }
    }
}


/* parse(text): its value; throws SyntaxError if it is not JSON. */
export function parse(text) {
    const [value, end] = walk(text, 0);

    if (end !== text.length) {
        fail(text, end);
    }

    return value;
}


/*
 * textOf(value): the JSON text of a value that parse() gave: that of an
 * object or array as it was written, with the order and doubles of its names.
 */
export function textOf(value) {
    const source = value !== null && typeof value === 'object'
        ? sources.get(value) : undefined;

    return source === undefined
        ? stringify(value) : source.text.slice(source.start, source.end);
}


/* stringify(value): JSON, a Numeral as it was written. */
export function stringify(value) {
    if (value instanceof Numeral) {
        return value.text;
    }

    if (Array.isArray(value)) {
        return `[${value.map((x) => stringify(x ?? null)).join(',')}]`;
    }

    if (value !== null && typeof value === 'object') {
        const parts = Object.entries(value)
            .filter(([, x]) => x !== undefined)
            .map(([name, x]) => `${JSON.stringify(name)}:${stringify(x)}`);
        return `{${parts.join(',')}}`;
    }

    return JSON.stringify(value);
}


const TOKENS = new RegExp([
    /"(?:[^"\\]|\\.)*"/.source,
    /[{}[\],:]/.source,
    /[^\s"{}[\],:]+/.source,
].join('|'), 'gs');


/*
 * format(text): stored JSON laid out in lines.  Only blanks between tokens
 * change; names, numbers and strings stay letter for letter.  What is not
 * JSON comes back as it is.
 */
export function format(text) {
    try {
        parse(text);
    } catch {
        return text;
    }

    const out = [];
    const tokens = text.match(TOKENS) ?? [];
    let   depth = 0;

    /* past that, indenting would cost more than it shows */
    const line = () => `\n${'  '.repeat(Math.min(depth, 40))}`;

    for (let i = 0; i < tokens.length; i++) {
        const token = tokens[i];

        if (token === '{' || token === '[') {
            const next = tokens[i + 1];
            if (next === '}' || next === ']') {
                out.push(token, next);
                i += 1;
                continue;
            }
            depth += 1;
            out.push(token, line());
        } else if (token === '}' || token === ']') {
            depth -= 1;
            out.push(line(), token);
        } else if (token === ',') {
            out.push(token, line());
        } else if (token === ':') {
            out.push(': ');
        } else {
            out.push(token);
        }
    }

    return out.join('');
}
