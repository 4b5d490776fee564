/*
 * What a name promises is the same for all: the daemon that guesses which worker to start, the
 * worker that plans, the one that opens archives in archives, and the one that asks a web server.
 * The daemon knew two suffixes of images more than the worker (.squash, .sfs).
 */
#include "tests/unit/unit.h"

#include "common/dataset/member-path.h"
#include "common/util/suffix.h"
#include "daemon/engines/archive/magic.h"
#include "daemon/engines/web/http-head.h"
#include "daemon/stagingd/job.h"
#include "daemon/stagingd/stage-run.h"
#include "daemon/stagingd/stage.h"

static void test_the_longest_counts(void **state)
{
	static const struct {
		const char *name, *text; /* NULL: none */
	} cases[] = {
		{ "x.tar.gz", ".tar.gz" },
		{ "x.gz", ".gz" },
		{ "X.TGZ", ".tgz" },
		{ "a.tar.Z", ".tar.Z" },
		{ "a.sqsh", ".sqsh" },
		{ ".tar", NULL },
		{ "tar", NULL },
		{ "x.tar.gz.txt", NULL },
		{ "", NULL },
		{ "xtar", NULL },
		{ "x.squash", ".squash" },
		{ "x.squashfs", ".squashfs" },
		{ "x.lz", ".lz" },
		{ "x.tar.lzma", ".tar.lzma" },
		{ "x.tlz4", ".tlz4" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct suffix *s = suffix_find(cases[i].name, strlen(cases[i].name));

		if ((s && s->text) != (cases[i].text != NULL) ||
		    (s && strcmp(s->text, cases[i].text)))
			fail_msg("%s: %s", cases[i].name, s ? s->text : "none");
	}
	assert_string_equal(suffix_find("x.tar?gz", 5)->text, ".tar");
}

static void test_parts_of_split(void **state)
{
	static const struct {
		const char *name, *whole, *pattern; /* NULL: none */
	} cases[] = {
		{ "x.tar.gz.aa", "x.tar.gz", ".[a-z][a-z]" },
		{ "x.tar.gz.bz", "x.tar.gz", ".[a-z][a-z]" },
		{ "x.tar.gz.aab", "x.tar.gz", ".[a-z][a-z][a-z]" },
		{ "x.tar.gzab", "x.tar.gz", "[a-z][a-z]" },
		{ "x.tar_00", "x.tar", "_[0-9][0-9]" },
		{ "x.zip.001", "x.zip", ".[0-9][0-9][0-9]" },
		{ "x.csv.zst-part07", "x.csv.zst", "-part[0-9][0-9]" },
		{ "x.tar.gz.part12345", "x.tar.gz", ".part[0-9][0-9][0-9][0-9][0-9]" },
		{ "x.sqsh.part01", "x.sqsh", ".part[0-9][0-9]" },
		{ "x.tar.part-00", "x.tar", ".part-[0-9][0-9]" },
		{ "x.tar.gz.part_aa", "x.tar.gz", ".part_[a-z][a-z]" },
		{ "x.tar.gz", NULL },
		{ "x.tar.gz.1", NULL },
		{ "x.tar.gz.123456", NULL },
		{ "x.tar.gz.md", NULL },
		{ "x.tar.gz.asc", NULL },
		{ "x.tar.gz.gpg", NULL },
		{ "x.csv.aa", NULL },
		{ "aa", NULL },
		{ "00", NULL },
		{ ".tar.aa", NULL },
		{ "", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char pattern[SUFFIX_PATTERN_SIZE] = "";
		const char *name = cases[i].name, *whole = cases[i].whole;
		size_t n = suffix_find_part(name, pattern);

		if (n != (whole ? strlen(whole) : 0) || (whole && strncmp(name, whole, n)) ||
		    (whole && strcmp(pattern, cases[i].pattern)))
			fail_msg("%s: %zu %s", name, n, pattern);
	}
}

static enum facts_format get_format(enum suffix_kind kind)
{
	switch (kind) {
	case SUFFIX_TAR:
		return FORMAT_TAR;
	case SUFFIX_ZIP:
		return FORMAT_ZIP;
	case SUFFIX_IMAGE:
		return FORMAT_SQUASHFS;
	case SUFFIX_STREAM:
		break;
	}
	return FORMAT_PLAIN;
}

/* Does stagingd start a worker that serves a mount? */
static bool daemon_takes_for_image(const char *name)
{
	struct job job = { 0 }; /* outlives its run */
	_cleanup_(stage_run_freep) struct stage_run *run = NULL;
	_cleanup_(freep) char *item = NULL;
	struct dataset_list list = { 0 };
	struct error err = ERROR_INIT;
	struct stage *s;

	assert_true(asprintf(&item, "/data/%s", name) > 0);
	assert_int_equal(dataset_list_from_string(&list, item, &err), 0);
	assert_int_equal(stage_new(&s, 1, &list.items[0]), 0);
	dataset_list_deinit(&list);
	assert_int_equal(stage_run_new(&run, &job, s), 0);
	return stage_run_is_server(run);
}

static void check_nested(const char *name, const struct suffix *s)
{
	char path[64];

	snprintf(path, sizeof(path), "a/%s", name);
	member_path_cut_suffix(path);
	if (s->kind == SUFFIX_TAR || s->kind == SUFFIX_ZIP)
		assert_string_equal(path, "a/x");
	else
		assert_string_equal(path + 2, name);
}

static void check_web(const char *name, const struct suffix *s)
{
	const struct http_head plain = { 0 }, encoded = { .encoding = "gzip" };
	char url[96];

	snprintf(url, sizeof(url), "https://h.example/%s?q=1", name);
	assert_true(http_head_may_be_encoded(&plain, url));
	assert_int_equal(http_head_may_be_encoded(&encoded, url), s->compressed);
}

static void test_all_take_a_name_for_the_same(void **state)
{
	for (const struct suffix *s = suffixes; s->text; s++) {
		char name[32];

		snprintf(name, sizeof(name), "x%s", s->text);
		assert_ptr_equal(suffix_find(name, strlen(name)), s);
		if (magic_get_promise(name) != get_format(s->kind))
			fail_msg("the worker takes %s for %s", name,
				 facts_format_to_string(magic_get_promise(name)));
		if (daemon_takes_for_image(name) != (s->kind == SUFFIX_IMAGE))
			fail_msg("stagingd takes %s for something else", name);
		check_nested(name, s);
		check_web(name, s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_longest_counts),
		cmocka_unit_test(test_parts_of_split),
		cmocka_unit_test(test_all_take_a_name_for_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
