/*
 * il_page.c: the small page that answers a form without a script.
 */

#include <stdio.h>

#include "il_href.h"
#include "il_out.h"
#include "il_page.h"


/* The style is the only thing in the page that the policy lets in, by its
 * hash: whoever changes it changes that, too (t/00-unit/page.c compares). */

#define IL_PAGE_STYLE                                                         \
    "body{font:1.1rem/1.5 system-ui,sans-serif;max-width:36rem;ma"            \
    "rgin:3rem auto;padding:0 1rem;color-scheme:light dark;overfl"            \
    "ow-wrap:anywhere}button{font:inherit;padding:.4rem 1rem}"

const char  il_page_csp[] =
    "default-src 'none'; img-src data:; "
    "style-src 'sha256-fqfgeAUPFpShEujQE02hudqi/kVHEz48RxaQAbyBsQw='; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'";


/* Text, inside an element or an attribute in double quotes.  Control
 * characters are blanks: HTML has no way to write them. */

static void
il_page_text(il_out_t *o, il_str_t s)
{
    char    c;
    size_t  i;

    for (i = 0; i < s.len; i++) {
        c = s.data[i];

        switch (c) {
        case '&':  il_out_text(o, "&amp;"); break;
        case '<':  il_out_text(o, "&lt;"); break;
        case '>':  il_out_text(o, "&gt;"); break;
        case '"':  il_out_text(o, "&quot;"); break;
        case '\'': il_out_text(o, "&#39;"); break;

        default:
            if ((unsigned char) c < 0x20 || c == 0x7f) {
                c = ' ';
            }

            il_out_put(o, il_str(&c, 1));
        }
    }
}


/* The character at the start of s, if it is one that turns around what stands
 * beside it: U+202A to U+202E, U+2066 to U+2069 (in UTF-8); else 0. */

static unsigned
il_page_turns(il_str_t s)
{
    unsigned char  last;

    if (s.len < 3 || (unsigned char) s.data[0] != 0xe2) {
        return 0;
    }

    last = (unsigned char) s.data[2];

    switch ((unsigned char) s.data[1]) {
    case 0x80: return last >= 0xaa && last <= 0xae ? 0x2000u + last - 0x80 : 0;
    case 0x81: return last >= 0xa6 && last <= 0xa9 ? 0x2040u + last - 0x80 : 0;
    default:   return 0;
    }
}


/* Somebody else's words, with what turns them around shown as "<U+202E>". */

static void
il_page_words(il_out_t *o, il_str_t s)
{
    char      code[16];
    size_t    i, from;
    unsigned  c;

    from = 0;

    for (i = 0; i < s.len; i++) {
        c = il_page_turns(il_str(s.data + i, s.len - i));

        if (c != 0) {
            il_page_text(o, il_str(s.data + from, i - from));
            (void) snprintf(code, sizeof(code), "&lt;U+%04X&gt;", c);
            il_out_text(o, code);
            i += 2;
            from = i + 1;
        }
    }

    il_page_text(o, il_str(s.data + from, s.len - from));
}


static void
il_page_element(il_out_t *o, const char *open, il_str_t text,
    const char *close)
{
    if (text.len == 0) {
        return;
    }

    il_out_text(o, open);
    il_page_text(o, text);
    il_out_text(o, close);
}


static void
il_page_hidden(il_out_t *o, const char *name, il_str_t value)
{
    if (value.len == 0) {
        return;
    }

    il_out_text(o, "<input type=\"hidden\" name=\"");
    il_out_text(o, name);
    il_page_element(o, "\" value=\"", value, "\">\n");
}


size_t
il_page_build(char *out, size_t cap, const il_page_t *p)
{
    il_out_t  o;

    il_out_init(&o, out, cap);

    il_out_text(&o, "<!DOCTYPE html>\n<html lang=\"en\">\n"
                "<meta charset=\"utf-8\">\n"
                "<meta name=\"viewport\" content=\"width=device-width\">\n"
                "<link rel=\"icon\" href=\"data:,\">\n");
    il_page_element(&o, "<title>", p->title, "</title>\n");
    il_out_text(&o, "<style>" IL_PAGE_STYLE "</style>\n<main>\n");
    il_page_element(&o, "<h1>", p->title, "</h1>\n");
    il_page_element(&o, "<p role=\"status\">", p->text, "</p>\n");

    if (p->note.len != 0) {
        il_out_text(&o, "<p dir=\"auto\">");
        il_page_words(&o, p->note);
        il_out_text(&o, "</p>\n");
    }

    if (il_href_safe(p->link)) {
        il_page_element(&o, "<p><a href=\"", p->link,
                        "\" rel=\"noreferrer\">Open the result</a></p>\n");
    }

    if (p->action.len != 0) {
        il_page_element(&o, "<form method=\"post\" action=\"", p->action,
                        "\">\n");
        il_page_hidden(&o, "ticket", p->ticket);
        il_page_hidden(&o, "idempotency_key", p->key);

        if (p->fresh) {
            il_page_hidden(&o, "fresh", il_cstr("true"));
        }

        il_page_element(&o, "<button>", p->label, "</button>\n");
        il_out_text(&o, "</form>\n");
    }

    il_out_text(&o, "</main>\n</html>\n");

    return il_out_len(&o);
}


/* "in 45 seconds", "in 3 minutes": rounded up, for who comes too early is
 * told the same again. */

static void
il_page_when(char room[IL_PAGE_ROOM], const char *why, int64_t seconds)
{
    int64_t      n;
    const char  *unit;

    if (seconds <= 0) {
        (void) snprintf(room, IL_PAGE_ROOM, "%s Try again in a moment.", why);
        return;
    }

    if (seconds < 120) {
        n = seconds;
        unit = "second";

    } else if (seconds < 7200) {
        n = (seconds + 59) / 60;
        unit = "minute";

    } else {
        n = (seconds + 3599) / 3600;
        unit = "hour";
    }

    (void) snprintf(room, IL_PAGE_ROOM, "%s Try again in %lld %s%s.", why,
                    (long long) n, unit, n == 1 ? "" : "s");
}


void
il_page_problem(il_page_t *p, il_problem_e problem, int64_t retry_after,
    char room[IL_PAGE_ROOM])
{
    size_t  i;

    static const struct {
        il_problem_e  problem;
        il_str_t      title;
        il_str_t      text;
    } words[] = {
        { IL_P_TICKET_INVALID, il_string("This page is too old"),
          il_string("Its time is over, so this press did nothing; what was "
                    "started before goes on. Go back and load the page "
                    "again.") },
        { IL_P_CROSS_ORIGIN, il_string("Not started"),
          il_string("The button was pressed from a page that may not do "
                    "that. Nothing was started.") },
        { IL_P_NOT_FOUND, il_string("Not found"),
          il_string("There is nothing that this button could show. It may "
                    "be too long ago.") },
        { IL_P_FRESH_NOT_ALLOWED, il_string("Not started"),
          il_string("This cannot be made anew while the last one is still "
                    "good.") },
        { IL_P_IDEMPOTENCY_KEY_REUSED, il_string("Not started"),
          il_string("This page was used for something else already. Go "
                    "back, load it again, and press the button there.") },
        { IL_P_WORK_ACTIVE, il_string("Already under way"),
          il_string("Somebody has started this before, and it is not done "
                    "yet. Nothing else was started.") }
    };

    static const struct {
        il_problem_e  problem;
        il_str_t      title;
        const char   *why;
    } later[] = {
        { IL_P_QUEUE_FULL, il_string("Too busy"),
          "Too much is waiting just now, and nothing was started." },
        { IL_P_SOURCE_PAUSED, il_string("Not taken at present"),
          "Buttons are switched off for a while, and nothing was started." },
        { IL_P_REQUEST_IN_PROGRESS, il_string("Still being taken"),
          "The same press is being worked on." },
        { IL_P_UNAVAILABLE, il_string("Not available"),
          "It is not known whether anything was started. Pressing again does "
          "not start it twice." }
    };

    for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (words[i].problem == problem) {
            p->title = words[i].title;
            p->text = words[i].text;
            return;
        }
    }

    for (i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
        if (later[i].problem == problem) {
            p->title = later[i].title;
            il_page_when(room, later[i].why, retry_after);
            p->text = il_cstr(room);
            return;
        }
    }

    p->title = il_cstr("Not started");
    p->text = il_problem_title(problem);
}
