#include "client/report-file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/json-read.h"
#include "client/snapshot.h"
#include "client/timeline.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"

#define DATASET "{\"name\":\"a\",\"state\":\"ready\",\"states\":[{\"state\":\"queued\",\"ms\":0}]"
#define FILE_OF(datasets) "{\"report\":1,\"datasets\":[" datasets "]}"

static int parse(struct snapshot_list *l, const char *text, struct error *err)
{
	*err = (struct error)ERROR_INIT;
	return report_file_parse(l, text, strlen(text), err);
}

/* Fails where a character that JSON has to escape is taken, or a bound is missing. */
static void test_what_is_no_report_is_refused(void **state)
{
	static const char *const cases[] = {
		"",
		"{",
		"[]",
		"null",
		"{}",
		"{\"datasets\":[]}",
		"{\"report\":2,\"datasets\":[]}",
		"{\"report\":-1,\"datasets\":[]}",
		"{\"report\":1.0,\"datasets\":[]}",
		"{\"report\":01,\"datasets\":[]}",
		"{\"report\":99999999999999999999,\"datasets\":[]}",
		"{\"report\":1,\"datasets\":[]",
		"{\"report\":1,\"datasets\":[]} x",
		"{\"report\":1,\"datasets\":[],}",
		"{\"report\":1 \"datasets\":[]}",
		"{\"report\":1,\"datasets\":{}}",
		FILE_OF("1"),
		FILE_OF("{}"),
		FILE_OF(DATASET),
		FILE_OF(DATASET "},"),
		FILE_OF(DATASET ",\"reason\":\"\\u0000\"}"),
		FILE_OF(DATASET ",\"reason\":\"\n\"}"),
		FILE_OF(DATASET ",\"reason\":\"\\x\"}"),
		FILE_OF(DATASET ",\"reason\":\"\\u12\"}"),
		FILE_OF(DATASET ",\"reason\":\"\\ud83d\"}"),
		FILE_OF(DATASET ",\"reason\":\"\\ud83d\\u0041\"}"),
		FILE_OF(DATASET ",\"reason\":\"\\"),
		FILE_OF(DATASET ",\"reason\":1}"),
		FILE_OF(DATASET ",\"bytes\":\"1\"}"),
		FILE_OF(DATASET ",\"x\":[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]}"),
		FILE_OF(DATASET ",\"series\":[{\"ms\":9,\"bytes\":1}]}"), /* later than its age */
		FILE_OF("{\"name\":\"\",\"state\":\"ready\",\"states\":[]}"),
		FILE_OF("{\"name\":\"a\",\"state\":\"gone\"}"),
		FILE_OF("{\"name\":\"a\",\"state\":\"ready\"}"), /* without a history */
		FILE_OF("{\"name\":\"a\",\"state\":\"ready\",\"states\":[{\"state\":\"a:1 "
			"ready\",\"ms\":0}]}"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
		struct error err;

		if (parse(&l, cases[i], &err) == 0 || !err.text[0])
			fail_msg("taken: %s", cases[i]);
	}
}

/* Seen failing as a file that is no report. */
static void test_more_datasets_than_can_be_read_are_a_reason_of_their_own(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
	_cleanup_(freep) char *text = NULL;
	struct error err;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	fputs("{\"report\":1,\"datasets\":[" DATASET "}", f);
	for (unsigned i = 0; i < REPORT_FILE_MAX_DATASETS; i++)
		fputs("," DATASET "}", f);
	fputs("]}", f);
	fclose(f);
	assert_int_equal(parse(&l, text, &err), -E2BIG);
	assert_string_equal(err.text, "it has more than 65536 datasets");
}

static void test_what_is_not_known_is_passed_over(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
	struct error err;
	static const char text[] =
		" { \"new\" : [ {\"a\":-1.5e9, \"b\":true,\"c\":false}, \"\\\"]\" , null ],\r\n"
		"\"report\":1,\t\"datasets\":[" DATASET ",\"later\":{},\"total\":null,"
		"\"a-name-that-is-longer-than-any-of-ours-is\":1}, " DATASET
		",\"reason\":\"\\u00e9\\ud83d\\ude00\\/\\u20ac\"}]}\n";

	assert_int_equal(parse(&l, text, &err), 0);
	assert_int_equal(l.n_items, 2);
	assert_string_equal(l.items[1].reason, "é😀/€");
}

static char *write_report(const struct snapshot_list *l)
{
	struct timeline_list lines;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_int_equal(timeline_list_init(&lines, l), 0);
	assert_int_equal(report_file_write(&lines, f), 0);
	fclose(f);
	timeline_list_deinit(&lines);
	return text;
}

/* Fails where a field of the table is written and not read, or a byte is changed on the way. */
static void test_what_is_written_comes_back(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 }, back = { 0 };
	_cleanup_(freep) char *text = NULL, *again = NULL;
	char reason[256] = "";
	struct error err;
	struct kv *kv;

	for (int c = 1; c < 256; c++)
		reason[c - 1] = (char)c;
	assert_int_equal(kv_new(&kv), 0);
	kv_set(kv, "name", "images");
	kv_set(kv, "node", "n1");
	kv_set(kv, "state", "failed");
	kv_set(kv, "reason", reason);
	kv_set(kv, "code", "7");
	kv_set(kv, "begun", "1700000000000");
	kv_set(kv, "age", "70");
	kv_set(kv, "lastread", "65");
	kv_set(kv, "memtaken", "5");
	kv_set(kv, "memmost", "6");
	kv_set(kv, "membound", "Quota");
	kv_set(kv, "states", "queued:0 staging:10 failed:60");
	kv_set(kv, "series", "10:0 60:9999999999999999999");
	assert_int_equal(snapshot_list_update(&l, &kv, NULL), 0);
	text = write_report(&l);
	assert_int_equal(parse(&back, text, &err), 0);
	assert_int_equal(back.n_items, 1);
	assert_string_equal(back.items[0].reason, reason);
	assert_int_equal(back.items[0].code, 7);
	assert_string_equal(kv_get(back.items[0].kv, "series"), "10:0 60:9999999999999999999");
	assert_string_equal(kv_get(back.items[0].kv, "lastread"), "65");
	assert_string_equal(kv_get(back.items[0].kv, "membound"), "Quota");
	again = write_report(&back);
	assert_string_equal(text, again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_no_report_is_refused),
		cmocka_unit_test(test_more_datasets_than_can_be_read_are_a_reason_of_their_own),
		cmocka_unit_test(test_what_is_not_known_is_passed_over),
		cmocka_unit_test(test_what_is_written_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
