/*
 * zip-scan: adds the members of a zip to an index. Their names come from the reader that extraction
 * uses (decode.h), so both refuse the same members.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct archive_index;
struct error;
struct stage_io;

struct zip_scan {
	int fd;
	uint64_t size; /* size of the file */
	struct stage_io
		*io; /* may be NULL; progress is the offset of the last member, and members */
};

/*
 * Adds all members; the caller finishes the index. No content is read, so damage in a member is
 * found when it is read. Returns 0 or -errno. -ENODATA: cut off; -EBADMSG: damaged; -EOPNOTSUPP: a
 * member that only extraction can read (a method other than stored and deflated, or a header that
 * contradicts the central directory); -ECANCELED; and the errors of decode_next() and
 * archive_index_add().
 */
int zip_scan(struct archive_index *x, const struct zip_scan *scan, struct error *err);
