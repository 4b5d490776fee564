/*
 * index-file: the list of a plain tar's members in a file in the same directory, so that the next
 * mount of the tar need not read its headers. The file has the members in the order of the archive,
 * not the tree that they make. A reader adds them to an index with all checks, as if they came from
 * the archive. So a forged file can do no more than a forged archive: it cannot refer to bytes
 * outside the archive or to names outside the tree.
 *
 *	bytes  64, then members: each 40, its path, its link (no NUL behind them), and the pieces of
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

/* Writes to fd, which is empty and stays the caller's. st: of the archive. nested: as it is
 * walked. */
int index_writer_new(struct index_writer **wp, int fd, const struct stat *st, bool nested,
		     struct error *err);
void index_writer_free(struct index_writer *w);
DEFINE_FREEP(struct index_writer, index_writer_free)

/* A member that an archive_index took; for has_member of struct tar_scan. */
int index_writer_add(struct index_writer *w, const struct tar_scan_member *found,
		     struct error *err);
/* All of them are added, and the archive was whole. */
int index_writer_finish(struct index_writer *w, struct error *err);

/*
 * Adds the members that the file open as fd has; the caller finishes x. archive, st: of which they
 * have to be; some of its headers are compared. io may be NULL; progress is members, and that part
 * of the archive that equals the part of fd that was read. nested: see struct tar_scan. -ESTALE:
 * they are of another archive, or of one that has changed; -EBADMSG: it is no index, or damaged;
 * -EOPNOTSUPP: it is one without nested; -ECANCELED; and what archive_index_add() says. After a
 * failure x can only be freed.
 */
int index_file_load(struct archive_index *x, struct stage_io *io, int fd, int archive,
		    const struct stat *st, bool nested, struct error *err);
