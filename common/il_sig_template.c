/*
 * il_sig_template.c: the template of what a sender signs (`signed=`), and
 * names of headers.
 */

#include "il_sig_int.h"


#define IL_SIG_NAME_CAP  64


/* The characters of a token, RFC 9110 section 5.6.2. */

static int
il_sig_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
           || (c >= '0' && c <= '9')
           || (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}


int
il_sig_header_name(char *out, size_t cap, il_str_t name)
{
    char    c;
    size_t  i;

    if (name.len == 0 || name.len >= cap) {
        return -1;
    }

    for (i = 0; i < name.len; i++) {
        if (!il_sig_name_char(name.data[i])) {
            return -1;
        }
    }

    for (i = 0; i < name.len; i++) {
        c = name.data[i];
        out[i] = c >= 'A' && c <= 'Z' ? (char) (c + ('a' - 'A')) : c;
    }

    out[i] = '\0';

    return 0;
}


/* Headers of a message's form and of its way: nobody can send a value of his
 * own in them.  RFC 9110, sections 7 and 8.6; RFC 9112, section 6. */

int
il_sig_header_own(const char *name)
{
    size_t  i;

    static const char *const  names[] = {
        "connection", "content-encoding", "content-length", "content-type",
        "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding",
        "upgrade"
    };

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0) {
            return 1;
        }
    }

    return 0;
}


static il_sig_part_e
il_sig_template_name(il_str_t inside, il_str_t *text)
{
    size_t         n;
    il_sig_part_e  part;

    if (il_str_eq(inside, il_cstr("body"))) {
        return IL_SIG_PART_BODY;
    }

    if (il_str_eq(inside, il_cstr("method"))) {
        return IL_SIG_PART_METHOD;
    }

    if (il_str_eq(inside, il_cstr("url"))) {
        return IL_SIG_PART_URL;
    }

    n = sizeof("header:") - 1;
    part = IL_SIG_PART_HEADER;

    if (inside.len < n || memcmp(inside.data, "header:", n) != 0) {
        n = sizeof("timestamp:") - 1;
        part = IL_SIG_PART_TIMESTAMP;

        if (inside.len < n || memcmp(inside.data, "timestamp:", n) != 0) {
            return IL_SIG_PART_BAD;
        }
    }

    *text = il_str(inside.data + n, inside.len - n);

    return part;
}


il_sig_part_e
il_sig_template_next(il_str_t t, size_t *pos, il_str_t *text)
{
    size_t       start;
    const char  *end;

    *text = il_str(NULL, 0);

    if (*pos >= t.len) {
        return IL_SIG_PART_END;
    }

    start = *pos;

    if (t.data[start] != '{') {
        while (*pos < t.len && t.data[*pos] != '{') {
            (*pos)++;
        }

        *text = il_str(t.data + start, *pos - start);

        return IL_SIG_PART_TEXT;
    }

    end = memchr(t.data + start, '}', t.len - start);

    if (end == NULL) {
        return IL_SIG_PART_BAD;
    }

    *pos = (size_t) (end - t.data) + 1;

    return il_sig_template_name(il_str(t.data + start + 1,
                                       (size_t) (end - t.data) - start - 1),
                                text);
}


const char *
il_sig_template_check(il_str_t t)
{
    char           name[IL_SIG_NAME_CAP];
    size_t         n, pos, bodies, timestamps;
    il_str_t       text;
    il_sig_part_e  part;

    n = 0;
    pos = 0;
    bodies = 0;
    timestamps = 0;

    while ((part = il_sig_template_next(t, &pos, &text)) != IL_SIG_PART_END) {

        if (part == IL_SIG_PART_BAD) {
            return "signed= knows {body}, {method}, {url}, {header:NAME} and "
                   "{timestamp:NAME} only, not";
        }

        if ((part == IL_SIG_PART_HEADER || part == IL_SIG_PART_TIMESTAMP)
            && il_sig_header_name(name, sizeof(name), text) != 0)
        {
            return "invalid header name in signed=";
        }

        if (part == IL_SIG_PART_TIMESTAMP && il_sig_header_own(name)) {
            return "a header that HTTP has a meaning of its own for can be no "
                   "{timestamp:NAME} in signed=";
        }

        if (++n > IL_SIG_PARTS_MAX) {
            return "signed= has more than 16 pieces:";
        }

        bodies += part == IL_SIG_PART_BODY;
        timestamps += part == IL_SIG_PART_TIMESTAMP;
    }

    /* Without the body in it a signature would fit any body. */

    if (bodies != 1) {
        return "signed= must have {body} exactly once, not";
    }

    if (timestamps > 1) {
        return "signed= may have one {timestamp:NAME} only, not";
    }

    return NULL;
}


int
il_sig_template_timed(il_str_t t)
{
    size_t         pos;
    il_str_t       text;
    il_sig_part_e  part;

    pos = 0;

    do {
        part = il_sig_template_next(t, &pos, &text);

        if (part == IL_SIG_PART_TIMESTAMP) {
            return 1;
        }

    } while (part != IL_SIG_PART_END && part != IL_SIG_PART_BAD);

    return 0;
}
