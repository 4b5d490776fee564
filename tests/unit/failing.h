/*
 * failing: does something again and again, and lets another call of it fail each time.
 */
#pragma once

#include "tests/unit/unit.h"

#include "tests/lib/failcalls.h"

enum { WALK_MAX = 100000 };

/* Another answer than these fails the test: half of a thing taken for all. */
enum answer { WHOLE, SAID_SO, WRONG };

static inline enum answer answer_of(int r)
{
	return r == 0 ? WHOLE : r < 0 ? SAID_SO : WRONG;
}

/* Lets the first, second, third call of fn() fail, until it comes to its end without; returns how
 * many there were. before() is called before each, and not counted. */
static inline size_t walk_from(const char *what, void (*before)(void *arg),
			       enum answer (*fn)(void *arg), void *arg)
{
	/* The first time fills what libc keeps. */
	before(arg);
	assert_int_equal(fn(arg), WHOLE);
	for (size_t n = 1; n < WALK_MAX; n++) {
		size_t blocks = failcalls_count_blocks(), fds = failcalls_count_fds();
		enum answer answer;
		const char *failed;

		before(arg);
		failcalls_arm(n);
		answer = fn(arg);
		failed = failcalls_disarm();
		if (answer == WRONG || (answer == SAID_SO && !failed))
			fail_msg("%s: call %zu, %s, failed: not what was promised", what, n,
				 failed ? failed : "none of them,");
		if (failcalls_count_blocks() != blocks || failcalls_count_fds() != fds)
			fail_msg(
				"%s: call %zu, %s, failed: %zd blocks and %zd descriptors are left",
				what, n, failed ? failed : "none of them,",
				(ssize_t)(failcalls_count_blocks() - blocks),
				(ssize_t)(failcalls_count_fds() - fds));
		if (!failed)
			return n - 1;
	}
	fail_msg("%s: does not end", what);
	return 0;
}

static inline void nothing(void *arg)
{
}

static inline size_t walk(const char *what, enum answer (*fn)(void *arg), void *arg)
{
	return walk_from(what, nothing, fn, arg);
}
