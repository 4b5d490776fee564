#include "client/plan-ask.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What the advice for such facts says, "" for none. */
static const char *advise(const char *kind, const char *format, const char *method,
			  const char *tier, uint64_t total, uint64_t n_files)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	static char text[4096];

	assert_int_equal(kv_new(&kv), 0);
	kv_set(kv, "kind", kind);
	kv_set(kv, "format", format);
	kv_set(kv, "method", method);
	kv_set(kv, "tier", tier);
	kv_set_u64(kv, "total", total);
	kv_set_u64(kv, "nfiles", n_files);
	plan_get_advice(kv, "/p/data", text, sizeof(text));
	return text;
}

static void test_only_what_follows_from_the_facts_is_advised(void **state)
{
	static const struct {
		const char *what, *kind, *format, *method, *tier;
		uint64_t total, n_files;
		const char *says; /* NULL: nothing */
	} cases[] = {
		{ "small files", "dir", "plain", "copy", "shm", 10ULL << 30, 1000000,
		  "stagectl pack" },
		{ "few files", "dir", "plain", "copy", "shm", 10ULL << 20, 100, NULL },
		{ "big files", "dir", "plain", "copy", "shm", 1ULL << 42, 10000, NULL },
		{ "a file", "file", "plain", "copy", "shm", 1ULL << 40, 1, NULL },
		{ "gzip", "dir", "tar+gzip", "extract", "shm", 1 << 20, 0, "gzip" },
		{ "zstd", "dir", "tar+zstd", "extract", "shm", 1 << 20, 0, NULL },
		{ "gzip that is copied", "file", "tar+gzip", "copy", "shm", 1 << 20, 0, NULL },
		{ "big tar", "dir", "tar", "extract", "shm", 10ULL << 30, 0, "squashfs" },
		{ "image in place", "dir", "squashfs", "mount", "source", 10ULL << 30, 0, ":shm" },
		{ "tar in place", "dir", "tar", "mount", "source", 10ULL << 30, 0,
		  "The files are" },
		{ "image in memory", "dir", "squashfs", "mount", "shm", 10ULL << 30, 0, NULL },
		{ "nothing known", "", "", "", "", 0, 0, NULL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *text = advise(cases[i].kind, cases[i].format, cases[i].method,
					  cases[i].tier, cases[i].total, cases[i].n_files);

		if (cases[i].says ? !strstr(text, cases[i].says) : text[0] != '\0')
			fail_msg("%s: %s", cases[i].what, text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_what_follows_from_the_facts_is_advised),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
