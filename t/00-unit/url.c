/*
 * url.c: which URLs and addresses a program may call by itself.
 */

#include <arpa/inet.h>

#include "il_addr.h"
#include "il_url.h"
#include "unit.h"


static il_addr_class_e
class_of(const char *text)
{
    uint8_t  a[16];

    if (inet_pton(AF_INET, text, a) == 1) {
        return il_addr_class4(a);
    }

    assert_int_equal(inet_pton(AF_INET6, text, a), 1);

    return il_addr_class6(a);
}


static void
test_addresses(void **state)
{
    size_t  i;

    static const struct {
        const char       *text;
        il_addr_class_e   class;
    } rows[] = {
        { "8.8.8.8", IL_ADDR_PUBLIC },
        { "1.0.0.0", IL_ADDR_PUBLIC },
        { "9.255.255.255", IL_ADDR_PUBLIC },
        { "10.0.0.0", IL_ADDR_PRIVATE },
        { "10.255.255.255", IL_ADDR_PRIVATE },
        { "11.0.0.0", IL_ADDR_PUBLIC },
        { "0.0.0.0", IL_ADDR_NEVER },
        { "0.1.2.3", IL_ADDR_NEVER },
        { "100.63.255.255", IL_ADDR_PUBLIC },
        { "100.64.0.0", IL_ADDR_PRIVATE },
        { "100.127.255.255", IL_ADDR_PRIVATE },
        { "100.128.0.0", IL_ADDR_PUBLIC },
        { "127.0.0.1", IL_ADDR_PRIVATE },
        { "127.255.255.254", IL_ADDR_PRIVATE },
        { "128.0.0.1", IL_ADDR_PUBLIC },
        { "169.254.169.254", IL_ADDR_NEVER },
        { "169.253.255.255", IL_ADDR_PUBLIC },
        { "172.15.255.255", IL_ADDR_PUBLIC },
        { "172.16.0.1", IL_ADDR_PRIVATE },
        { "172.31.255.255", IL_ADDR_PRIVATE },
        { "172.32.0.0", IL_ADDR_PUBLIC },
        { "192.0.0.8", IL_ADDR_PRIVATE },
        { "192.0.2.1", IL_ADDR_PRIVATE },
        { "192.167.255.255", IL_ADDR_PUBLIC },
        { "192.168.0.1", IL_ADDR_PRIVATE },
        { "198.17.255.255", IL_ADDR_PUBLIC },
        { "198.18.0.1", IL_ADDR_PRIVATE },
        { "198.19.255.255", IL_ADDR_PRIVATE },
        { "198.51.100.7", IL_ADDR_PRIVATE },
        { "203.0.113.7", IL_ADDR_PRIVATE },
        { "223.255.255.255", IL_ADDR_PUBLIC },
        { "224.0.0.1", IL_ADDR_NEVER },
        { "239.255.255.255", IL_ADDR_NEVER },
        { "240.0.0.1", IL_ADDR_NEVER },
        { "255.255.255.255", IL_ADDR_NEVER },

        { "2606:4700::1111", IL_ADDR_PUBLIC },
        { "2a00:1450::1", IL_ADDR_PUBLIC },
        { "::", IL_ADDR_NEVER },
        { "::1", IL_ADDR_PRIVATE },
        { "::2", IL_ADDR_NEVER },                  /* ::0.0.0.2 */
        { "::8.8.8.8", IL_ADDR_PRIVATE },
        { "::ffff:8.8.8.8", IL_ADDR_PRIVATE },
        { "::ffff:127.0.0.1", IL_ADDR_PRIVATE },
        { "::ffff:169.254.169.254", IL_ADDR_NEVER },
        { "64:ff9b::8.8.8.8", IL_ADDR_PRIVATE },
        { "64:ff9b::169.254.169.254", IL_ADDR_NEVER },
        { "64:ff9b:1::1", IL_ADDR_PRIVATE },
        { "100::1", IL_ADDR_NEVER },
        { "2001::1", IL_ADDR_PRIVATE },            /* Teredo */
        { "2001:db8::1", IL_ADDR_PRIVATE },
        { "2001:200::1", IL_ADDR_PUBLIC },
        { "2002:7f00:1::1", IL_ADDR_PRIVATE },     /* 6to4 of 127.0.0.1 */
        { "2002:a9fe:a9fe::1", IL_ADDR_NEVER },    /* of 169.254.169.254 */
        { "3fff::1", IL_ADDR_PRIVATE },
        { "3fff:1000::1", IL_ADDR_PUBLIC },
        { "4000::1", IL_ADDR_NEVER },
        { "fc00::1", IL_ADDR_PRIVATE },
        { "fdff::1", IL_ADDR_PRIVATE },
        { "fe80::1", IL_ADDR_NEVER },
        { "febf::1", IL_ADDR_NEVER },
        { "fec0::1", IL_ADDR_PRIVATE },
        { "ff02::1", IL_ADDR_NEVER },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        if (class_of(rows[i].text) != rows[i].class) {
            fail_msg("%s is %d, want %d", rows[i].text,
                     (int) class_of(rows[i].text), (int) rows[i].class);
        }
    }
}


static void
test_good_urls(void **state)
{
    size_t       i;
    il_str_t     s;
    il_url_t     url;
    const char  *why;

    static const struct {
        const char  *text;
        int          https;
        const char  *host;
        int          family;
        unsigned     port;
        const char  *target;
    } rows[] = {
        { "https://api.example", 1, "api.example", 0, 443, "" },
        { "HTTP://API.Example/", 0, "API.Example", 0, 80, "/" },
        { "https://a-b.example:8443/x?y=%20z", 1, "a-b.example", 0, 8443,
          "/x?y=%20z" },
        { "http://localhost?q", 0, "localhost", 0, 80, "?q" },
        { "http://127.0.0.1:1/", 0, "127.0.0.1", 4, 1, "/" },
        { "http://[::1]:65535", 0, "::1", 6, 65535, "" },
        { "https://[2001:db8::a.b]/", 0, NULL, 0, 0, NULL },
        { "https://1.example/", 1, "1.example", 0, 443, "/" },
        { "https://x/a@b:c", 1, "x", 0, 443, "/a@b:c" },
        { "https://x/?u=http://y", 1, "x", 0, 443, "/?u=http://y" },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        s = il_exact(il_cstr(rows[i].text));
        why = il_url_parse(s, &url);

        if (rows[i].host == NULL) {
            assert_non_null(why);
            il_drop(s);
            continue;
        }

        if (why != NULL) {
            fail_msg("%s: %s", rows[i].text, why);
        }

        assert_int_equal(url.https, rows[i].https);
        il_assert_text(url.host.data, url.host.len, rows[i].host);
        assert_int_equal(url.family, rows[i].family);
        assert_int_equal(url.port, rows[i].port);
        il_assert_text(url.target.data, url.target.len, rows[i].target);
        il_drop(s);
    }
}


static void
test_bad_urls(void **state)
{
    size_t       i;
    il_str_t     s;
    il_url_t     url;
    const char  *why;

    static const struct {
        const char  *text;
        const char  *why;
    } rows[] = {
        { "", "does not begin with https:// or http://" },
        { "file:///etc/passwd", "does not begin with https:// or http://" },
        { "ftp://a/", "does not begin with https:// or http://" },
        { "//a/", "does not begin with https:// or http://" },
        { "http:/a/", "does not begin with https:// or http://" },
        { " http://a/", "does not begin with https:// or http://" },
        { "http://", "has no host" },
        { "http:///x", "has no host" },
        { "http://:80/", "has no host" },
        { "http://u@a/", "has a user or password" },
        { "http://u:p@a/", "has a user or password" },
        { "http://@a/", "has a user or password" },
        { "http://a#@b/", "has a fragment" },
        { "http://a/#x", "has a fragment" },
        { "http://a\\@b/", "has a character that must be percent-encoded" },
        { "http://a\tb/", "has a character that must be percent-encoded" },
        { "http://a/\r\nX: y",
          "has a character that must be percent-encoded" },
        { "http://a/\xc3\xa9",
          "has a character that must be percent-encoded" },
        { "http://a/{x}", "has a character that must be percent-encoded" },
        { "http://a/%2", "has a \"%\" without two hex digits" },
        { "http://a%2eb/", "has a host with an odd character" },
        { "http://a_b/", "has a host with an odd character" },
        { "http://a,b/", "has a host with an odd character" },
        { "http://a./", "has a host with a dot too many" },
        { "http://.a/", "has a host with a dot too many" },
        { "http://a..b/", "has a host with a dot too many" },
        { "http://-a/", "has a host that is no name" },
        { "http://a-/", "has a host that is no name" },
        { "http://127.0.0.1./", "has a host with a dot too many" },
        { "http://2130706433/",
          "has an address that is not in its usual form" },
        { "http://0x7f000001/",
          "has an address that is not in its usual form" },
        { "http://0x7f.0.0.0x1/",
          "has an address that is not in its usual form" },
        { "http://0177.0.0.1/",
          "has an address that is not in its usual form" },
        { "http://127.1/", "has an address that is not in its usual form" },
        { "http://127.0.0.256/",
          "has an address that is not in its usual form" },
        { "http://1.2.3.4.5/",
          "has an address that is not in its usual form" },
        { "http://example.0x10/",
          "has an address that is not in its usual form" },
        { "http://[::1/", "has an address that is not in its usual form" },
        { "http://[]/", "has an address that is not in its usual form" },
        { "http://[fe80::1%25lo]/",
          "has an address that is not in its usual form" },
        { "http://[127.0.0.1]/",
          "has an address that is not in its usual form" },
        { "http://[::1]x/", "has something odd behind its host" },
        { "http://[::1][::2]/", "has something odd behind its host" },
        { "http://a:/", "has a port that is none" },
        { "http://a:0/", "has a port that is none" },
        { "http://a:080/", "has a port that is none" },
        { "http://a:65536/", "has a port that is none" },
        { "http://a:655351/", "has something odd behind its host" },
        { "http://a:80x/", "has something odd behind its host" },
        { "http://a:80:80/", "has something odd behind its host" },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        s = il_exact(il_cstr(rows[i].text));
        why = il_url_parse(s, &url);

        if (why == NULL || strcmp(why, rows[i].why) != 0) {
            fail_msg("%s: %s, want %s", rows[i].text, why == NULL ? "good"
                     : why, rows[i].why);
        }

        il_drop(s);
    }

    assert_non_null(il_url_parse(il_lit("http://a\0b/"), &url));
}


static int
listed(const char *list, const char *text)
{
    il_url_t  url;

    assert_null(il_url_parse(il_cstr(text), &url));

    return il_hosts_match(il_cstr(list), &url);
}


static void
test_hosts(void **state)
{
    il_str_t    bad;

    static const char  list[] = "api.example, pay.example:8443\t10.1.2.3:80 "
                                "[2001:db8::1]";

    (void) state;

    assert_true(listed(list, "https://api.example/x"));
    assert_true(listed(list, "https://API.EXAMPLE/x"));
    assert_true(listed(list, "http://api.example/"));
    assert_false(listed(list, "https://api.example:8443/"));
    assert_false(listed(list, "https://api.example.evil/"));
    assert_false(listed(list, "https://xapi.example/"));
    assert_false(listed(list, "https://example/"));
    assert_true(listed(list, "https://pay.example:8443/"));
    assert_false(listed(list, "https://pay.example/"));
    assert_true(listed(list, "http://10.1.2.3/"));
    assert_false(listed(list, "https://10.1.2.3/"));
    assert_true(listed(list, "https://[2001:db8:0::1]/"));
    assert_false(listed(list, "https://[2001:db8::2]/"));
    assert_false(listed("", "https://api.example/"));

    assert_true(il_hosts_valid(il_cstr(list), &bad));
    assert_true(il_hosts_valid(il_cstr(" , "), &bad));
    assert_false(il_hosts_valid(il_cstr("a.example http://b"), &bad));
    il_assert_text(bad.data, bad.len, "http://b");
    assert_false(il_hosts_valid(il_cstr("*.example"), &bad));
    assert_false(il_hosts_valid(il_cstr("10.0.0.0/8"), &bad));
    assert_false(il_hosts_valid(il_cstr("a:b"), &bad));

    /* any port of a host */
    assert_true(il_hosts_valid(il_cstr("a.example:*, [::1]:* 10.0.0.1:*"),
                               &bad));
    assert_false(il_hosts_valid(il_cstr("a:80:*"), &bad));
    assert_false(il_hosts_valid(il_cstr("[::1]:80:*"), &bad));
    assert_false(il_hosts_valid(il_cstr(":*"), &bad));
    assert_false(il_hosts_valid(il_cstr("*:*"), &bad));
    assert_true(listed("a.example:*", "http://a.example:8123/"));
    assert_true(listed("a.example:*", "https://a.example/"));
    assert_true(listed("[::1]:*", "http://[::1]:9/"));
    assert_false(listed("a.example:*", "http://b.example:8123/"));
    assert_false(listed("a.example:*", "http://a.example.org/"));
}


static void
test_same_host(void **state)
{
    size_t    i;
    il_url_t  a, b;

    static const struct {
        const char  *a, *b;
        int          same;
    } rows[] = {
        { "https://a/x", "https://A:443/y", 1 },
        { "https://a/x", "http://a/x", 0 },
        { "https://a/x", "https://a:444/x", 0 },
        { "https://a/x", "https://b/x", 0 },
        { "http://10.0.0.1/", "http://10.0.0.1:80/", 1 },
        { "http://10.0.0.1/", "http://10.0.0.2/", 0 },
        { "http://[::1]/", "http://[0::1]/", 1 },
    };

    (void) state;

    for (i = 0; i < il_rows(rows); i++) {
        assert_null(il_url_parse(il_cstr(rows[i].a), &a));
        assert_null(il_url_parse(il_cstr(rows[i].b), &b));
        assert_int_equal(il_url_same_host(&a, &b), rows[i].same);
    }
}


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_good_urls),
        cmocka_unit_test(test_bad_urls),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_same_host),
    };

    return il_unit_run(tests);
}
