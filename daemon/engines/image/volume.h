/*
 * volume: what the FUSE server shows, a tree of files that never changes. Each format that can be
 * mounted implements this interface. All functions are called by any number of threads at once.
 *
 * A file is known by its reference, a number below 2^62 that the format chooses. All functions
 * return 0 or -errno unless they say otherwise; -EIO means that the source can't be read or is
 * damaged, and -EBADMSG that this file of it is.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "common/util/cleanup.h"

struct sqfs_block;
struct volume;

#define VOLUME_MAX_READ (1 << 20)
#define VOLUME_MIN_BLOCK                                                                           \
	4096 /* extents of one read have at least this size, apart from both ends */
#define VOLUME_MAX_EXTENTS (VOLUME_MAX_READ / VOLUME_MIN_BLOCK + 2)
#define VOLUME_MAX_NAME 256
#define VOLUME_MAX_SYMLINK 4095
#define VOLUME_FILE_WORDS 16

/* A piece of a file's content, in memory or, where it is not compressed, in the source. */
struct volume_extent {
	const uint8_t *data; /* NULL: at offset in the source */
	size_t size;
	const struct sqfs_block *block; /* lent by the cache, or NULL */
	uint64_t offset;
	bool hole; /* data is zeros */
};

/* An answer to read(). */
struct volume_read {
	struct volume_extent extents[VOLUME_MAX_EXTENTS];
	size_t n_extents;
	uint64_t pos;
	size_t size;
	uint64_t file[VOLUME_FILE_WORDS]; /* what the format knows about the file */
};

struct volume_dirent {
	uint64_t ref;
	uint64_t number; /* st_ino */
	mode_t type;	 /* S_IFDIR, S_IFREG or S_IFLNK */
	uint64_t cookie; /* of the entry after this one; not set by find() */
	const char *name;
};

/* False: there is no room for this entry; it is not wanted. */
typedef bool (*volume_list_fn)(void *arg, const struct volume_dirent *ent);

struct volume_ops {
	/* A thread that waits for requests counts itself in *n_idle. Before other threads call. */
	int (*start)(struct volume *v, const atomic_uint *n_idle, unsigned n_threads);
	/* Everything but the owner. -EIO for what is not shown (devices, FIFOs, sockets). */
	int (*stat)(struct volume *v, uint64_t ref, struct stat *st);
	/* Its path below the root, for a message. NULL: it is not known. */
	int (*get_path)(struct volume *v, uint64_t ref, char *buf, size_t size);
	/* st_ino of a directory and of its parent. -ENOTDIR. */
	int (*get_numbers)(struct volume *v, uint64_t dir, uint64_t *numberp, uint64_t *parentp);
	/* 1: found, with ent->name not set; 0: not there, or not shown. */
	int (*find)(struct volume *v, uint64_t dir, const char *name, struct volume_dirent *ent);
	/* Gives the entries from a cookie on (0: the first) until add() refuses one. "." and ".."
	 * are no entries. Entries before the damage are given. */
	int (*list)(struct volume *v, uint64_t dir, uint64_t cookie, volume_list_fn add, void *arg);
	/* NUL-terminated. */
	int (*read_link)(struct volume *v, uint64_t ref, char text[static VOLUME_MAX_SYMLINK + 1]);

	/* Extended attributes of users: the names, each NUL-terminated, or the value of one, to
	 * buf. Their size; -ENODATA; -ERANGE: it is more; -ENOSYS: no file of the volume has any.
	 * NULL: the same. */
	int (*list_xattrs)(struct volume *v, uint64_t ref, char *buf, size_t size);
	int (*get_xattr)(struct volume *v, uint64_t ref, const char *name, void *buf, size_t size);

	/* Lends up to size bytes from pos on: fewer at the end of the file. To be released on
	 * success. */
	int (*read)(struct volume *v, uint64_t ref, uint64_t pos, size_t size,
		    struct volume_read *read);
	/* The descriptor in which the extents that are not in memory have their offsets. -errno:
	 * the source can't be read. */
	int (*get_fd)(struct volume *v, const struct volume_read *read);
	/* Is the source still what it was, now that bytes of get_fd()'s are on their way? 0 or
	 * -errno. NULL: it is not looked at. */
	int (*check)(struct volume *v);
	/* Reads what is not in memory to buf, which has room for all of it. */
	int (*load)(struct volume *v, struct volume_read *read, void *buf);
	void (*release)(struct volume *v, struct volume_read *read);
	/* After the answer: may prepare what a sequential reader asks for next. NULL: does nothing.
	 */
	void (*read_ahead)(struct volume *v, const struct volume_read *read);

	/* Less memory for what is cached, or as much again, while it is read. */
	void (*set_cache_size)(struct volume *v, uint64_t size);

	void (*statfs)(struct volume *v, struct statvfs *st);
	void (*free)(struct volume *v);
};

/* The first member of each format's own struct. */
struct volume {
	const struct volume_ops *ops;
	const char *noun; /* for messages: "image" */
	uint64_t root;
};

/* NULL is fine. */
static inline void volume_free(struct volume *v)
{
	if (v)
		v->ops->free(v);
}
DEFINE_FREEP(struct volume, volume_free)
