/*
 * buffer: memory for bulk data that the kernel copies to or from, freed by free().
 *
 * It begins with a cache line. malloc() gives large pieces at 16 bytes behind a page's begin, and
 * there the copying of a file took half as long again (rep movsb on AMD EPYC).
 */
#pragma once

#include <stdlib.h>

#define BUFFER_ALIGN 64

/* Returns NULL if there is no memory. */
static inline void *buffer_new(size_t size)
{
	return aligned_alloc(BUFFER_ALIGN, (size + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN);
}
