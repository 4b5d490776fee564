/*
 * zip-sums: checks the stored members of a mounted zip against the checksums of its list. Their
 * bytes are summed while they are read by users, in any order; no additional byte is read for this.
 *
 * A reader of all bytes of a damaged member gets an error, at the latest for the last of them. So
 * does each reader after it, also where the kernel has bytes of earlier reads. A member of more
 * than 64 MiB is not checked after it was read in thousands of places, in no order.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/cleanup.h"

struct archive_index;
struct zip_sums;

/* What is known about a member. */
enum zip_sums_state {
	ZIP_SUMS_UNKNOWN,
	ZIP_SUMS_RIGHT,
	ZIP_SUMS_WRONG,
	ZIP_SUMS_LOST, /* bytes were read, and nobody knows their sums any more */
	ZIP_SUMS_LEFT, /* the same, and it is too large to be read again */
};

/* The index has to live as long, and fd stays the caller's. 0 or -ENOMEM. */
int zip_sums_new(struct zip_sums **zp, struct archive_index *x, int fd);
void zip_sums_free(struct zip_sums *z);
DEFINE_FREEP(struct zip_sums, zip_sums_free)

/* i is an entry of the index. */
enum zip_sums_state zip_sums_get_state(const struct zip_sums *z, uint32_t i);
/* Has it content that has to pass zip_sums_add()? */
bool zip_sums_wants(const struct zip_sums *z, uint32_t i);

/* n bytes, at least one, of member i, which are at pos in it and go to a reader now. 0; -EBADMSG:
 * the member is damaged; -ENOMEM; what pread() said. */
int zip_sums_add(struct zip_sums *z, uint32_t i, uint64_t pos, const void *data, size_t n);

/* As inflate_add_crc(a, B, n), where b is inflate_add_crc(0, B, n): B itself is not needed. */
uint32_t zip_sums_join(uint32_t a, uint32_t b, uint64_t n);
