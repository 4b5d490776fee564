#include "client/report.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Writes kv as lines; returns them as one text. */
static char *write_lines(const char *node, const struct kv *kv)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_int_equal(report_write(f, node, kv), 0);
	fclose(f);
	return text;
}

/* Feeds the next line of *textp. */
static int feed(struct report_reader *r, char **textp, const char **nodep, struct kv **kvp)
{
	char *end = strchr(*textp, '\n');
	int ret;

	assert_non_null(end);
	*end = '\0';
	assert_true(strlen(*textp) <= REPORT_MAX_LINE);
	ret = report_reader_feed(r, *textp, nodep, kvp);
	*textp = end + 1;
	return ret;
}

static struct kv *new_message(size_t n)
{
	struct kv *kv;
	char *value = calloc(1, n + 1);

	assert_int_equal(kv_new(&kv), 0);
	for (size_t i = 0; i < n; i++)
		value[i] = (char)(1 + i * 7 % 255);
	kv_set(kv, "text", value);
	kv_set(kv, "lines", "one\ntwo\r %41");
	free(value);
	return kv;
}

static void test_messages_of_any_size_come_back_whole(void **state)
{
	static const size_t sizes[] = { 0, 1, 100, 700, 1000, 5000, 60000 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		_cleanup_(report_reader_freep) struct report_reader *r = NULL;
		_cleanup_(kv_freep) struct kv *kv = new_message(sizes[i]);
		_cleanup_(kv_freep) struct kv *back = NULL;
		_cleanup_(freep) char *text = write_lines("n1", kv);
		const char *node;
		char *p = text;
		int ret;

		assert_int_equal(report_reader_new(&r), 0);
		while ((ret = feed(r, &p, &node, &back)) == 0)
			;
		assert_int_equal(ret, 1);
		assert_int_equal(*p, '\0');
		assert_string_equal(node, "n1");
		assert_string_equal(kv_get(back, "text"), kv_get(kv, "text"));
		assert_string_equal(kv_get(back, "lines"), "one\ntwo\r %41");
	}
}

static void test_lines_of_nodes_may_be_mixed(void **state)
{
	_cleanup_(report_reader_freep) struct report_reader *r = NULL;
	_cleanup_(kv_freep) struct kv *a = new_message(3000);
	_cleanup_(kv_freep) struct kv *b = new_message(2900);
	_cleanup_(kv_freep) struct kv *got = NULL;
	_cleanup_(freep) char *ta = write_lines("a", a), *tb = write_lines("bb", b);
	const char *node;
	char *pa = ta, *pb = tb;
	int n = 0;

	assert_int_equal(report_reader_new(&r), 0);
	while (*pa || *pb) {
		if (*pa && feed(r, &pa, &node, &got) == 1) {
			assert_string_equal(node, "a");
			assert_string_equal(kv_get(got, "text"), kv_get(a, "text"));
			kv_free(steal_ptr(got));
			n++;
		}
		if (*pb && feed(r, &pb, &node, &got) == 1) {
			assert_string_equal(node, "bb");
			assert_string_equal(kv_get(got, "text"), kv_get(b, "text"));
			kv_free(steal_ptr(got));
			n++;
		}
	}
	assert_int_equal(n, 2);
}

static void test_foreign_lines_are_told_apart(void **state)
{
	static const char *const lines[] = {
		"",
		"slurmstepd: error: something",
		"stage-report",
		"stage-report n1",
		"stage-report  0 x",
		"stage-report n1 2 x",
		"stage-report n1 0x",
		"stage-report n1 0 %4",
		"stage-report n1 0 %zz",
		"stage-report n1 0 nokv",
		"stage-report n1 0 ",
	};
	_cleanup_(report_reader_freep) struct report_reader *r = NULL;
	_cleanup_(kv_freep) struct kv *kv = NULL;
	const char *node;

	assert_int_equal(report_reader_new(&r), 0);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_true(report_reader_feed(r, lines[i], &node, &kv) < 0);
	assert_int_equal(report_reader_feed(r, "stage-report n1 0 a=b%00", &node, &kv), 1);
	assert_string_equal(kv_get(kv, "a"), "b");
}

/* Three nodes wrote to one pipe, and stdio cut a line where its buffer was full. */
static void test_each_line_is_a_write_of_its_own(void **state)
{
	_cleanup_(kv_freep) struct kv *kv = new_message(5000);
	char line[2 * REPORT_MAX_LINE];
	int fds[2], n_lines = 0;
	ssize_t n;
	FILE *f;

	/* A pipe of packets: a read gives what one write put in. */
	assert_int_equal(pipe2(fds, O_DIRECT | O_CLOEXEC), 0);
	f = fdopen(fds[1], "w");
	assert_non_null(f);
	assert_int_equal(report_write(f, "n1", kv), 0);
	fclose(f);
	while ((n = read(fds[0], line, sizeof(line))) > 0) {
		assert_true(n <= REPORT_MAX_LINE + 1);
		assert_ptr_equal(memchr(line, '\n', (size_t)n), line + n - 1);
		n_lines++;
	}
	assert_true(n_lines > 5);
	close(fds[0]);
}

static void test_node_names_that_break_lines_are_refused(void **state)
{
	_cleanup_(kv_freep) struct kv *kv = new_message(1);

	assert_true(report_write(stderr, "", kv) < 0);
	assert_true(report_write(stderr, "a b", kv) < 0);
	assert_true(report_write(stderr, "a\nb", kv) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages_of_any_size_come_back_whole),
		cmocka_unit_test(test_lines_of_nodes_may_be_mixed),
		cmocka_unit_test(test_foreign_lines_are_told_apart),
		cmocka_unit_test(test_each_line_is_a_write_of_its_own),
		cmocka_unit_test(test_node_names_that_break_lines_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
