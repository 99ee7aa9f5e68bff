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
/* (no control character may be in a string; and no step back is needed for
 * what is long) */
const STRING = new RegExp([
    /"[^"\\\u0000-\u001f]*/,
    /(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\u0000-\u001f]*)*"/,
].map((part) => part.source).join(''), 'y');
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


/* Remembers where an object or array, and each of its members, came from. */
function keep(text, frame, end) {
    sources.set(frame.value,
        { text, start: frame.start, end, spans: frame.spans });
}


/* Enters a value into the object or array that is being read. */
function enter(frame, value, end) {
    if (Array.isArray(frame.value)) {
        frame.spans.set(frame.value.length, [frame.begin, end]);
        frame.value.push(value);
        return;
    }

    frame.spans.set(frame.name, [frame.begin, end]);

    /* "__proto__" is a name like any other */
    Object.defineProperty(frame.value, frame.name, {
        value, writable: true, enumerable: true, configurable: true,
    });
}


/*
 * The value that begins there, and its end; without recursion, so that no
 * nesting is too deep.
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
                begin: 0,           /* of the member under way */
                spans: new Map(),   /* name or index → [from, to] */
            };

            at = skip(at + 1);

            if (text[at] !== frame.close) {
                stack.push(frame);
                if (frame.close === '}') {
                    at = name(frame, at);
                }
                frame.begin = at;
                continue;
            }

            at += 1;
            value = frame.value;
            keep(text, frame, at);

        } else {
            [value, end] = scalar(text, at);
            at = end;
        }

        /* a value has ended; so may what it is in */

        for ( ;; ) {
            const after = at;

            at = skip(at);

            if (stack.length === 0) {
                return [value, at];
            }

            const frame = stack[stack.length - 1];
            enter(frame, value, after);

            if (text[at] === ',') {
                at = skip(at + 1);
                if (frame.close === '}') {
                    at = name(frame, at);
                }
                frame.begin = at;
                break;
            }

            if (text[at] !== frame.close) {
                fail(text, at);
            }

            at += 1;
            stack.pop();
            value = frame.value;
            keep(text, frame, at);
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
 * textOf(value, member): the JSON text of a value that parse() gave, or of
 * the member of it with that name or index: as it was written, with the order
 * and doubles of names and the escapes of strings.
 */
export function textOf(value, member) {
    const source = value !== null && typeof value === 'object'
        ? sources.get(value) : undefined;

    if (member !== undefined) {
        const span = source?.spans.get(member);
        return span === undefined ? stringify(value?.[member] ?? null)
            : source.text.slice(...span);
    }

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
    /"[^"\\]*(?:\\.[^"\\]*)*"/.source,
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
