/*
 * index-file: the list of a plain tar's members in a file in the same directory, so that the next
 * mount of the tar need not read its headers. The file has the members in the order of the archive,
 * not the tree that they make. A reader adds them to an index with all checks, as if they came from
 * the archive. So a forged file can do no more than a forged archive: it cannot refer to bytes
 * outside the archive or to names outside the tree.
 *
 *	bytes  64, then members: each 40, its path, its link (without a NUL), and the pieces of
 *	a sparse file: 8, and 16 for each
 *
 * With nested, the members of a tar in the tar follow that one. Without, they are passed over.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/util/cleanup.h"

struct archive_index;
struct error;
struct index_writer;
struct stage_io;
struct tar_scan_member;

#define INDEX_FILE_SUFFIX ".stage-index"

/* Makes a writer to fd, which is empty and still belongs to the caller. st: status of the archive.
 * nested: as in struct tar_scan. */
int index_writer_new(struct index_writer **wp, int fd, const struct stat *st, bool nested,
		     struct error *err);
void index_writer_free(struct index_writer *w);
DEFINE_FREEP(struct index_writer, index_writer_free)

/* Adds a member that an archive_index has accepted. For has_member of struct tar_scan. */
int index_writer_add(struct index_writer *w, const struct tar_scan_member *found,
		     struct error *err);
/* Must be called after all members were added and the archive was complete. */
int index_writer_finish(struct index_writer *w, struct error *err);

/*
 * Adds the members in the file fd to x; the caller finishes x. archive, st: the archive and its
 * status. The index must match these, and some headers of the archive are compared. io may be NULL;
 * progress is the number of members, and the share of the archive that equals the share of fd that
 * was read. nested: see struct tar_scan.
 *
 * Returns 0 or -errno. -ESTALE: the index is of another archive, or the archive has changed;
 * -EBADMSG: this is no index, or it is damaged; -EOPNOTSUPP: it is an index without nested;
 * -ECANCELED; and the errors of archive_index_add(). After a failure, x can only be freed.
 */
int index_file_load(struct archive_index *x, struct stage_io *io, int fd, int archive,
		    const struct stat *st, bool nested, struct error *err);
