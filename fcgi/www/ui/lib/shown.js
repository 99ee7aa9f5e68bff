/*
 * shown.js: text as it may be shown.  A stored text may hold characters that
 * nobody sees, and some that turn around what stands beside them; two names
 * would look the same, or like a third one.
 */

/*
 * Controls, what turns the direction, what is drawn as nothing, halves of a
 * pair; not tabs and ends of lines, and not what joins one emoji of several.
 */
const JOINS = '(?<=\\p{ExtPict}[\\ufe0f\\u{1f3fb}-\\u{1f3ff}]?)\\u200d'
    + '(?=\\p{ExtPict})|(?<=\\p{ExtPict})\\ufe0f';
const UNSEEN = `(?!${JOINS}|[\\t\\n]|\\r\\n)`
    + '[\\p{Cc}\\p{Cs}\\p{Zl}\\p{Zp}\\p{Bidi_C}\\p{DI}\\ufff9-\\ufffb]';

/* in a name a blank that is none is one of them, too */
const BLANKS = '[\\u00a0\\u1680\\u2000-\\u200a\\u202f\\u205f\\u2800\\u3000]';

/* letters of the scripts that are written from right to left */
const RIGHT = '[\\u0590-\\u08ff\\ufb1d-\\ufdff\\ufe70-\\ufefe'
    + '\\u{10800}-\\u{10fff}\\u{1e800}-\\u{1efff}]';

/* such words, up to what may part two names */
const WORDS = `${RIGHT}(?:[^\\n:;,/|"“”(){}\\[\\]<>]*${RIGHT})?`;

const unseen = new RegExp(UNSEEN, 'gu');
const prose = new RegExp(`(${UNSEEN})|(${WORDS})`, 'gu');
const names = new RegExp(`(${UNSEEN}|${BLANKS})|(${WORDS})`, 'gu');
const turned = new RegExp(`^\\P{L}*${RIGHT}`, 'u');

const code = (c) => `⟨U+${c.codePointAt(0).toString(16).toUpperCase()
    .padStart(4, '0')}⟩`;


/* plain(text): the text with its unseen characters as ⟨U+202E⟩. */
export function plain(text) {
    return String(text).replace(unseen, code);
}


/* blank(text): whether there is nothing in it that anybody could see. */
export function blank(text) {
    return !/[^\p{Z}\p{C}\p{DI}\s\u2800]/u.test(text);
}


/* escaped(json): JSON text that says the same without these characters. */
export function escaped(json) {
    return json.replace(unseen, (c) => Array.from({ length: c.length },
        (_, i) => `\\u${c.charCodeAt(i).toString(16).padStart(4, '0')}`)
        .join(''));
}


/*
 * parts(text, name): the text in parts [sort, text]: '' as it is; 'odd' an
 * unseen character's code; 'turned' words from right to left, which are to be
 * isolated so that they move nothing beside them.  name: it is a name, whose
 * parts stay in their order.
 */
export function parts(text, name = false) {
    const out = [];
    let   at = 0;

    if (!name && turned.test(text)) {
        return [['turned', plain(text)]];
    }

    for (const found of text.matchAll(name ? names : prose)) {
        if (found.index > at) {
            out.push(['', text.slice(at, found.index)]);
        }
        out.push(found[1] === undefined ? ['turned', plain(found[2])]
            : ['odd', code(found[1])]);
        at = found.index + found[0].length;
    }

    if (at < text.length) {
        out.push(['', text.slice(at)]);
    }

    return out;
}
