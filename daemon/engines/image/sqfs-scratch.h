/*
 * sqfs-scratch: a buffer of each thread's own that stays from call to call.
 *
 * For answers on their way to the kernel: mapping and unmapping such a buffer for each would cost
 * more in page faults than filling it.
 */
#pragma once

#include <stddef.h>

/* At least size bytes of unknown content, until this thread's next call; freed when it ends. NULL
 * without memory. */
void *sqfs_scratch_get(size_t size);
