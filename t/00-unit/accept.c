/*
 * accept.c: which of two representations an Accept header asks for.
 */

#include "il_accept.h"
#include "unit.h"


static void
test_accept(void **state)
{
    size_t  i;

    static const struct {
        const char  *accept;
        int          csv;
    } rows[] = {
        { "", 0 },
        { "*/*", 0 },
        { "text/csv", 1 },
        { "TEXT/Csv", 1 },
        { " text/csv ; header=present ", 1 },
        { "text/csv;q=0", 0 },
        { "text/csv; q=0.000", 0 },
        { "text/csv;q=0, */*", 0 },
        { "text/csv;q=0.001", 1 },
        { "text/csv; Q=0.5, application/json;q=0.9", 0 },
        { "application/json, text/csv;q=0.9", 0 },
        { "application/json;q=0.1, text/csv;q=0.2", 1 },
        { "application/json;q=0.8,text/csv", 1 },
        { "text/csv, application/json", 1 },
        { "application/json, text/csv", 0 },
        { "text/csv, */*", 1 },
        { "*/*, text/csv", 1 },
        { "text/csv;q=0.5, */*", 0 },
        { "text/csv, */*;q=0.1", 1 },
        { "text/*", 1 },
        { "text/*, application/json", 0 },
        { "text/*;q=0, */*", 0 },
        { "text/*;q=0, text/csv", 1 },
        { "text/*, text/csv;q=0", 0 },
        { "text/html, text/csv;q=0.9", 1 },
        { "text/csvx", 0 },
        { "xtext/csv", 0 },
        { "text/cs", 0 },
        { "text/html;a=\"text/csv, text/csv\"", 0 },
        { "text/html;a=\"\\\", text/csv\", text/csv", 1 },
        { "text/csv;a=\"x;q=0\"", 1 },
        { "text/csv;q=x", 0 },
        { "text/csv;q=", 0 },
        { "text/csv;q=1.001", 0 },
        { "text/csv;q=2", 0 },
        { "text/csv;q=0.1234", 0 },
        { "text/csv;q=1.000", 1 },
        { "text/csv;q=1.", 1 },
        { ",,text/csv,,", 1 },
        { ";", 0 },
        { "\"", 0 },
        { "\"\\", 0 },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        if (il_accept_prefers(il_cstr(rows[i].accept), "text/csv",
                              "application/json")
            != rows[i].csv)
        {
            fail_msg("Accept: %s", rows[i].accept);
        }
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_accept),
    };

    return il_unit_run(tests);
}
