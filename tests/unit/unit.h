/*
 * unit: what every unit test includes: cmocka in the order that it wants, and a scratch directory.
 */
#pragma once

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
