/*
 * index-format: the structures of an index in a file (index-file.h). All numbers are little-endian.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/dataset/member-path.h"
#include "daemon/engines/archive/decode.h"

#define INDEX_MAGIC "stgidx1\n"

enum {
	INDEX_MAX_TEXT = 2 * MEMBER_PATH_SIZE, /* of a path or link; the same as in a tar's
						* reader */
	INDEX_BUFFER = 256 << 10,
};

struct file_head {
	char magic[8];
	uint64_t size; /* size of the archive */
	int64_t mtime;
	uint64_t mtime_ns;
	uint64_t n_members, bytes, sum; /* number, size and checksum of all members in the file */
	uint32_t n_inner;		/* number of members that are in archives in the archive */
	uint32_t nested;		/* 1: archives in the archive were opened */
};
_Static_assert(sizeof(struct file_head) == 64, "as the header says");

/* depth: number of archives around it that are members themselves. */
struct file_member {
	uint64_t start, size;
	int64_t mtime;
	uint32_t mtime_ns;
	uint16_t path_size, link_size;
	uint16_t mode, type, depth, none;
};
_Static_assert(sizeof(struct file_member) == 40, "as the header says");

/* The pieces of a sparse file follow its texts: their number (8 bytes), then each piece. */
struct file_piece {
	uint64_t pos, size;
};
_Static_assert(sizeof(struct file_piece) == 16, "as the header says");

/* The types of members by their number. An opened member is a tar; its members follow, one level
 * deeper. */
static const struct {
	enum member_type type;
	bool has_link, is_opened, is_sparse;
} file_types[] = {
	{ .type = MEMBER_FILE },
	{ .type = MEMBER_DIR },
	{ .type = MEMBER_SYMLINK, .has_link = true },
	{ .type = MEMBER_HARDLINK, .has_link = true },
	{ .type = MEMBER_FILE, .is_opened = true },
	{ .type = MEMBER_FILE, .is_sparse = true },
};
