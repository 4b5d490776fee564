/*
 * zip-scan: the members of a zip, into an index. The reader of extraction (decode.h) names them, so
 * the same are refused.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct archive_index;
struct error;
struct stage_io;

struct zip_scan {
	int fd;
	uint64_t size; /* of the file */
	struct stage_io
		*io; /* may be NULL. Progress is the place of the last member, and members */
};

/*
 * Adds all members; the caller finishes the index. No content is read, so damage inside a member is
 * found by its readers. -ENODATA: cut off; -EBADMSG: damaged; -EOPNOTSUPP: a member that only
 * extraction can read (another method than stored and deflated, a header that contradicts the
 * list); -ECANCELED; and what decode_next() and archive_index_add() say.
 */
int zip_scan(struct archive_index *x, const struct zip_scan *scan, struct error *err);
