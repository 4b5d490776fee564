#include "daemon/fetch/s3-sign.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/util/error.h"
#include "daemon/engines/web/s3-list.h"
#include "daemon/engines/web/s3-match.h"
#include "daemon/fetch/s3-keys.h"
#include "daemon/worker/web/s3-tree.h"
#include "tests/unit/unit.h"

/* The examples of Amazon's own description of the signature. */
static void test_signatures_are_those_of_the_description(void **state)
{
	static const struct {
		const char *path, *query, *range, *names, *signature;
	} cases[] = {
		{ "/test.txt", "", "bytes=0-9", "host;range;x-amz-content-sha256;x-amz-date",
		  "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41" },
		{ "/", "lifecycle=", NULL, "host;x-amz-content-sha256;x-amz-date",
		  "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543" },
		{ "/", "max-keys=2&prefix=J", NULL, "host;x-amz-content-sha256;x-amz-date",
		  "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7" },
	};
	struct keys keys = { "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
			     "" };
	struct tm tm = { .tm_year = 113, .tm_mon = 4, .tm_mday = 24 };
	char date[17], got[S3_SIGN_MAX], want[512];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct s3_sign s = { .keys = &keys,
					   .region = "us-east-1",
					   .host = "examplebucket.s3.amazonaws.com",
					   .path = cases[i].path,
					   .query = cases[i].query,
					   .range = cases[i].range,
					   .now = timegm(&tm) };

		assert_int_equal(s3_sign(&s, date, got, sizeof(got)), 0);
		assert_string_equal(date, "20130524T000000Z");
		snprintf(want, sizeof(want),
			 "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/"
			 "us-east-1/s3/aws4_request,SignedHeaders=%s,Signature=%s",
			 cases[i].names, cases[i].signature);
		assert_string_equal(got, want);
	}
}

static void test_encoding(void **state)
{
	char buf[64];

	assert_int_equal(s3_encode("a/b c+%\xc3\xa4~", 1, buf, sizeof(buf)), 0);
	assert_string_equal(buf, "a/b%20c%2B%25%C3%A4~");
	assert_int_equal(s3_encode("a/b", 0, buf, sizeof(buf)), 0);
	assert_string_equal(buf, "a%2Fb");
	assert_int_equal(s3_encode("abcdefgh", 0, buf, 8), -ENOSPC);
	strcpy(buf, "a%2fb+c%C3");
	assert_true(s3_url_decode(buf));
	assert_string_equal(buf, "a/b c\xc3");
	strcpy(buf, "a%00b");
	assert_false(s3_url_decode(buf));
	strcpy(buf, "a%2");
	assert_false(s3_url_decode(buf));
}

static int add(void *arg, const struct s3_object *o, struct error *err)
{
	char line[2048];

	snprintf(line, sizeof(line), "%s=%llu%s ", o->key, (unsigned long long)o->size, o->etag);
	strcat(arg, line);
	return 0;
}

#define HEAD                                                                                       \
	"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult "                           \
	"xmlns=\"http://x/\"><Name>b</Name>" URL
#define URL "<EncodingType>url</EncodingType>"
#define PLAIN "<ListBucketResult><Name>b</Name>"
#define ONE                                                                                        \
	"<Contents><Key>a%26b</Key><ETag>&quot;e&quot;</ETag><Size>7</Size><Owner><ID>x</ID></"    \
	"Owner></Contents>"
#define TAIL "</ListBucketResult>"

static void test_pages(void **state)
{
	static const struct {
		const char *xml, *objects;
		int truncated;
	} cases[] = {
		{ HEAD ONE "<Contents><Size>0</Size><Key>c/</Key></Contents>" TAIL,
		  "a&b=7\"e\" c/=0 ", 0 },
		{ HEAD "<IsTruncated>true</IsTruncated><NextContinuationToken>t&amp;1=</"
		       "NextContinuationToken>" ONE TAIL,
		  "a&b=7\"e\" ", 1 },
		{ HEAD "<KeyCount>0</KeyCount><Prefix/><Contents></Contents>" TAIL, NULL, 0 },
		{ HEAD TAIL, "", 0 },
		/* where it does not say that they are encoded, they are not */
		{ PLAIN ONE TAIL, "a%26b=7\"e\" ", 0 },
		{ PLAIN "<Contents><Key>a+%41</Key><Size>1</Size></Contents>" URL TAIL, "a A=1 ",
		  0 },
		{ PLAIN "<Contents><Key>&#x27;&#96;&#xe4;&#8364;&#x1F600;&gt;</Key><Size>1</Size></"
			"Contents>" TAIL,
		  "'`\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80>=1 ", 0 },
		{ PLAIN "<Contents><Key>a&#0;</Key><Size>1</Size></Contents>" TAIL, NULL, 0 },
		{ PLAIN "<Contents><Key>a&#xd800;</Key><Size>1</Size></Contents>" TAIL, NULL, 0 },
		{ PLAIN "<Contents><Key>a&#99999999;</Key><Size>1</Size></Contents>" TAIL, NULL,
		  0 },
		{ PLAIN "<Contents><Key>a&#-1;</Key><Size>1</Size></Contents>" TAIL, NULL, 0 },
		{ PLAIN "<Contents><Key>a&#;</Key><Size>1</Size></Contents>" TAIL, NULL, 0 },
		{ PLAIN "<Contents><Key>a&#x;</Key><Size>1</Size></Contents>" TAIL, NULL, 0 },
		{ PLAIN "<Contents><Key>a&;</Key><Size>1</Size></Contents>" TAIL, NULL, 0 },
		{ PLAIN "<Contents><Key>a&amp</Key><Size>1</Size></Contents>" TAIL, NULL, 0 },
		{ HEAD "<!-- x -->" ONE TAIL, NULL, 0 },
		{ "<!DOCTYPE x [<!ENTITY a \"aaaa\">]>" HEAD ONE TAIL, NULL, 0 },
		{ HEAD "<Contents><Key>&a;</Key><Size>1</Size></Contents>" TAIL, NULL, 0 },
		{ HEAD "<Contents><Key>a</Key><Size>-1</Size></Contents>" TAIL, NULL, 0 },
		{ HEAD "<Contents><Key>a</Key></Contents>" TAIL, NULL, 0 },
		{ HEAD "<Contents><Key>%00</Key><Size>1</Size></Contents>" TAIL, NULL, 0 },
		{ HEAD ONE, NULL, 0 }, /* cut off */
		{ HEAD "<Contents><Key>a", NULL, 0 },
		{ HEAD "<Contents", NULL, 0 },
		{ "", NULL, 0 },
		{ "<Error><Code>AccessDenied</Code></Error>", NULL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct s3_page page;
		char got[4096] = "";
		int r = s3_list_read(cases[i].xml, strlen(cases[i].xml), &page, add, got, NULL);

		if (!cases[i].objects && r != -EBADMSG)
			fail_msg("taken: %s", cases[i].xml);
		if (!cases[i].objects)
			continue;
		assert_int_equal(r, 0);
		assert_string_equal(got, cases[i].objects);
		assert_int_equal(page.truncated, cases[i].truncated);
		if (page.truncated)
			assert_string_equal(page.token, "t&1=");
	}
}

/* Cut anywhere it is refused and reads nothing behind its end. */
static void test_pages_cut_anywhere(void **state)
{
	static const char xml[] = HEAD ONE ONE TAIL;
	struct s3_page page;
	char got[4096];

	for (size_t n = 0; n < sizeof(xml) - 1; n++) {
		char *copy = malloc(n + 1);

		memcpy(copy, xml, n);
		got[0] = '\0';
		assert_int_equal(s3_list_read(copy, n, &page, add, got, NULL), -EBADMSG);
		free(copy);
	}
}

static void test_text_of_an_error(void **state)
{
	static const char xml[] =
		"<Error><Code>RequestTimeTooSkewed</Code><Message>a &lt; b</Message></Error>";
	char buf[64];

	assert_true(s3_xml_get(xml, sizeof(xml) - 1, "Code", buf, sizeof(buf)));
	assert_string_equal(buf, "RequestTimeTooSkewed");
	assert_true(s3_xml_get(xml, sizeof(xml) - 1, "Message", buf, sizeof(buf)));
	assert_string_equal(buf, "a < b");
	assert_false(s3_xml_get(xml, sizeof(xml) - 1, "Resource", buf, sizeof(buf)));
	assert_false(s3_xml_get(xml, sizeof(xml) - 1, "Code", buf, 5));
}

static void test_patterns(void **state)
{
	static const struct {
		const char *pattern, *key;
		bool fits;
	} cases[] = {
		{ "a", "a", true },
		{ "a", "ab", false },
		{ "ab", "a", false },
		{ "", "", true },
		{ "*", "abc", true },
		{ "*", "a/b", false },
		{ "*/b", "a/b", true },
		{ "a*", "a", true },
		{ "a*c", "abc", true },
		{ "a*c", "ac", true },
		{ "a*c", "ab", false },
		{ "*.tar", "x.tar", true },
		{ "*.tar", "x.tar.gz", false },
		{ "*.tar", ".tar", false },
		{ "p/*", "p/.hidden", false },
		{ "p/.*", "p/.hidden", true },
		{ "p/x*", "p/x.y", true },
		{ "p/*", "p/", false },
		{ "p/**", "p/", false },
		{ "p/*/c", "p//c", false },
		{ "*/c", "/c", false },
		{ "*", "", false },
		{ "p*", "p", true },
		{ "p/*", "p", false },
		{ "p/*", "p/a/b", false },
		{ "*/*/c", "a/b/c", true },
		{ "*/*/c", "a/c", false },
		{ "*/*/c", "a/b/b/c", false },
		{ "*a*b", "xaxbxaxb", true },
		{ "*a*b*c", "abab", false },
		{ "*ab", "aab", true },
		{ "**b", "aab", true },
		{ "a**/b", "axx/b", true },
		{ "**/b", ".x/b", false },
		{ "a*b/c*d", "ab/cb/cd", false },
		{ "a*b/c*d", "axb/cxd", true },
		{ "*ab/c", "aab/c", true },
		{ "a?c*", "abc", false },
		{ "a?c*", "a?cd", true },
		{ "[ab]*", "a", false },
		{ "[ab]*", "[ab]x", true },
		{ "a\\*", "a\\b", true },
		{ "{a,b}*", "{a,b}c", true },
		{ "*", "\xc3\xa4", true },
	};
	char pattern[600], key[600];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (s3_match(cases[i].pattern, cases[i].key) != cases[i].fits)
			fail_msg("'%s' '%s'", cases[i].pattern, cases[i].key);
	/* would take for ever if each were tried with each */
	for (size_t i = 0; i < 100; i++)
		memcpy(pattern + 2 * i, "a*", 2);
	strcpy(pattern + 200, "b");
	memset(key, 'a', 599);
	key[599] = '\0';
	assert_false(s3_match(pattern, key));
}

#define KEYS(n) "aws_access_key_id = A" n "\n  aws_secret_access_key=S" n "\n"

static void test_profiles(void **state)
{
	static const char text[] = "# x\n[one]\n" KEYS("1") "[ default ]\n" KEYS(
		"0") "aws_session_token = T0 \r\n"
		     "[two]\naws_access_key_id=A2\n[profile three]\n" KEYS(
			     "3") "[bad]\naws_access_key_id=A\naws_secret_access_key=a b\n"
				  "[role]\nrole_arn = arn:x\nsource_profile=one\n[oneone]\n" KEYS(
					  "11") "[both]\nsso_session = x\n" KEYS("5") "[late";
	static const struct {
		const char *profile;
		bool is_config;
		int r;
		const char *access;
	} cases[] = {
		{ "one", false, S3_KEYS_E_SUCCESS, "A1" },
		{ "default", false, S3_KEYS_E_SUCCESS, "A0" },
		{ "default", true, S3_KEYS_E_SUCCESS, "A0" },
		{ "oneone", false, S3_KEYS_E_SUCCESS, "A11" },
		{ "both", false, S3_KEYS_E_SUCCESS, "A5" },
		{ "three", true, S3_KEYS_E_SUCCESS, "A3" },
		{ "one", true, S3_KEYS_E_NONE },    /* [one] is no profile there */
		{ "three", false, S3_KEYS_E_NONE }, /* nor is [profile three] here */
		{ "two", false, S3_KEYS_E_NONE },   /* half */
		{ "on", false, S3_KEYS_E_NONE },
		{ "late", false, S3_KEYS_E_NONE },
		{ "bad", false, S3_KEYS_E_BAD },
		{ "role", false, S3_KEYS_E_ELSEWHERE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct keys keys;
		int r = s3_keys_from_text(&keys, text, cases[i].profile, cases[i].is_config);

		if (r != cases[i].r || strcmp(keys.access, cases[i].access ? cases[i].access : ""))
			fail_msg("%s: %d %s", cases[i].profile, r, keys.access);
		assert_string_equal(keys.token, r == 0 && !strcmp(keys.access, "A0") ? "T0" : "");
		if (r != S3_KEYS_E_SUCCESS)
			assert_string_equal(keys.secret, "");
	}
}

static void test_keys_that_are_paths(void **state)
{
	static const struct {
		const char *name;
		int r;
	} cases[] = {
		{ "a", 1 },	      { "a/b c/d\xc3\xa4", 1 },
		{ "a..b/...", 1 },    { "a/", 0 },
		{ "a/b/", 0 },	      { "/a", -EINVAL },
		{ "..", -EINVAL },    { "a/../b", -EINVAL },
		{ "a//b", -EINVAL },  { ".", -EINVAL },
		{ "a/./b", -EINVAL }, { "../a", -EINVAL },
		{ "a/..", -EINVAL },  { "/", -EINVAL },
		{ "a//", -EINVAL },   { "../", -EINVAL },
		{ "", -EINVAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (s3_tree_check_name(cases[i].name, NULL) != cases[i].r)
			fail_msg("'%s'", cases[i].name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_signatures_are_those_of_the_description),
		cmocka_unit_test(test_encoding),
		cmocka_unit_test(test_pages),
		cmocka_unit_test(test_pages_cut_anywhere),
		cmocka_unit_test(test_text_of_an_error),
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_profiles),
		cmocka_unit_test(test_keys_that_are_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
