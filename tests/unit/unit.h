/*
 * unit: what every unit test includes: cmocka in the order that it wants, and a scratch directory.
 */
#pragma once

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"

/* A fresh directory below $TMPDIR or /tmp; *state gets its path. */
static inline int unit_scratch_setup(void **state)
{
	const char *base = getenv("TMPDIR");
	char *path;

	if (asprintf(&path, "%s/stage-unit-XXXXXX", base ? base : "/tmp") < 0 || !mkdtemp(path))
		return -1;
	*state = path;
	return 0;
}

static inline int unit_scratch_teardown(void **state)
{
	_cleanup_(freep) char *cmd = NULL;
	int r = -1;

	if (asprintf(&cmd, "chmod -R u+rwx '%s' 2>/dev/null; rm -rf '%s'", (char *)*state,
		     (char *)*state) >= 0)
		r = system(cmd);
	free(*state);
	return r;
}

/* Runs a shell command in a directory. */
static inline void unit_run_in(const char *dir, const char *command)
{
	_cleanup_(freep) char *text = NULL;

	assert_true(asprintf(&text, "cd '%s' && { %s; }", dir, command) > 0);
	assert_int_equal(system(text), 0);
}

/* Opens dir/name for reading, and returns its bytes. The caller frees them, and closes *fdp. */
static inline unsigned char *unit_load(const char *dir, const char *name, int *fdp, uint64_t *sizep)
{
	_cleanup_(freep) char *path = NULL;
	unsigned char *bytes;
	struct stat st;

	assert_true(asprintf(&path, "%s/%s", dir, name) > 0);
	*fdp = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(*fdp >= 0 && fstat(*fdp, &st) == 0);
	*sizep = (uint64_t)st.st_size;
	bytes = malloc(*sizep);
	assert_int_equal(pread(*fdp, bytes, *sizep, 0), st.st_size);
	return bytes;
}

/* What memcheck can't run ends with UNIT_SKIPPED. */
enum { UNIT_SKIPPED = 77 };

static inline bool unit_is_under_valgrind(void)
{
	const char *preloaded = getenv("LD_PRELOAD");

	return preloaded && strstr(preloaded, "vgpreload_memcheck");
}

/* memcheck and ThreadSanitizer take memory of their own for each byte, so a test that measures the
 * memory of its process learns nothing. */
static inline bool unit_memory_can_be_measured(void)
{
#ifdef __SANITIZE_THREAD__
	return false;
#else
	return !unit_is_under_valgrind();
#endif
}
