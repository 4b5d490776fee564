/*
 * sqfs-inode: inodes of an image, checked.
 *
 * An inode is known by its reference: where it lies in the inode table (48 bits). References are as
 * unique and lasting as inode numbers, and need no table to be found again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/engines/image/sqfs-meta.h"

struct sqfs_image;

enum sqfs_type {
	SQFS_TYPE_DIR = 1,
	SQFS_TYPE_FILE,
	SQFS_TYPE_SYMLINK,
	SQFS_TYPE_BLOCK_DEVICE,
	SQFS_TYPE_CHAR_DEVICE,
	SQFS_TYPE_FIFO,
	SQFS_TYPE_SOCKET,
	SQFS_TYPE_EXTENDED = 7, /* added to the above for inodes with more fields */
};

#define SQFS_MAX_SYMLINK 4095

struct sqfs_inode {
	uint64_t ref;
	enum sqfs_type type; /* never an extended one */
	uint16_t mode;	     /* permission bits, 07777 */
	uint32_t number;     /* 1 … n_inodes */
	uint32_t mtime;
	uint32_t n_links;
	uint32_t xattr;		/* index of its attributes (sqfs-xattr.h); SQFS_NO_XATTR: none */
	uint64_t size;		/* size of the content, or of a directory's listing */
	struct sqfs_place body; /* place of the block list, a link's target, or a directory's
				 * index */

	union {
		struct {
			uint64_t start; /* offset of the first block */
			uint64_t n_blocks;
			uint64_t n_sparse; /* bytes in holes, if the maker counted them */
			uint32_t fragment; /* SQFS_NO_FRAGMENT: none */
			uint32_t fragment_pos;
		} file;
		struct {
			struct sqfs_place listing;
			uint32_t parent; /* inode number; the root's is above all others */
			uint16_t n_index;
		} dir;
	};
};

uint64_t sqfs_inode_get_root(const struct sqfs_image *img);

/* Loads an inode. -EIO: there can be no inode at this place, or it is damaged. */
int sqfs_inode_load(struct sqfs_image *img, uint64_t ref, struct sqfs_inode *inode);

/* Reads the target of a link, NUL-terminated. buf has SQFS_MAX_SYMLINK + 1 bytes. */
int sqfs_inode_read_link(struct sqfs_image *img, const struct sqfs_inode *inode, char *buf);

/* Returns true for regular files, directories and links, but not for devices, FIFOs and sockets. */
bool sqfs_type_is_shown(enum sqfs_type type);
