#include "daemon/worker/s3-sign.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/error.h"
#include "daemon/worker/s3-list.h"
#include "daemon/worker/s3-tree.h"
#include "tests/unit/unit.h"

/* The examples of Amazon's own description of the signature. */
static void test_signatures_are_those_of_the_description(void **state)
{
	static const struct { const char *path, *query, *range, *names, *signature; } cases[] = {
		{ "/test.txt", "", "bytes=0-9", "host;range;x-amz-content-sha256;x-amz-date",
		  "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41" },
		{ "/", "lifecycle=", NULL, "host;x-amz-content-sha256;x-amz-date",
		  "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543" },
		{ "/", "max-keys=2&prefix=J", NULL, "host;x-amz-content-sha256;x-amz-date",
		  "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7" },
	};
	struct s3_keys keys = { "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "" };
	struct tm tm = { .tm_year = 113, .tm_mon = 4, .tm_mday = 24 };
	char date[17], got[S3_SIGN_MAX], want[512];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct s3_sign s = { .keys = &keys, .region = "us-east-1",
			.host = "examplebucket.s3.amazonaws.com", .path = cases[i].path,
			.query = cases[i].query, .range = cases[i].range, .now = timegm(&tm) };

		assert_int_equal(s3_sign(&s, date, got, sizeof(got)), 0);
		assert_string_equal(date, "20130524T000000Z");
		snprintf(want, sizeof(want), "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/"
			 "us-east-1/s3/aws4_request,SignedHeaders=%s,Signature=%s", cases[i].names,
			 cases[i].signature);
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

#define HEAD "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"http://x/\"><Name>b</Name>" URL
#define URL "<EncodingType>url</EncodingType>"
#define PLAIN "<ListBucketResult><Name>b</Name>"
#define ONE "<Contents><Key>a%26b</Key><ETag>&quot;e&quot;</ETag><Size>7</Size><Owner><ID>x</ID></Owner></Contents>"
#define TAIL "</ListBucketResult>"

static void test_pages(void **state)
{
	static const struct { const char *xml, *objects; int truncated; } cases[] = {
		{ HEAD ONE "<Contents><Size>0</Size><Key>c/</Key></Contents>" TAIL, "a&b=7\"e\" c/=0 ", 0 },
		{ HEAD "<IsTruncated>true</IsTruncated><NextContinuationToken>t&amp;1=</NextContinuationToken>" ONE
		  TAIL, "a&b=7\"e\" ", 1 },
		{ HEAD "<KeyCount>0</KeyCount><Prefix/><Contents></Contents>" TAIL, NULL, 0 },
		{ HEAD TAIL, "", 0 },
		/* where it does not say that they are encoded, they are not */
		{ PLAIN ONE TAIL, "a%26b=7\"e\" ", 0 },
		{ PLAIN "<Contents><Key>a+%41</Key><Size>1</Size></Contents>" URL TAIL, "a A=1 ", 0 },
		{ PLAIN "<Contents><Key>&#x27;&#96;&#xe4;&#8364;&#x1F600;&gt;</Key><Size>1</Size></Contents>" TAIL,
		  "'`\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80>=1 ", 0 },
		{ PLAIN "<Contents><Key>a&#0;</Key><Size>1</Size></Contents>" TAIL, NULL, 0 },
		{ PLAIN "<Contents><Key>a&#xd800;</Key><Size>1</Size></Contents>" TAIL, NULL, 0 },
		{ PLAIN "<Contents><Key>a&#99999999;</Key><Size>1</Size></Contents>" TAIL, NULL, 0 },
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
	static const char xml[] = "<Error><Code>RequestTimeTooSkewed</Code><Message>a &lt; b</Message></Error>";
	char buf[64];

	assert_true(s3_xml_get(xml, sizeof(xml) - 1, "Code", buf, sizeof(buf)));
	assert_string_equal(buf, "RequestTimeTooSkewed");
	assert_true(s3_xml_get(xml, sizeof(xml) - 1, "Message", buf, sizeof(buf)));
	assert_string_equal(buf, "a < b");
	assert_false(s3_xml_get(xml, sizeof(xml) - 1, "Resource", buf, sizeof(buf)));
	assert_false(s3_xml_get(xml, sizeof(xml) - 1, "Code", buf, 5));
}

static void test_keys_that_are_paths(void **state)
{
	static const struct { const char *name; int r; } cases[] = {
		{ "a", 1 }, { "a/b c/d\xc3\xa4", 1 }, { "a..b/...", 1 }, { "a/", 0 }, { "a/b/", 0 },
		{ "/a", -EINVAL }, { "..", -EINVAL }, { "a/../b", -EINVAL }, { "a//b", -EINVAL },
		{ ".", -EINVAL }, { "a/./b", -EINVAL }, { "../a", -EINVAL }, { "a/..", -EINVAL },
		{ "/", -EINVAL }, { "a//", -EINVAL }, { "../", -EINVAL }, { "", -EINVAL },
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
		cmocka_unit_test(test_keys_that_are_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
