/*
 * split.c: the list of the elements of a body: what is written is read, and
 * what is not a list is refused.
 */

#include "il_split.h"
#include "unit.h"


static char  text[70000];


/* A list of e[0..n), in a heap block of its size. */

static il_str_t
make(const il_split_t *e, size_t n)
{
    char    *p, *out;
    size_t   i, size;

    size = IL_SPLIT_HEAD;

    for (i = 0; i < n; i++) {
        assert_true(il_split_size(&e[i]) > 0);
        size += il_split_size(&e[i]);
    }

    out = malloc(size);
    assert_non_null(out);

    il_split_head(out, n);
    p = out + IL_SPLIT_HEAD;

    for (i = 0; i < n; i++) {
        p += il_split_put(p, &e[i]);
    }

    assert_int_equal((size_t) (p - out), size);

    return il_str(out, size);
}


static void
same(il_str_t got, il_str_t want)
{
    assert_true(il_str_eq(got, want));
}


static void
test_again(void **state)
{
    size_t      i, pos;
    il_str_t    list;
    il_split_t  e;

    static const il_split_t  all[] = {
        { 1, 2, il_string(""), il_string(""), il_string("webhook"),
          il_string("a:b"), il_string("key") },
        { 3, 0xfffffffc, il_string("work-key-incomplete"),
          il_string("A part is empty."), il_string(""), il_string(""),
          il_string("") },
        { 0, 1, il_string(""), il_string(""), il_string("k"),
          il_string("w"), il_string("") }
    };

    (void) state;

    list = make(all, 3);
    assert_memory_equal(list.data, "ils1\0\0\0\3\0\0\0\1\0\0\0\2\0\0", 18);
    assert_int_equal(il_split_count(list), 3);

    pos = IL_SPLIT_HEAD;

    for (i = 0; i < 3; i++) {
        assert_int_equal(il_split_next(list, &pos, 0xffffffff, &e), 1);
        assert_int_equal(e.offset, all[i].offset);
        assert_int_equal(e.length, all[i].length);
        same(e.problem, all[i].problem);
        same(e.detail, all[i].detail);
        same(e.kind, all[i].kind);
        same(e.work_key, all[i].work_key);
        same(e.idem, all[i].idem);
    }

    assert_int_equal(pos, list.len);
    assert_int_equal(il_split_next(list, &pos, 0xffffffff, &e), 0);
    il_drop(list);

    list = make(NULL, 0);
    pos = IL_SPLIT_HEAD;
    assert_int_equal(il_split_count(list), 0);
    assert_int_equal(il_split_next(list, &pos, 0, &e), 0);
    il_drop(list);
}


static void
test_sizes(void **state)
{
    size_t      pos;
    il_str_t    list;
    il_split_t  e, back;

    (void) state;

    memset(&e, 0, sizeof(e));
    memset(text, 'x', sizeof(text));
    e.length = 1;
    e.work_key = il_str(text, 65535);
    assert_int_equal(il_split_size(&e), 18 + 65535);

    list = make(&e, 1);
    pos = IL_SPLIT_HEAD;
    assert_int_equal(il_split_next(list, &pos, 1, &back), 1);
    same(back.work_key, e.work_key);
    il_drop(list);

    e.work_key.len = 65536;
    assert_int_equal(il_split_size(&e), 0);
    e.work_key.len = 0;
    assert_int_equal(il_split_size(&e), 18);
    e.offset = 0x100000000;
    assert_int_equal(il_split_size(&e), 0);
    e.offset = 0;
    e.length = 0x100000000;
    assert_int_equal(il_split_size(&e), 0);
}


/* Every list that is cut, and every place that is not in the body. */

static void
test_refused(void **state)
{
    char        head[IL_SPLIT_HEAD];
    size_t      n, pos;
    il_str_t    list, cut;
    il_split_t  back;

    static const il_split_t  e = { 5, 10, il_string("p"), il_string("d"),
                                   il_string("k"), il_string("w"),
                                   il_string("i") };
    static const il_split_t  empty = { 5, 0, il_string(""), il_string(""),
                                       il_string("k"), il_string("w"),
                                       il_string("i") };

    (void) state;

    list = make(&e, 1);

    for (n = 0; n < list.len; n++) {
        cut = il_exact(il_str(list.data, n));
        pos = IL_SPLIT_HEAD;

        assert_int_equal(il_split_count(cut), n < IL_SPLIT_HEAD ? -1 : 1);

        if (n > IL_SPLIT_HEAD) {
            assert_int_equal(il_split_next(cut, &pos, 15, &back), -1);
        }

        il_drop(cut);
    }

    for (n = 0; n < 20; n++) {
        pos = IL_SPLIT_HEAD;
        assert_int_equal(il_split_next(list, &pos, n, &back),
                         n < 15 ? -1 : 1);
    }

    il_drop(list);

    list = make(&empty, 1);
    pos = IL_SPLIT_HEAD;
    assert_int_equal(il_split_next(list, &pos, 15, &back), -1);
    il_drop(list);

    il_split_head(head, IL_SPLIT_MAX);
    assert_int_equal(il_split_count(il_str(head, sizeof(head))), 10000);
    il_split_head(head, IL_SPLIT_MAX + 1);
    assert_int_equal(il_split_count(il_str(head, sizeof(head))), -1);
    il_split_head(head, 0xffffffff);
    assert_int_equal(il_split_count(il_str(head, sizeof(head))), -1);
    assert_int_equal(il_split_count(il_lit("ils2\0\0\0\1")), -1);
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_refused)
    };

    return il_unit_run(tests);
}
