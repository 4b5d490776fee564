/*
 * tar-sample: the memory that the members of a tar need, estimated from headers. A file takes whole
 * pages, so an archive of tiny files needs more memory than its size. Pure: the caller provides the
 * bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tar_sample {
	uint64_t next;	  /* offset of the next header in the archive */
	uint64_t charge;  /* memory of the members before it, in whole pages */
	uint64_t n_files; /* including directories and links */
	bool ended;	  /* the end of the archive was reached, so all members are counted */
	bool broken;	  /* there is no header at next */
};

/* Continues with data, the archive's bytes from offset `at` on, as far as it contains complete
 * headers. */
void tar_sample_add(struct tar_sample *s, const void *data, size_t size, uint64_t at);

/* Returns the space that an archive of size bytes needs if the rest is like the sample. */
uint64_t tar_sample_estimate(const struct tar_sample *s, uint64_t size);
