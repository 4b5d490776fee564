/*
 * sqfs-scratch: a buffer of each thread that stays allocated between calls. It is for answers to
 * the kernel: to map and unmap a buffer for each answer would take more time in page faults than
 * filling it.
 */
#pragma once

#include <stddef.h>

/* At least size bytes of unknown content, until this thread's next call; freed when it ends. NULL
 * without memory. */
void *sqfs_scratch_get(size_t size);
