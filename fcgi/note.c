/*
 * note.c: the text of what interlockds tell each other.
 */

#include <stdio.h>
#include <string.h>

#include "il_enc.h"
#include "il_time.h"
#include "note.h"


#define IL_NOTE_WORD  128


void
il_note_kind(il_notes_t *notes, int32_t tenant, il_str_t kind, size_t n)
{
    size_t           i;
    il_note_kind_t  *k;

    for (i = 0; i < notes->nkinds; i++) {
        k = &notes->kinds[i];

        if (k->tenant == tenant && il_str_eq(il_cstr(k->kind), kind)) {
            break;
        }
    }

    if (i == notes->nkinds) {
        if (i == IL_NOTE_KINDS || kind.len > IL_NAME_MAX) {
            notes->all = 1;
            return;
        }

        k = &notes->kinds[notes->nkinds++];
        k->tenant = tenant;
        k->n = 0;
        memcpy(k->kind, kind.data, kind.len);
        k->kind[kind.len] = '\0';
    }

    k = &notes->kinds[i];
    n += k->n;
    k->n = n > IL_NOTE_COUNT ? IL_NOTE_COUNT : (uint32_t) n;
}


void
il_note_ended(il_notes_t *notes, const uint8_t job_id[IL_UUID_BYTES])
{
    if (notes->njobs == IL_NOTE_JOBS) {
        notes->all = 1;
        return;
    }

    memcpy(notes->jobs[notes->njobs++], job_id, IL_UUID_BYTES);
}


int
il_note_empty(const il_notes_t *notes)
{
    return notes->nkinds == 0 && notes->njobs == 0 && !notes->all;
}


/* ----------------------------------------------------------------- writing */


typedef struct {
    il_db_args_t  *args;
    size_t         at;
    size_t         messages;
    size_t         len;
    char           text[IL_NOTE_MAX];
} il_note_out_t;


static void
il_note_flush(il_note_out_t *out)
{
    if (out->len > 0) {
        il_db_put_text(out->args, out->at, il_str(out->text, out->len));
        out->messages++;
        out->len = 0;
    }
}


static void
il_note_word(il_note_out_t *out, const char *word, size_t len)
{
    if (out->len + len + 1 > sizeof(out->text)) {
        il_note_flush(out);
    }

    if (out->len > 0) {
        out->text[out->len++] = ' ';
    }

    memcpy(out->text + out->len, word, len);
    out->len += len;
}


size_t
il_note_put(const il_notes_t *notes, il_db_args_t *args, size_t at)
{
    int            n;
    char           word[IL_NOTE_WORD];
    size_t         i, len;
    il_note_out_t  out;

    out.args = args;
    out.at = at;
    out.messages = 0;
    out.len = 0;

    if (notes->all) {
        il_note_word(&out, "look", 4);
    }

    for (i = 0; i < notes->nkinds; i++) {
        n = snprintf(word, sizeof(word), "k:%d:%s:%u",
                     (int) notes->kinds[i].tenant, notes->kinds[i].kind,
                     (unsigned) notes->kinds[i].n);

        if (n > 0 && (size_t) n < sizeof(word)) {
            il_note_word(&out, word, (size_t) n);
        }
    }

    word[0] = 'j';
    word[1] = ':';

    for (i = 0; i < notes->njobs; i++) {
        len = il_b64_encode(word + 2, sizeof(word) - 2, notes->jobs[i],
                            IL_UUID_BYTES, IL_B64_URL_NOPAD);
        il_note_word(&out, word, len + 2);
    }

    il_note_flush(&out);

    return out.messages;
}


/* ----------------------------------------------------------------- reading */


/* Cuts what stands before the first c from the front of s. */

static il_str_t
il_note_cut(il_str_t *s, char c)
{
    size_t       n;
    il_str_t     part;
    const char  *p;

    p = s->len == 0 ? NULL : memchr(s->data, c, s->len);
    n = p == NULL ? s->len : (size_t) (p - s->data);

    part = il_str(s->data, n);
    *s = p == NULL ? il_str(NULL, 0) : il_str(p + 1, s->len - n - 1);

    return part;
}


static void
il_note_read_kind(il_str_t word, const il_note_ops_t *ops)
{
    int64_t   tenant, n;
    il_str_t  kind;

    if (il_digits_parse(il_note_cut(&word, ':'), 10, &tenant) != 0
        || tenant > INT32_MAX)
    {
        return;
    }

    kind = il_note_cut(&word, ':');

    if (!il_name_valid(kind) || il_digits_parse(word, 9, &n) != 0) {
        return;
    }

    ops->kind((int32_t) tenant, kind,
              n > IL_NOTE_COUNT ? IL_NOTE_COUNT : (size_t) n);
}


static void
il_note_read_job(il_str_t word, const il_note_ops_t *ops)
{
    size_t   n;
    uint8_t  id[IL_UUID_BYTES];

    if (il_b64_decode(id, sizeof(id), &n, word, IL_B64_URL_NOPAD) == 0
        && n == sizeof(id))
    {
        ops->ended(id);
    }
}


void
il_note_read(il_str_t text, const il_note_ops_t *ops, void *arg)
{
    il_str_t  word, what;

    while (text.len > 0) {
        word = il_note_cut(&text, ' ');
        what = il_note_cut(&word, ':');

        if (il_str_eq(what, il_cstr("k"))) {
            il_note_read_kind(word, ops);

        } else if (il_str_eq(what, il_cstr("j"))) {
            il_note_read_job(word, ops);

        } else if (il_str_eq(what, il_cstr("hello"))) {
            ops->hello(arg);

        } else if (il_str_eq(what, il_cstr("look"))) {
            ops->look(arg);
        }
    }
}
