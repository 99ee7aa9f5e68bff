/*
 * effect_mail.c: a message and its Message-ID (RFC 5322 section 3.6.4).
 */

#include <string.h>
#include <strings.h>

#include "effect_mail.h"


/* What stands left of the first colon is a header's name.  Its length; 0: it
 * is no header.  Spaces before the colon are of old (section 4.5), and are read
 * by those who get the mail. */
static size_t
il_mail_header(il_str_t line)
{
    size_t  i, n;

    for (n = 0; n < line.len && line.data[n] > 0x20 && line.data[n] < 0x7f
         && line.data[n] != ':'; n++)
    {
        /* void */
    }

    for (i = n; i < line.len
         && (line.data[i] == ' ' || line.data[i] == '\t'); i++)
    {
        /* void */
    }

    return i < line.len && line.data[i] == ':' ? n : 0;
}


/* The next line with its end; s goes on behind it. */
static il_str_t
il_mail_line(il_str_t *s)
{
    size_t       n;
    il_str_t     line;
    const char  *end;

    end = memchr(s->data, '\n', s->len);
    n = end == NULL ? s->len : (size_t) (end + 1 - s->data);
    line = il_str(s->data, n);
    *s = il_str(s->data + n, s->len - n);

    return line;
}


int
il_effect_mail_read(il_buf_t *mail, const char *domain)
{
    int       rc;
    il_str_t  text;

    if (domain[0] == '\0' || strlen(domain) > 253
        || strspn(domain, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                          "0123456789.-") != strlen(domain))
    {
        il_err("effect run: not a domain: %s", domain);
        return EX_USAGE;
    }

    rc = il_file_read(mail, "-", IL_EFFECT_MAIL_MAX);

    if (rc != 0) {
        return rc;
    }

    text = il_buf_str(mail);

    if (il_mail_header(il_mail_line(&text)) == 0) {
        il_err("effect run: standard input is not a message: it does not"
               " begin with a header");
        return EX_DATAERR;
    }

    return 0;
}


char *
il_effect_mail_id(const char *key, const char *domain)
{
    il_buf_t  b;

    memset(&b, 0, sizeof(b));
    il_buf_printf(&b, "<%s@%s>", key, domain);

    return b.data;
}


void
il_effect_mail_set_id(il_buf_t *mail, const char *id)
{
    int       drop;
    il_buf_t  out;
    il_str_t  rest, line;

    static const char  name[] = "Message-ID";

    memset(&out, 0, sizeof(out));
    rest = il_buf_str(mail);
    line = il_mail_line(&rest);

    il_buf_printf(&out, "%s: %s%s", name, id,
                  line.len > 1 && line.data[line.len - 2] == '\r' ? "\r\n"
                                                                  : "\n");
    drop = 0;

    /* headers, up to the empty line; those that begin with a space belong to
     * the one before */

    for (;;) {
        if (line.len == 0 || line.data[0] == '\n'
            || (line.data[0] == '\r' && line.len > 1))
        {
            break;
        }

        if (line.data[0] != ' ' && line.data[0] != '\t') {
            drop = il_mail_header(line) == sizeof(name) - 1
                   && strncasecmp(line.data, name, sizeof(name) - 1) == 0;
        }

        if (!drop) {
            il_buf_add(&out, line.data, line.len);
        }

        line = il_mail_line(&rest);
    }

    il_buf_add(&out, line.data, line.len);
    il_buf_add(&out, rest.data, rest.len);

    il_buf_free(mail);
    *mail = out;
}
