/*
 * failcalls: a call that asks the system for something fails.
 *
 * Linked into a unit test, where it is the nth; or preloaded to a program, where it is the first
 * from a place that none has failed from. A place is the call's name, its four innermost callers in
 * the program, and whether it is a process's first or second call from there: the thousandth
 * readdir() of a loop is as good as the second. FAILCALLS_SEEN is a file of FAILCALLS_SEEN_SIZE
 * zeros, in which all runs of a walk note what has failed; its first four bytes become 1 when one
 * has, and no other does until somebody makes them 0 again. FAILCALLS_TOLD is a file that is told
 * the call and its callers, FAILCALLS_PART n/m has only one place of m fail.
 *
 * Counted are the calls that make, open, change or read
 * something, and malloc() and its kin, in unit tests libc's own use included; what gives something
 * back (close, free) and what can't fail is not. A child goes on counting for itself.
 *
 * Not for builds with sanitizers, which want malloc() for themselves.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define FAILCALLS_FILE "/run/failcalls"
#define FAILCALLS_DEATH "death"

/* The nth call of this thread from now on fails, once: memory as missing, others with EIO. */
void failcalls_arm(size_t n);
/* Name of the call that failed, or NULL: it did not come to that. */
const char *failcalls_disarm(void);

/* Calls are not counted until it is said again, with false. */
void failcalls_pause(bool yes);

/* Blocks of memory in use, and open descriptors */
size_t failcalls_count_blocks(void);
size_t failcalls_count_fds(void);
