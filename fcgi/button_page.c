/*
 * button_page.c: the same for forms without a script: pages.
 *
 * A page shows how the job stands now, whatever the press was answered: a
 * reload, which sends the form again, is how somebody looks again.
 */

#include <stdio.h>

#include "button.h"
#include "il_answer.h"
#include "il_enc.h"
#include "il_page.h"
#include "server.h"
#include "submit.h"


static void
il_button_page_send(il_req_t *r, int status, il_page_t *page)
{
    char    *out;
    size_t   cap, n;

    page->ticket = il_press(r)->in.ticket;

    cap = il_page_cap(page);
    r->out.len = 0;
    out = il_buf_room(&r->out, cap);

    if (out != NULL) {
        n = il_page_build(out, cap, page);
        r->out.len = n;
        r->out.failed |= (n == 0);
    }

    r->status = status;
    r->type = IL_PAGE_TYPE;

    il_req_header(r, "Content-Security-Policy", il_cstr(il_page_csp));
    il_req_header(r, "X-Content-Type-Options", il_cstr("nosniff"));
    il_req_header(r, "Referrer-Policy", il_cstr(IL_PAGE_REFERRER));
}


void
il_button_page_problem(il_req_t *r, il_problem_e p)
{
    char         room[IL_PAGE_ROOM];
    char         path[sizeof("/button/") + IL_NAME_MAX];
    il_page_t    page;
    il_press_t  *press = il_press(r);

    memset(&page, 0, sizeof(page));
    il_page_problem(&page, p, press->retry_after, room);

    /* the same press again, where that may help */

    if ((p == IL_P_QUEUE_FULL || p == IL_P_UNAVAILABLE
         || p == IL_P_SOURCE_PAUSED)
        && press->idem.len != 0)
    {
        (void) snprintf(path, sizeof(path), "/button/%.*s",
                        (int) press->claims.kind.len,
                        press->claims.kind.data);

        page.action = il_cstr(path);
        page.label = il_cstr("Try again");
        page.key = press->idem;
        page.fresh = press->in.fresh;
    }

    il_button_page_send(r, il_problem_status(p), &page);
}


/* ---------------------------------------------------------------- one job */


static const struct {
    il_status_e   status;
    il_str_t      title;
    il_str_t      text;
} il_button_words[] = {
    { IL_S_QUEUED, il_string("Waiting"),
      il_string("It was taken, and waits for its turn.") },
    { IL_S_PARKED, il_string("Waiting"),
      il_string("It was taken, and waits for others to end.") },
    { IL_S_RUNNING, il_string("Under way"), il_string("It is being done.") },
    { IL_S_CHECKING, il_string("Being checked"),
      il_string("It was interrupted; what became of it is being found "
                "out.") },
    { IL_S_HELD, il_string("Being looked into"),
      il_string("Somebody has to decide how it goes on.") },
    { IL_S_SUCCEEDED, il_string("Done"), il_string("It is done.") },
    { IL_S_FAILED, il_string("Failed"),
      il_string("It could not be done.") },
    { IL_S_CANCELED, il_string("Canceled"),
      il_string("Somebody has ended it before it was done.") },
    { IL_S_SUPERSEDED, il_string("Replaced"),
      il_string("A later press has taken its place.") },
    { IL_S_EXPIRED, il_string("Given up"),
      il_string("It has waited too long and was not done. Go back and press "
                "the button again.") }
};


/* "12 of 40 done", or what of it is known; else nothing. */

static void
il_button_page_progress(il_req_t *r, il_str_t doc, il_page_t *page,
    char room[IL_PAGE_ROOM])
{
    il_json_value_t  done, total;

    page->note = il_button_text(r, doc, "/progress/note");

    if (il_json_find(doc, il_cstr("/progress/done"), &done) != IL_JSON_OK
        || done.type != IL_JSON_NUMBER || done.raw.len > 20)
    {
        return;
    }

    if (il_json_find(doc, il_cstr("/progress/total"), &total) != IL_JSON_OK
        || total.type != IL_JSON_NUMBER || total.raw.len > 20)
    {
        (void) snprintf(room, IL_PAGE_ROOM, "It is being done: %.*s so far.",
                        (int) done.raw.len, done.raw.data);

    } else {
        (void) snprintf(room, IL_PAGE_ROOM, "It is being done: %.*s of "
                        "%.*s.", (int) done.raw.len, done.raw.data,
                        (int) total.raw.len, total.raw.data);
    }

    page->text = il_cstr(room);
}


void
il_button_page_job(il_req_t *r, il_str_t doc)
{
    char         room[IL_PAGE_ROOM];
    char         path[sizeof(IL_ANSWER_BUTTON_JOBS) + IL_UUID_TEXT];
    size_t       i;
    il_str_t     id;
    il_page_t    page;
    il_status_e  status;

    memset(&page, 0, sizeof(page));
    id = il_str(NULL, 0);
    status = il_status_find(il_button_text(r, doc, "/status"));

    for (i = 0; i < sizeof(il_button_words) / sizeof(il_button_words[0]);
         i++)
    {
        if (il_button_words[i].status == status) {
            page.title = il_button_words[i].title;
            page.text = il_button_words[i].text;
        }
    }

    if (status == IL_S_RUNNING) {
        il_button_page_progress(r, doc, &page, room);

    } else if (status == IL_S_SUCCEEDED) {
        page.link = il_button_result(r, doc);

    } else if (status == IL_S_FAILED) {
        page.note = il_button_text(r, doc, "/user_message");

    } else if (status == IL_S_QUEUED
               && il_button_text(r, doc, "/retry_at").data != NULL)
    {
        page.text = il_cstr("It did not work the first time, and will be "
                            "tried again shortly.");
        page.note = il_button_text(r, doc, "/user_message");
    }

    if (status == IL_S_SUPERSEDED) {
        id = il_button_text(r, doc, "/superseded_by");
        page.label = il_cstr("Look at that one");

    } else if (!il_status_final(status)) {
        id = il_button_text(r, doc, "/job_id");
        page.label = il_cstr("Look again");
    }

    if (id.len == IL_UUID_TEXT) {
        (void) snprintf(path, sizeof(path), IL_ANSWER_BUTTON_JOBS "%.*s",
                        (int) id.len, id.data);
        page.action = il_cstr(path);
    }

    il_button_page_send(r, 200, &page);
    il_req_done(r);
}


/* ---------------------------------------------------------------- pressing */


static void
il_button_page_answer(il_batch_t *b)
{
    char          seconds[24];
    uint8_t       job_id[IL_UUID_BYTES];
    il_str_t      text;
    il_req_t     *r = b->r;
    il_press_t   *press = il_press(r);
    il_submit_t  *s = &b->rows[0];

    if (s->problem != IL_P_NONE || s->out.failed) {
        press->retry_after = s->retry_after;

        if (s->retry_after > 0) {
            (void) snprintf(seconds, sizeof(seconds), "%lld",
                            (long long) s->retry_after);
            il_req_header(r, "Retry-After", il_cstr(seconds));
        }

        il_buf_free(&s->out);
        il_req_problem(r, s->problem == IL_P_NONE ? IL_P_INTERNAL
                                                  : s->problem, "");
        return;
    }

    /* the press's own, or the one that it joined */

    text = il_button_text(r, il_buf_str(&s->out), "/job_id");

    if (text.data == NULL) {
        text = il_button_text(r, il_buf_str(&s->out), "/active_job_id");
    }

    il_buf_free(&s->out);

    if (il_uuid_parse(job_id, text) != 0) {
        il_req_internal(r);
        return;
    }

    il_button_look(r, job_id);
}


void
il_button_page_post(il_req_t *r)
{
    il_batch_t   *b;
    il_press_t   *press = il_press(r);
    il_submit_t  *s;

    b = il_batch_new(r, 1, il_button_page_answer);
    if (b == NULL) {
        return;
    }

    s = &b->rows[0];

    il_submit_press(s, press->idem, &press->claims, press->in.fresh);
    il_submit_ready(s, il_str(NULL, 0));
    il_batch_add(b, s);
    il_batch_go(b);
}
