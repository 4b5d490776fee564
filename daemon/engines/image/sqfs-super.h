/*
 * sqfs-super: the superblock of a squashfs 4.0 image, and the numbers of the format.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct error;

#define SQFS_SUPER_SIZE 96
#define SQFS_META_SIZE 8192 /* decompressed bytes of a metadata block */
#define SQFS_MIN_BLOCK_SIZE 4096u
#define SQFS_MAX_BLOCK_SIZE (1u << 20)
#define SQFS_NO_TABLE UINT64_MAX
#define SQFS_NO_FRAGMENT UINT32_MAX
#define SQFS_NO_XATTR UINT32_MAX

/* The size word of a data block or fragment: its bytes in the image, and a bit that says that they
 * are not compressed. */
#define SQFS_BLOCK_STORED (1u << 24)
#define SQFS_BLOCK_SIZE(word) ((word) & (SQFS_BLOCK_STORED - 1))

struct sqfs_super {
	uint32_t n_inodes;
	uint32_t mkfs_time;
	uint32_t block_size;
	uint32_t block_log;
	uint32_t n_fragments;
	uint32_t compressor;
	uint64_t root_ref;
	uint64_t bytes_used;
	uint64_t id_table;
	uint64_t inode_table;
	uint64_t directory_table;
	uint64_t fragment_table; /* SQFS_NO_TABLE: none */
};

/*
 * Parses the first bytes of a file of file_size bytes. Checks all facts that later code relies on:
 * version, block size, tables in order and inside bytes_used, bytes_used inside the file, counts
 * that fit into the tables, a known compressor. Returns 0 or -errno with a message: -EINVAL: this
 * is not squashfs; -EOPNOTSUPP: an image that we cannot read; -EIO: a damaged image.
 */
int sqfs_super_from_data(struct sqfs_super *super, const void *data, size_t size,
			 uint64_t file_size, struct error *err);
