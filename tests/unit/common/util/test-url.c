/*
 * Addresses taken to pieces, and held against rules. Each case fails by a small mistake in url.c
 * that `tools/mutate common/util/url.c` makes: a bound one off, a comparison turned round.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <limits.h>

#include "common/util/url.h"

static void test_parts(void **state)
{
	static const struct {
		const char *text;
		enum url_scheme scheme;
		const char *host;
		unsigned port;
		const char *path;
	} cases[] = {
		{ "http://h/x", URL_HTTP, "h", 80, "/x" },
		{ "https://h/", URL_HTTPS, "h", 443, "/" },
		{ "HttpS://a-b_c.Example9.org:1/x/y", URL_HTTPS, "a-b_c.Example9.org", 1, "/x/y" },
		{ "http://h:65535/x", URL_HTTP, "h", 65535, "/x" },
		{ "http://h:00080/x", URL_HTTP, "h", 80, "/x" },
		{ "http://h/x?q=/y", URL_HTTP, "h", 80, "/x" },
		{ "http://h/x#y", URL_HTTP, "h", 80, "/x" },
		{ "http://h/u:p@x", URL_HTTP, "h", 80, "/u:p@x" },
		{ "http://[::]/x", URL_HTTP, "[::]", 80, "/x" },
		{ "http://[::ffff:1.2.3.4]:81/x", URL_HTTP, "[::ffff:1.2.3.4]", 81, "/x" },
		{ "http://[fe80::1%eth0]/x", URL_HTTP, "[fe80::1%eth0]", 80, "/x" },
		{ "s3://b/k", URL_S3, "b", 0, "k" },
		{ "s3://b//k?x#y", URL_S3, "b", 0, "/k?x#y" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error err = ERROR_INIT;
		struct url url;

		if (url_parse(&url, cases[i].text, &err) < 0)
			fail_msg("%s: %s", cases[i].text, err.text);
		assert_int_equal(url.scheme, cases[i].scheme);
		assert_int_equal(url.n_host, strlen(cases[i].host));
		assert_memory_equal(url.host, cases[i].host, url.n_host);
		assert_int_equal(url.port, cases[i].port);
		assert_int_equal(url.n_path, strlen(cases[i].path));
		assert_memory_equal(url.path, cases[i].path, url.n_path);
	}
}

static void test_refusals_say_what_is_wrong(void **state)
{
	static const struct {
		const char *text, *word;
	} cases[] = {
		{ "", "is no address" },
		{ "ftp://h/x", "is no address" },
		{ "http:/h/x", "is no address" },
		{ "xhttp://h/x", "is no address" },
		{ "http://h", "the address has no path" },
		{ "http://h?/x", "the address has no path" },
		{ "http://h#/x", "the address has no path" },
		{ "s3://b", "names a bucket and nothing in it" },
		{ "http:///x", "the host is missing" },
		{ "http://:80/x", "the host is missing" },
		{ "s3:///k", "the bucket is missing" },
		{ "http://u@h/x", "a user or password" },
		{ "http://u:p@h/x", "a user or password" },
		{ "http://u@h", "a user or password" },
		{ "http://h:/x", "the port is not between" },
		{ "http://h:0/x", "the port is not between" },
		{ "http://h:65536/x", "the port is not between" },
		{ "http://h:655350/x", "the port is not between" },
		{ "http://h:8o/x", "the port is not a number" },
		{ "http://h:-1/x", "the port is not a number" },
		{ "http://h:4294967376/x", "the port is not between" }, /* 80, where it wraps */
		{ "http://a b/x", "the host has a byte" },
		{ "http://a%2fb/x", "the host has a byte" },
		{ "http://[::1]x/y", "the host has a byte" },
		{ "s3://b:80/k", "the bucket has a byte" },
		{ "s3://b%/k", "the bucket has a byte" },
		{ "http://[::1/x", "has no ]" },
		{ "http://[::1-]/x", "is no IPv6 address" },
		{ "http://[]/x", "the host is missing" },
		{ "http://[:]/x", "the host is missing" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct url url = { .port = 4711 };
		struct error err = ERROR_INIT;

		if (url_parse(&url, cases[i].text, &err) != -EINVAL ||
		    !strstr(err.text, cases[i].word))
			fail_msg("%s: %s", cases[i].text, err.text);
		assert_int_equal(error_to_exit(&err), STAGE_EXIT_USAGE);
		assert_int_equal(url.port, 4711);
	}
}

static void test_where_the_path_begins(void **state)
{
	static const struct {
		const char *text, *path;
	} cases[] = {
		{ "http://h:1/x/y", "/x/y" }, { "s3://b/", "/" },	{ "http://h", NULL },
		{ "http://h?x/y", NULL },     { "http://h#x/y", NULL }, { "h/x", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *path = url_find_path(cases[i].text);

		assert_int_equal(path != NULL, cases[i].path != NULL);
		if (path)
			assert_string_equal(path, cases[i].path);
	}
}

static void test_what_climbs(void **state)
{
	static const struct {
		const char *text;
		bool plain, percent;
	} cases[] = {
		{ "..", true, true },	     { "../a", true, true },	 { "a/..", true, true },
		{ "a/../b", true, true },    { "{..,a}", true, true },	 { "{a,..}", true, true },
		{ "{a,b}..", true, true }, /* the } may be the end of nothing: "{a/,b/}.." */
		{ "..}", true, true },	     { "..,", true, true },	 { "..{", true, true },
		{ ".", false, false },	     { "./", false, false },	 { "a/./b", false, false },
		{ "...", false, false },     { "..a", false, false },	 { "a..", false, false },
		{ "a../b", false, false },   { "a/.b", false, false },	 { "%2e%2e", false, true },
		{ "a/%2E./b", false, true }, { ".%2e/b", false, true },	 { "%2e", false, false },
		{ "%2e%2ea", false, false }, { "%3e%2e", false, false }, { "%2f.", false, false },
		{ "%2e%2f", false, false },  { "x2e.", false, false },	 { "", false, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *text = cases[i].text;

		if (url_climbs(text, strlen(text), false) != cases[i].plain ||
		    url_climbs(text, strlen(text), true) != cases[i].percent)
			fail_msg("%s", text);
	}
	/* what is behind the end is not looked at */
	assert_true(url_climbs("..a", 2, false));
	assert_false(url_climbs("../", 1, false));
	assert_false(url_climbs(".%2e/", 3, true));
	assert_false(url_climbs("%2e.", 3, true));
}

static void test_rules(void **state)
{
	static const struct {
		const char *pattern, *address;
		bool expect;
	} cases[] = {
		{ "http://h/p/**", "http://h/p/x", true },
		{ "http://h/p/**", "http://H/p/x?sig=1", true },
		{ "http://h/p/**", "http://h:80/p/x", true },
		{ "http://h/p/**", "http://h:81/p/x", false },
		{ "http://h/p/**", "https://h/p/x", false },
		{ "http://h:443/p/**", "https://h/p/x", false },
		{ "http://h/p/**", "http://hh/p/x", false },
		{ "http://ab/p/**", "http://ac/p/x", false },
		{ "http://ab/p/**", "http://cb/p/x", false },
		{ "http://h/p/**", "http://h/q/x", false },
		{ "http://h/p/**", "/p/x", false },
		{ "/p/**", "http://h/p/x", false },
		{ "http://h/**", "http://h/a/../b", false },
		{ "http://h/**", "http://h/a/%2e%2E/b", false },
		{ "http://h/**", "http://h/a%2f..", false },
		{ "http://h/**", "http://h/a%2F../b", false },
		{ "http://h/**", "http://h/a%2f%2e%2e%2fb", false },
		{ "http://h/**", "http://h/a\\..\\b", false },
		{ "http://h/**", "http://h/a%5c..%5Cb", false },
		{ "http://h/**", "http://h/%7b..", false },
		{ "http://h/**", "http://h/a%7c..", true },
		{ "http://h/**", "http://h/a%3f..", true },
		{ "http://h/**", "http://h/a%2g..", true }, /* no number */
		{ "http://h/**", "http://h/a%g2..", true },
		{ "http://h/**", "http://h/a%2", true },
		{ "http://h/**", "http://h/a%2f", true },
		{ "http://h/**", "http://h/.%2", true },
		{ "http://h/**", "http://h/a?%2f..", true },
		{ "http://h/**", "http://h/x2f..", true },
		{ "http://h/**", "http://h/a%\\c..", true },
		{ "http://h/**", "http://h/a/..%2f", false },
		{ "http://h/**", "http://h/a%2%2f..", false },
		{ "http://h/**", "http://h/a%%2f..", false },
		{ "s3://b/p/**", "s3://b/p/k", true },
		{ "s3://b/p/**", "s3://B/p/k", true },
		{ "s3://b/p/**", "s3://b/p/a%2f..", true }, /* nobody decodes a key */
		{ "s3://b/p/**", "s3://b/p/../k", false },
		{ "s3://b/p/**", "s3://b/p/%2e%2e/k", false },
		{ "s3://b/p/**", "s3://b//p/k", false },
		{ "s3://b/p/*/k", "s3://b/p//k", false },
		{ "s3://b/p/*.tar", "s3://b/p/a.tar", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (url_match(cases[i].pattern, cases[i].address) != cases[i].expect)
			fail_msg("%s against %s", cases[i].pattern, cases[i].address);
}

static void test_paths_that_are_too_long_match_nothing(void **state)
{
	static const char *const begins[] = { "http://h/", "s3://b/" };

	for (size_t i = 0; i < ARRAY_SIZE(begins); i++) {
		_cleanup_(freep) char *pattern = NULL, *address = NULL;
		size_t n = strlen(begins[i]), n_path;

		assert_true(asprintf(&pattern, "%s**", begins[i]) > 0);
		assert_true(asprintf(&address, "%s%*s", begins[i], 5000, "") > 0);
		for (char *p = address + n; *p; p++)
			*p = (p - address - (long)n) % 2 ? '/' : 'a';
		/* with a / in front, and a NUL */
		n_path = PATH_MAX - 2 - (i == 0);
		address[n + n_path + 1] = '\0';
		assert_false(url_match(pattern, address));
		address[n + n_path] = '\0';
		assert_true(url_match(pattern, address));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_refusals_say_what_is_wrong),
		cmocka_unit_test(test_where_the_path_begins),
		cmocka_unit_test(test_what_climbs),
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_paths_that_are_too_long_match_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
