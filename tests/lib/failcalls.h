/*
 * failcalls: the nth call that asks the system for something fails.
 *
 * Linked into a unit test, or preloaded to a program: then FAILCALLS_AT is n, and FAILCALLS_TOLD a file
 * that is told the name of the call. Counted are the calls that make, open, change or read
 * something, and malloc() and its kin, in unit tests libc's own use included; what gives something back
 * (close, free) and what can't fail is not. A child goes on counting for itself.
 *
 * Not for builds with sanitizers, which want malloc() for themselves.
 */
#pragma once

#include <stddef.h>

/* The nth call of this thread from now on fails, once: memory as missing, others with EIO. */
void failcalls_arm(size_t n);
/* Name of the call that failed, or NULL: it did not come to that. */
const char *failcalls_disarm(void);

/* Blocks of memory in use, and open descriptors */
size_t failcalls_count_blocks(void);
size_t failcalls_count_fds(void);
