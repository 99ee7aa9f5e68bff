/*
 * lookup.c: templates of look-ups, and what their answers mean.
 */

#include "il_lookup.h"
#include "unit.h"


static const char  vars[] = "{\"work_key\":\"a:b/c\",\"ref\":null,"
    "\"empty\":\"\",\"dots\":\"..\",\"dot\":\".\",\"u\":\"\\u00e9\","
    "\"nl\":\"a\\r\\nb\",\"q\":\"say \\\"x\\\"\",\"%site\":\"17%3A%2f\","
    "\"%odd\":\"%ff\",\"n\":5,\"both\":\"plain\",\"%both\":\"other\"}";


static void
test_expand(void **state)
{
    int       rc;
    char      out[64], why[IL_LOOKUP_DETAIL_CAP];
    size_t    i, len;
    il_str_t  tmpl;

    static const struct {
        il_lookup_place_e   place;
        const char         *tmpl;
        const char         *want;      /* NULL: refused with why */
        const char         *why;
    } rows[] = {
        { IL_LOOKUP_URL, "https://h/x?k={work_key}",
          "https://h/x?k=a%3Ab%2Fc", NULL },
        { IL_LOOKUP_URL, "{site}/{u}/{odd}", "17%3A%2F/%C3%A9/%FF", NULL },
        { IL_LOOKUP_URL, "{both}", "plain", NULL },
        { IL_LOOKUP_URL, "/{dots}/", NULL,
          "the field {dots} cannot stand in a URL" },
        { IL_LOOKUP_URL, "/{dot}", NULL,
          "the field {dot} cannot stand in a URL" },
        { IL_LOOKUP_URL, "/{nobody}", NULL,
          "the field {nobody} has no value here" },
        { IL_LOOKUP_URL, "/{ref}", NULL,
          "the field {ref} has no value here" },
        { IL_LOOKUP_URL, "/{empty}", NULL,
          "the field {empty} has no value here" },
        { IL_LOOKUP_URL, "/{n}", NULL, "the field {n} has no value here" },
        { IL_LOOKUP_URL, "/{", NULL, "a brace is not part of a {field}" },
        { IL_LOOKUP_URL, "/{}", NULL, "a brace is not part of a {field}" },
        { IL_LOOKUP_URL, "/{A}", NULL, "a brace is not part of a {field}" },
        { IL_LOOKUP_URL, "/}", NULL, "a brace is not part of a {field}" },
        { IL_LOOKUP_HEADER, "v {work_key}", "v a:b/c", NULL },
        { IL_LOOKUP_HEADER, "{nl}", NULL,
          "the field {nl} cannot stand in a header" },
        { IL_LOOKUP_HEADER, "{u}", NULL,
          "the field {u} cannot stand in a header" },
        { IL_LOOKUP_JSON, "{\"a\": {\"q\": \"{q}{nl}\"}}",
          "{\"a\": {\"q\": \"say \\\"x\\\"a\\r\\nb\"}}", NULL },
        { IL_LOOKUP_JSON, "{odd}", NULL, "the field {odd} is not UTF-8" },
        { IL_LOOKUP_FORM, "a={q}&b={dots}", "a=say%20%22x%22&b=..", NULL },
        { IL_LOOKUP_FORM, "{u}{u}{u}{u}{u}{u}{u}{u}{u}{u}{u}", NULL,
          "it is too long with its fields" },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        tmpl = il_exact(il_cstr(rows[i].tmpl));
        why[0] = '\0';
        rc = il_lookup_expand(tmpl, il_cstr(vars), rows[i].place, out,
                              sizeof(out), &len, why, sizeof(why));

        if (rows[i].want != NULL) {
            if (rc != 0) {
                fail_msg("%s: %s", rows[i].tmpl, why);
            }

            il_assert_text(out, len, rows[i].want);

        } else {
            assert_int_equal(rc, -1);
            assert_string_equal(why, rows[i].why);
        }

        il_drop(tmpl);
    }
}


static const char  spec[] = "{\"type\":\"http\","
    "\"found\":{\"status\":[200,206],\"pointer\":\"/state\","
    "\"equals\":[\"paid\",1,true,null,\"\\u00e9\"]},"
    "\"not_found\":{\"status\":[200,404],\"pointer\":\"/items/0\","
    "\"missing\":true},"
    "\"ref_pointer\":\"/id\",\"result_pointer\":\"/out\"}";

static const char  plain[] = "{\"found\":{\"status\":[200]},"
    "\"not_found\":{\"status\":[404]},\"result_pointer\":\"\"}";

static const char  present[] =
    "{\"found\":{\"status\":[200],\"pointer\":\"/a\"}}";


static void
test_judge(void **state)
{
    size_t               i;
    il_str_t             s, body;
    il_lookup_verdict_t  v;

    static const struct {
        const char          *spec;
        int                  status;
        const char          *body;     /* NULL: none */
        il_lookup_answer_e   answer;
        const char          *detail;   /* its beginning */
        const char          *ref;
        const char          *result;
    } rows[] = {
        { spec, 200, "{\"state\":\"paid\",\"items\":[1],\"id\":\"ch_1\","
          "\"out\":{\"a\":1.10}}", IL_LOOKUP_FOUND, "status 200", "ch_1",
          "{\"a\":1.10}" },
        { spec, 206, "{\"state\":\"p\\u0061id\",\"items\":[0],\"id\":17}",
          IL_LOOKUP_FOUND, "status 206", "17", "" },
        { spec, 200, "{\"state\":1,\"items\":[0]}", IL_LOOKUP_FOUND,
          "status 200", "", "" },
        { spec, 200, "{\"state\":null,\"items\":[0]}", IL_LOOKUP_FOUND,
          "status 200", "", "" },
        { spec, 200, "{\"state\":\"\xc3\xa9\",\"items\":[0]}",
          IL_LOOKUP_FOUND, "status 200", "", "" },
        { spec, 200, "{\"state\":1.0,\"items\":[0]}", IL_LOOKUP_UNCLEAR,
          "status 200, and the answer matches neither", "", "" },
        { spec, 200, "{\"state\":\"1\",\"items\":[0]}", IL_LOOKUP_UNCLEAR,
          "status 200, and the answer matches neither", "", "" },
        { spec, 200, "{\"state\":false,\"items\":[0]}", IL_LOOKUP_UNCLEAR,
          "status 200, and the answer matches neither", "", "" },
        { spec, 404, "{\"items\":[]}", IL_LOOKUP_NOT_FOUND, "status 404",
          "", "" },
        { spec, 200, "{\"state\":\"open\"}", IL_LOOKUP_NOT_FOUND,
          "status 200", "", "" },
        { spec, 200, "{\"state\":\"paid\"}", IL_LOOKUP_UNCLEAR,
          "status 200, and the answer matches both", "", "" },
        { spec, 500, "{\"state\":\"paid\",\"items\":[1]}",
          IL_LOOKUP_UNCLEAR, "status 500, and the answer matches neither",
          "", "" },
        { spec, 200, "not JSON", IL_LOOKUP_UNCLEAR,
          "status 200, and its body is not JSON", "", "" },
        { spec, 200, "", IL_LOOKUP_UNCLEAR,
          "status 200, and its body is not JSON", "", "" },
        { spec, 200, NULL, IL_LOOKUP_UNCLEAR,
          "status 200, and its body is not JSON", "", "" },
        { spec, 200, "{\"state\":\"paid\",\"state\":\"open\","
          "\"items\":[1]}", IL_LOOKUP_UNCLEAR,
          "status 200, and its body is not JSON", "", "" },
        { spec, 200, "{\"state\":\"paid\",\"items\":[1]", IL_LOOKUP_UNCLEAR,
          "status 200, and its body is not JSON", "", "" },
        { spec, 200, "{\"state\":\"paid\",\"items\":[1],"
          "\"id\":\"a\\nb\"}", IL_LOOKUP_FOUND, "status 200", "", "" },
        { spec, 200, "{\"state\":\"paid\",\"items\":[1],\"id\":{}}",
          IL_LOOKUP_FOUND, "status 200", "", "" },

        { plain, 200, "not JSON", IL_LOOKUP_FOUND, "status 200", "", "" },
        { plain, 200, " [1, 2] ", IL_LOOKUP_FOUND, "status 200", "",
          "[1, 2]" },
        { plain, 200, NULL, IL_LOOKUP_FOUND, "status 200", "", "" },
        { plain, 404, NULL, IL_LOOKUP_NOT_FOUND, "status 404", "", "" },
        { plain, 20, NULL, IL_LOOKUP_UNCLEAR, "status 20,", "", "" },

        { present, 200, "{\"a\":0}", IL_LOOKUP_FOUND, "status 200", "", "" },
        { present, 200, "{\"a\":null}", IL_LOOKUP_UNCLEAR, "status 200,",
          "", "" },
        { present, 200, "{}", IL_LOOKUP_UNCLEAR, "status 200,", "", "" },
        { "{}", 200, "{}", IL_LOOKUP_UNCLEAR, "status 200,", "", "" },
        { "[", 200, "{}", IL_LOOKUP_UNCLEAR, "status 200,", "", "" },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        s = il_exact(il_cstr(rows[i].spec));
        body = il_exact(il_cstr(rows[i].body));

        il_lookup_judge(s, rows[i].status,
                        rows[i].body == NULL ? NULL : &body, &v);

        if (v.answer != rows[i].answer
            || strncmp(v.detail, rows[i].detail, strlen(rows[i].detail)) != 0)
        {
            fail_msg("row %zu (%s): %s, %s", i, rows[i].body,
                     il_lookup_name(v.answer), v.detail);
        }

        assert_string_equal(v.ref, rows[i].ref);
        il_assert_text(v.result.data, v.result.len, rows[i].result);

        il_drop(body);
        il_drop(s);
    }
}


static void
test_text(void **state)
{
    char    out[8];
    size_t  len;

    (void) state;

    assert_int_equal(il_lookup_text(il_lit("{\"a\":\"\\u0041b\"}"), "a", out,
                                    sizeof(out), &len), 1);
    assert_string_equal(out, "Ab");
    assert_int_equal(il_lookup_text(il_lit("{\"a\":null}"), "a", out,
                                    sizeof(out), &len), 0);
    assert_int_equal(il_lookup_text(il_lit("{}"), "a", out, sizeof(out),
                                    &len), 0);
    assert_int_equal(il_lookup_text(il_lit("{\"a\":1}"), "a", out,
                                    sizeof(out), &len), -1);
    assert_int_equal(il_lookup_text(il_lit("{\"a\":\"1234567\"}"), "a", out,
                                    sizeof(out), &len), 1);
    assert_int_equal(len, 7);
    assert_int_equal(il_lookup_text(il_lit("{\"a\":\"12345678\"}"), "a", out,
                                    sizeof(out), &len), -1);
    assert_int_equal(len, 0);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_expand),
        cmocka_unit_test(test_judge),
        cmocka_unit_test(test_text),
    };

    return il_unit_run(tests);
}
