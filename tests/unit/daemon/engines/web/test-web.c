#include "daemon/engines/web/web.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "common/util/error.h"
#include "common/util/url.h"
#include "daemon/engines/web/http-head.h"
#include "daemon/engines/web/web-address.h"
#include "daemon/worker/web/fetch-concurrency.h"
#include "tests/unit/unit.h"

static struct sockaddr_storage address(const char *text)
{
	struct sockaddr_storage ss = { 0 };
	struct sockaddr_in *v4 = (struct sockaddr_in *)&ss;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&ss;

	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
		ss.ss_family = AF_INET;
	} else {
		assert_int_equal(inet_pton(AF_INET6, text, &v6->sin6_addr), 1);
		ss.ss_family = AF_INET6;
	}
	return ss;
}

static void test_addresses_that_are_public(void **state)
{
	static const struct {
		const char *text;
		bool is_public;
	} cases[] = {
		{ "9.255.255.255", true },
		{ "10.0.0.0", false },
		{ "10.255.255.255", false },
		{ "11.0.0.0", true },
		{ "100.63.255.255", true },
		{ "100.64.0.1", false },
		{ "100.128.0.0", true },
		{ "127.0.0.1", false },
		{ "127.255.0.9", false },
		{ "0.0.0.0", false },
		{ "169.254.169.254", false },
		{ "169.253.0.1", true },
		{ "172.15.0.1", true },
		{ "172.16.0.1", false },
		{ "172.31.255.255", false },
		{ "172.32.0.0", true },
		{ "192.168.1.1", false },
		{ "192.167.1.1", true },
		{ "224.0.0.1", false },
		{ "255.255.255.255", false },
		{ "8.8.8.8", true },
		{ "::1", false },
		{ "::", false },
		{ "fe80::1", false },
		{ "fc00::1", false },
		{ "fdff::1", false },
		{ "ff02::1", false },
		{ "2606:4700::1", true },
		{ "2001:db8::1", false },
		{ "2a00::1", true },
		{ "::ffff:127.0.0.1", false },
		{ "::ffff:8.8.8.8", true },
		{ "::127.0.0.1", false },
		{ "64:ff9b::7f00:1", false },
		{ "64:ff9b::808:808", true },
		{ "2002:7f00:1::", false },
		{ "2002:808:808::", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct sockaddr_storage ss = address(cases[i].text);

		if (web_address_is_public((struct sockaddr *)&ss) != cases[i].is_public)
			fail_msg("%s", cases[i].text);
	}
}

static void test_addresses_in_networks(void **state)
{
	static const struct {
		const char *text, *networks;
		bool in;
	} cases[] = {
		{ "10.1.2.3", "10.0.0.0/8", true },
		{ "11.1.2.3", "10.0.0.0/8", false },
		{ "10.1.2.3", "192.168.0.0/16,10.1.2.3", true },
		{ "10.1.2.4", "10.1.2.3", false },
		{ "10.1.2.3", "0.0.0.0/0", true },
		{ "10.1.2.3", "::/0", true },
		{ "fd00::1", "0.0.0.0/0", false },
		{ "fd00::1", "fd00::/8", true },
		{ "::ffff:10.1.2.3", "10.0.0.0/9", true },
		{ "10.128.0.1", "10.0.0.0/9", false },
		{ "10.1.2.3", "10.0.0.0/33", false },
		{ "10.1.2.3", "rubbish,,10", false },
		{ "10.1.2.3", "", false },
		{ "fd00::1", "fd00::2/127", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct sockaddr_storage ss = address(cases[i].text);

		if (web_address_is_in((struct sockaddr *)&ss, cases[i].networks) != cases[i].in)
			fail_msg("%s in %s", cases[i].text, cases[i].networks);
	}
}

static void test_which_rule_covers_an_address(void **state)
{
	static const struct {
		const char *url;
		int rule;
	} cases[] = {
		{ "https://a.example/data/x", 0 },
		{ "https://A.Example:443/data/x?sig=1", 0 },
		{ "https://a.example/data", 0 },
		{ "https://a.example/database", -1 },
		{ "https://a.example/data/../x", -1 },
		{ "https://a.example/data/%2e%2E/x", -1 },
		{ "https://a.example/data/..%2fx", -1 },
		{ "https://a.example/data/%2e.%2Fx", -1 },
		{ "https://a.example/data/..%5cx", -1 },
		{ "https://a.example/data/a%2fb", 0 },
		{ "https://a.example:8443/data/x", -1 },
		{ "http://a.example/data/x", -1 },
		{ "https://u@a.example/data/x", -1 },
		{ "https://a.example.evil/data/x", -1 },
		{ "http://10.0.0.1:8080/any", 1 },
		{ "ftp://a.example/data/x", -1 },
		{ "file:///data/x", -1 },
		{ "s3://a.example/data/x", -1 },
		{ "", -1 },
	};
	_cleanup_(web_freep) struct web *web = NULL;
	const struct web_rule *rule;

	assert_int_equal(web_new_from_text(&web,
					   "allow\thttps://a.example/data/**\n"
					   "allow\thttp://10.0.0.1:8080/**\t10.0.0.0/8\n"
					   "unknown\tx\nproxy\thttp://p:3128\nnonsense\n",
					   NULL),
			 0);
	assert_string_equal(web->proxy, "http://p:3128");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		rule = NULL;
		web_check_url(web, cases[i].url, &rule, NULL);
		if ((rule ? (int)(rule - web->rules) : -1) != cases[i].rule)
			fail_msg("%s", cases[i].url);
	}
}

static void test_a_rule_with_an_address_lists_it(void **state)
{
	_cleanup_(web_freep) struct web *web = NULL;
	struct sockaddr_storage here = address("127.0.0.1"), there = address("10.0.0.1");
	struct sockaddr_storage v6 = address("::1");

	web_new_from_text(&web,
			  "allow\thttp://127.0.0.1/**\nallow\thttp://h/**\t10.0.0.0/8\n"
			  "allow\thttp://[::1]:80/**\nallow\t*\n",
			  NULL);
	assert_true(web_rule_allows(&web->rules[0], (struct sockaddr *)&here));
	assert_false(web_rule_allows(&web->rules[0], (struct sockaddr *)&there));
	assert_true(web_rule_allows(&web->rules[1], (struct sockaddr *)&there));
	assert_false(web_rule_allows(&web->rules[1], (struct sockaddr *)&here));
	assert_true(web_rule_allows(&web->rules[2], (struct sockaddr *)&v6));
	assert_false(web_rule_allows(&web->rules[3], (struct sockaddr *)&v6));
}

static struct http_head head_of(const char *lines)
{
	struct http_head h = { 0 };
	const char *end;

	for (; *lines; lines = end + 1) {
		end = strchr(lines, '\n');
		http_head_add(&h, lines, (size_t)(end + 1 - lines));
	}
	return h;
}

static void test_ranges_of_heads(void **state)
{
	static const struct {
		const char *value;
		bool bad;
		uint64_t from, end, total;
	} cases[] = {
		{ "bytes 0-99/1234", false, 0, 100, 1234 },
		{ "BYTES 5-5/6", false, 5, 6, 6 },
		{ "bytes 0-99/*", false, 0, 100, UINT64_MAX },
		{ "bytes */1234", false, 0, 0, 1234 },
		{ "bytes 0-99/99", true, 0, 0, 0 }, /* more than there is */
		{ "bytes 9-0/100", true, 0, 0, 0 },
		{ "bytes 0-99", true, 0, 0, 0 },
		{ "bytes -1-99/100", true, 0, 0, 0 },
		{ "bytes 0-99/100x", true, 0, 0, 0 },
		{ "bytes 0-18446744073709551615/18446744073709551615", true, 0, 0, 0 },
		{ "bytes 0-18446744073709551616/*", true, 0, 0, 0 },
		{ "items 0-99/100", true, 0, 0, 0 },
		{ "", true, 0, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char lines[256];
		struct http_head h;

		snprintf(lines, sizeof(lines), "HTTP/1.1 206 Partial\r\nContent-Range: %s\r\n",
			 cases[i].value);
		h = head_of(lines);
		assert_true(h.has_range);
		if (h.range_bad != cases[i].bad ||
		    (!h.range_bad &&
		     (h.range_from != cases[i].from || h.range_end != cases[i].end ||
		      h.range_total != cases[i].total)))
			fail_msg("%s", cases[i].value);
	}
}

static void test_heads(void **state)
{
	struct http_head h = head_of(
		"HTTP/1.1 100 Continue\r\nETag: \"no\"\r\n"
		"HTTP/1.1 200 OK then\r\ncontent-LENGTH:  17 \r\nETag:\"x\"\r\n"
		"Transfer-Encoding: gzip, chunked\r\nRetry-After: 3\r\nno colon\r\n"
		"Location:\t/a b\r\nContent-Length: 17\r\n");

	assert_int_equal(h.status, 200);
	assert_string_equal(h.reason, "OK then");
	assert_int_equal(h.length, 17);
	assert_int_equal(h.n_lengths, 2);
	assert_true(h.chunked);
	assert_string_equal(h.validator.etag, "\"x\"");
	assert_string_equal(h.location, "/a b");
	assert_string_equal(h.retry_after, "3");
	h = head_of("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n");
	assert_true(h.length_bad);
	h = (struct http_head){ .size = HTTP_HEAD_MAX_SIZE - 3 };
	assert_int_equal(http_head_add(&h, "a:b\n", 4), -E2BIG);
}

static void test_validators(void **state)
{
	const struct http_validator strong = { "\"a\"", "d" }, weak = { "W/\"a\"", "d" },
				    date = { "", "d" }, none = { "", "" }, bare = { "a", "" },
				    quote = { "\"", "" };

	assert_string_equal(http_validator_for_range(&strong), "\"a\"");
	assert_string_equal(http_validator_for_range(&weak), "d");
	assert_string_equal(http_validator_for_range(&date), "d");
	assert_null(http_validator_for_range(&none));
	assert_true(http_validator_is_same(&strong, &strong));
	assert_false(http_validator_is_same(&strong, &weak));
	assert_false(http_validator_is_same(&strong, &date));
	assert_false(http_validator_is_same(&date, &none));
	assert_true(http_validator_is_same(&none, &none));
	assert_true(http_validator_is_same(&strong, &bare)); /* some listings have no quotes */
	assert_true(http_validator_is_same(&bare, &strong));
	assert_false(http_validator_is_same(&bare, &weak));
	assert_false(http_validator_is_same(&quote, &none));
	assert_null(http_validator_for_range(&bare));
}

/* rate: bytes a ms that n connections give */
static size_t settle(size_t max, uint64_t (*rate)(size_t n))
{
	struct fetch_concurrency p;
	uint64_t now = 1;

	fetch_concurrency_init(&p, max);
	for (int i = 0; i < 1000; i++, now += 10)
		fetch_concurrency_note(&p, now, rate(fetch_concurrency_get(&p)) * 10,
				       fetch_concurrency_get(&p));
	return fetch_concurrency_get(&p);
}

static uint64_t each_alike(size_t n)
{
	return n * 1000;
}

static uint64_t full_at_four(size_t n)
{
	return n < 4 ? n * 1000 : 4000;
}

static uint64_t full_at_once(size_t n)
{
	return 1000;
}

static void test_pace(void **state)
{
	assert_int_equal(settle(0, each_alike), FETCH_CONCURRENCY_USUAL);
	assert_int_equal(settle(0, full_at_four), 4);
	assert_int_equal(settle(0, full_at_once), 2);
	assert_int_equal(settle(3, each_alike), 3);
	assert_int_equal(settle(1, each_alike), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_addresses_that_are_public),
		cmocka_unit_test(test_addresses_in_networks),
		cmocka_unit_test(test_which_rule_covers_an_address),
		cmocka_unit_test(test_a_rule_with_an_address_lists_it),
		cmocka_unit_test(test_ranges_of_heads),
		cmocka_unit_test(test_heads),
		cmocka_unit_test(test_validators),
		cmocka_unit_test(test_pace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
