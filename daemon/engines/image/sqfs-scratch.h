/*
 * sqfs-scratch: a buffer of each thread that stays allocated between calls. It is for answers to
 * the kernel: to map and unmap a buffer for each answer would take more time in page faults than
 * filling it.
 */
#pragma once

#include <stddef.h>

/* Returns at least size bytes of undefined content. They are valid until this thread's next call,
 * and are freed when the thread ends. NULL: no memory. */
void *sqfs_scratch_get(size_t size);
