/*
 * alert.c: who is told of what: the routes of /v1/alerts.
 */

#include <stdio.h>

#include "alert.h"
#include "doc.h"
#include "il_json.h"
#include "il_key.h"
#include "route.h"
#include "server.h"


#define IL_ALERT_FILE_MAX  64       /* bytes of the name of a secret's file */


static const char  il_alert_missing[] = "There is no such alert.";


int
il_alert_conf(const il_conf_t *conf, char *err, size_t cap)
{
    return il_outcall_hosts("alert_hosts", conf->alert_hosts, err, cap) == 0
           && il_outcall_hosts("alert_private", conf->alert_private, err,
                               cap) == 0
           && il_outcall_ca("alert_ca", conf->alert_ca, err, cap) == 0
           ? 0 : -1;
}


void
il_alert_list(il_req_t *r)
{
    il_doc_t  *d;

    d = il_doc_new(r, "select * from interlock.alert_list($1)", "I",
                   il_doc_put_tenant, il_doc_list_done);
    if (d != NULL) {
        il_doc_queue(d);
    }
}


static void
il_alert_named(il_req_t *r, const char *sql,
    void (*done)(il_read_t *read, il_db_result_t *res, il_problem_e p))
{
    il_doc_t  *d;

    if (!il_name_valid(r->args[0])) {
        il_req_problem(r, IL_P_NOT_FOUND, il_alert_missing);
        return;
    }

    d = il_doc_new(r, sql, "IT", il_doc_put, done);
    if (d != NULL) {
        d->missing = il_alert_missing;
        il_doc_queue(d);
    }
}


void
il_alert_get(il_req_t *r)
{
    il_alert_named(r, "select * from interlock.alert_get($1, $2)",
                   il_doc_done);
}


void
il_alert_delete(il_req_t *r)
{
    il_alert_named(r, "select * from interlock.alert_delete($1, $2)",
                   il_doc_problem_done);
}


/* What is no string, or too long, is left to the database. */

static int
il_alert_url(il_req_t *r)
{
    char             url[IL_URL_MAX + 1], why[256], detail[320];
    size_t           len;
    il_url_t         parsed;
    const char      *bad;
    il_outrules_t    rules;
    il_json_value_t  v;

    if (il_json_find(il_buf_str(&r->body), il_cstr("/url"), &v) != IL_JSON_OK
        || v.type != IL_JSON_STRING
        || il_json_unescape(v.raw, url, sizeof(url), &len) != 0)
    {
        return 0;
    }

    bad = il_url_parse(il_str(url, len), &parsed);

    if (bad == NULL) {
        il_alert_rules(&il_srv.conf, &rules);

        if (il_outcall_url(&rules, il_str(url, len), &parsed, why,
                           sizeof(why)) == 0)
        {
            return 0;
        }

        bad = why;
    }

    (void) snprintf(detail, sizeof(detail), "\"url\" %s.", bad);
    il_req_problem(r, IL_P_FIELD_INVALID, detail);

    return -1;
}


/* "@name" must be there: an alert that nobody can sign tells nobody. */

static int
il_alert_file(il_req_t *r)
{
    char             name[IL_ALERT_FILE_MAX + 2], why[256], detail[320];
    size_t           len;
    il_json_value_t  v;

    if (il_json_find(il_buf_str(&r->body), il_cstr("/secret"), &v)
            != IL_JSON_OK
        || v.type != IL_JSON_STRING
        || il_json_unescape(v.raw, name, sizeof(name), &len) != 0
        || len < 2 || name[0] != '@'
        || il_alert_secret_known(il_str(name + 1, len - 1), why, sizeof(why))
           == 0)
    {
        return 0;
    }

    (void) snprintf(detail, sizeof(detail), "\"secret\": %s.", why);
    il_req_problem(r, IL_P_FIELD_INVALID, detail);

    return -1;
}


void
il_alert_put(il_req_t *r)
{
    il_doc_t  *d;

    if (!il_name_valid(r->args[0])) {
        il_req_problem(r, IL_P_FIELD_INVALID, "An alert's name has 1 to 64 "
                       "of a-z, 0-9, \".\", \"_\", \"-\".");
        return;
    }

    if (il_doc_object(r, "An alert") != 0 || il_alert_url(r) != 0
        || il_alert_file(r) != 0)
    {
        return;
    }

    d = il_doc_new(r, "select * from interlock.alert_put($1, $2, $3)", "ITT",
                   il_doc_put_body, il_doc_problem_done);
    if (d != NULL) {
        il_doc_queue(d);
    }
}
