/*
 * archive-volume: an archive as a volume, by its index. Uncompressed content is passed from the
 * archive's pages to the kernel; deflated members of zips are inflated in blocks (zip-blocks.h).
 * The checksum of a deflated member is compared when its end is inflated, that of a stored member
 * when all of it was read (zip-sums.h). Spliced content cannot be summed here, so a stored member
 * is spliced only after its checksum was compared.
 *
 * An archive that changes or shrinks while it is mounted gives its readers an error: its size and
 * time are compared with the index's after a read. For spliced content, they are compared when its
 * pages are in the pipe, before the reader gets them. Two changes are not noticed: one that keeps
 * the size and sets the time back to what it was; and one that is written into those pages between
 * the comparison and the reader's copy of them.
 */
#pragma once

#include <stddef.h>
#include <sys/stat.h>

struct archive_index;
struct volume;

/* Makes a volume. x must be finished; the volume owns it after success. fd still belongs to the
 * caller and must stay open as long as the volume. st: status of the archive when it was indexed.
 * cache_size: bytes for inflated content. Returns 0 or -ENOMEM. */
int archive_volume_new(struct volume **vp, struct archive_index *x, int fd, const struct stat *st,
		       size_t cache_size);
