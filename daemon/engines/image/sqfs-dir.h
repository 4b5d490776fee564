/*
 * sqfs-dir: listings of directories, in order and by name.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "daemon/engines/image/sqfs-inode.h"
#include "daemon/engines/image/sqfs-meta.h"

#define SQFS_MAX_NAME 256

struct sqfs_dirent {
	uint64_t ref;	     /* reference of its inode */
	uint32_t number;     /* number of its inode, according to the listing */
	enum sqfs_type type; /* according to the listing */
	uint64_t cookie;     /* position of the next entry */
	size_t name_size;
	char name[SQFS_MAX_NAME + 1];
};

struct sqfs_dir {
	struct sqfs_meta meta;
	uint64_t size; /* size of the listing */
	uint64_t pos;
	uint64_t run_pos; /* position of the present run of entries, which share a header */
	uint32_t n_left;  /* remaining entries of the run */
	uint32_t n_read;
	uint32_t run_block;
	uint32_t run_number;
	uint32_t n_inodes;
};

#define SQFS_DIR_START 0 /* cookie of the first entry */

/* Begins at a cookie from an entry of this directory. -ENOTDIR; -EIO; -EINVAL: the cookie is not
 * valid. */
int sqfs_dir_begin(struct sqfs_dir *d, struct sqfs_image *img, const struct sqfs_inode *inode,
		   uint64_t cookie);
/* Returns 1: *ent is the next entry; 0: there is none; -EIO: damaged. "." and ".." are not
 * entries. */
int sqfs_dir_read(struct sqfs_dir *d, struct sqfs_dirent *ent);
void sqfs_dir_end(struct sqfs_dir *d);

/* Checks that the directory's index, if it has one, leads to the names in it. Returns 0 or
 * -errno. */
int sqfs_dir_check_index(struct sqfs_image *img, const struct sqfs_inode *inode);

/* Finds a name. Returns 1: found; 0: it does not exist; or -errno. */
int sqfs_dir_find(struct sqfs_image *img, const struct sqfs_inode *inode, const char *name,
		  struct sqfs_dirent *ent);

/* Finds the inode at a relative path of plain names; links are not followed. "" is the root.
 * Returns as sqfs_dir_find() does; 0 also if a component is not a directory. */
int sqfs_dir_resolve(struct sqfs_image *img, const char *path, struct sqfs_inode *inode);
