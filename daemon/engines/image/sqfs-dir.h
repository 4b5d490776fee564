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
	uint64_t ref;	     /* of its inode */
	uint32_t number;     /* of its inode, as the listing says */
	enum sqfs_type type; /* as the listing says */
	uint64_t cookie;     /* where the entry behind this one begins */
	size_t name_size;
	char name[SQFS_MAX_NAME + 1];
};

struct sqfs_dir {
	struct sqfs_meta meta;
	uint64_t size; /* of the listing */
	uint64_t pos;
	uint64_t run_pos; /* where the run of entries began: they share what its header says */
	uint32_t n_left;  /* entries of the run still to come */
	uint32_t n_read;
	uint32_t run_block;
	uint32_t run_number;
	uint32_t n_inodes;
};

#define SQFS_DIR_START 0 /* cookie of the first entry */

/* Begins at a cookie that an entry of this directory gave. -ENOTDIR, -EIO, -EINVAL for a cookie
 * that can't be. */
int sqfs_dir_begin(struct sqfs_dir *d, struct sqfs_image *img, const struct sqfs_inode *inode,
		   uint64_t cookie);
/* 1: *ent is the next entry; 0: there is none; -EIO: damaged. "." and ".." are not entries. */
int sqfs_dir_read(struct sqfs_dir *d, struct sqfs_dirent *ent);
void sqfs_dir_end(struct sqfs_dir *d);

/* Does the index, if there is one, lead to the names that it says? 0, or -errno. */
int sqfs_dir_check_index(struct sqfs_image *img, const struct sqfs_inode *inode);

/* 1: found; 0: not there; -errno. */
int sqfs_dir_find(struct sqfs_image *img, const struct sqfs_inode *inode, const char *name,
		  struct sqfs_dirent *ent);

/* The inode at a relative path of plain names; links are not followed. "" is the root. 1, 0 or
 * -errno as above; 0 also where a component is no directory. */
int sqfs_dir_resolve(struct sqfs_image *img, const char *path, struct sqfs_inode *inode);
