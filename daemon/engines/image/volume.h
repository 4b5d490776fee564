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
	4096 /* minimum size of the extents of a read, except the first and the last */
#define VOLUME_MAX_EXTENTS (VOLUME_MAX_READ / VOLUME_MIN_BLOCK + 2)
#define VOLUME_MAX_NAME 256
#define VOLUME_MAX_SYMLINK 4095
#define VOLUME_FILE_WORDS 16

/* A piece of a file's content: in memory, or, if it is not compressed, in the source. */
struct volume_extent {
	const uint8_t *data; /* NULL: the bytes are at offset in the source */
	size_t size;
	const struct sqfs_block *block; /* the block in the cache that lends data, or NULL */
	uint64_t offset;
	bool hole; /* data is zeros */
};

/* The result of read(). */
struct volume_read {
	struct volume_extent extents[VOLUME_MAX_EXTENTS];
	size_t n_extents;
	uint64_t pos;
	size_t size;
	uint64_t file[VOLUME_FILE_WORDS]; /* data of the format about the file */
};

struct volume_dirent {
	uint64_t ref;
	uint64_t number; /* st_ino */
	mode_t type;	 /* S_IFDIR, S_IFREG or S_IFLNK */
	uint64_t cookie; /* cookie of the next entry; not set by find() */
	const char *name;
};

/* Returns false if there is no room for this entry. */
typedef bool (*volume_list_fn)(void *arg, const struct volume_dirent *ent);

struct volume_ops {
	/* Called before the threads call other functions. A thread that waits for requests counts
	 * itself in *n_idle. */
	int (*start)(struct volume *v, const atomic_uint *n_idle, unsigned n_threads);
	/* Fills st, except the owner. -EIO for types that are not shown (devices, FIFOs,
	 * sockets). */
	int (*stat)(struct volume *v, uint64_t ref, struct stat *st);
	/* Writes the path below the root to buf, for a message. NULL: it is not known. */
	int (*get_path)(struct volume *v, uint64_t ref, char *buf, size_t size);
	/* Gets st_ino of a directory and of its parent. -ENOTDIR. */
	int (*get_numbers)(struct volume *v, uint64_t dir, uint64_t *numberp, uint64_t *parentp);
	/* Finds a name. Returns 1: found (ent->name is not set); 0: it does not exist or is not
	 * shown. */
	int (*find)(struct volume *v, uint64_t dir, const char *name, struct volume_dirent *ent);
	/* Calls add() for the entries from a cookie on (0: the first), until add() returns false.
	 * "." and ".." are not entries. If the directory is damaged, the entries before the damage
	 * are listed. */
	int (*list)(struct volume *v, uint64_t dir, uint64_t cookie, volume_list_fn add, void *arg);
	/* Reads the target of a link, NUL-terminated. */
	int (*read_link)(struct volume *v, uint64_t ref, char text[static VOLUME_MAX_SYMLINK + 1]);

	/* Write to buf the names of user attributes, each NUL-terminated, or the value of one.
	 * Return the size; -ENODATA; -ERANGE: size is too small; -ENOSYS: no file of the volume has
	 * attributes. A NULL function means the same. */
	int (*list_xattrs)(struct volume *v, uint64_t ref, char *buf, size_t size);
	int (*get_xattr)(struct volume *v, uint64_t ref, const char *name, void *buf, size_t size);

	/* Lends up to size bytes from pos on; fewer only at the end of the file. After success,
	 * release() must be called. */
	int (*read)(struct volume *v, uint64_t ref, uint64_t pos, size_t size,
		    struct volume_read *read);
	/* Returns the descriptor of the source, in which extents without data have their offsets.
	 * -errno: the source cannot be read. */
	int (*get_fd)(struct volume *v, const struct volume_read *read);
	/* Called when bytes of get_fd() are in a pipe: checks that the source has not changed.
	 * Returns 0 or -errno. NULL: not checked. */
	int (*check)(struct volume *v);
	/* Reads the extents without data to buf, which has room for all of them. */
	int (*load)(struct volume *v, struct volume_read *read, void *buf);
	void (*release)(struct volume *v, struct volume_read *read);
	/* Called after the answer was sent: may read ahead for a sequential reader. NULL: does
	 * nothing. */
	void (*read_ahead)(struct volume *v, const struct volume_read *read);

	/* Changes the size of the cache, also while files are read. */
	void (*set_cache_size)(struct volume *v, uint64_t size);

	void (*statfs)(struct volume *v, struct statvfs *st);
	void (*free)(struct volume *v);
};

/* The first member of each format's own struct. */
struct volume {
	const struct volume_ops *ops;
	const char *noun; /* for messages, such as "image" */
	uint64_t root;
};

/* v may be NULL. */
static inline void volume_free(struct volume *v)
{
	if (v)
		v->ops->free(v);
}
DEFINE_FREEP(struct volume, volume_free)
