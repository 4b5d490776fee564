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

/* The state of a member's checksum. */
enum zip_sums_state {
	ZIP_SUMS_UNKNOWN,
	ZIP_SUMS_RIGHT,
	ZIP_SUMS_WRONG,
	ZIP_SUMS_LOST, /* bytes were read, but their sums are not known any more */
	ZIP_SUMS_LEFT, /* the same, and the member is too large to be read again */
};

/* The index must live as long as the result; fd still belongs to the caller. Returns 0 or
 * -ENOMEM. */
int zip_sums_new(struct zip_sums **zp, struct archive_index *x, int fd);
void zip_sums_free(struct zip_sums *z);
DEFINE_FREEP(struct zip_sums, zip_sums_free)

/* i: number of an entry in the index. */
enum zip_sums_state zip_sums_get_state(const struct zip_sums *z, uint32_t i);
/* Returns true if the member's content must be passed to zip_sums_add(). */
bool zip_sums_wants(const struct zip_sums *z, uint32_t i);

/* Adds n bytes (at least one) of member i, which begin at pos in it and are about to be given to a
 * reader. Returns 0; -EBADMSG: the member is damaged; -ENOMEM; or the error of pread(). */
int zip_sums_add(struct zip_sums *z, uint32_t i, uint64_t pos, const void *data, size_t n);

/* Returns inflate_add_crc(a, B, n) for n bytes B with b = inflate_add_crc(0, B, n). The bytes B are
 * not needed. */
uint32_t zip_sums_join(uint32_t a, uint32_t b, uint64_t n);
