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
	uint64_t charge;  /* in whole pages, of the members before it */
	uint64_t n_files; /* with directories and links */
	bool ended;	  /* the end of the archive came: all of it is counted */
	bool broken;	  /* there is no header at next */
};

/* Goes on through data, the archive's bytes from offset at on, as far as whole headers are there.
 */
void tar_sample_add(struct tar_sample *s, const void *data, size_t size, uint64_t at);

/* The space that an archive of size bytes needs if the rest is like the sample. */
uint64_t tar_sample_estimate(const struct tar_sample *s, uint64_t size);
