/*
 * The checks begin with "is it an image" and end with "do the numbers fit each other", so that the
 * message names the most likely cause. bytes_used, which mksquashfs writes last, distinguishes an
 * incomplete download from an image that was never completed.
 */
#include "daemon/engines/image/sqfs-super.h"

#include <errno.h>
#include <inttypes.h>

#include "common/util/error.h"
#include "common/util/le.h"
#include "daemon/engines/image/sqfs-codec.h"

#define SUPER_MAGIC 0x73717368u
#define SUPER_MAGIC_SWAPPED 0x68737173u

/* The minimum size of an inode, and of a fragment's entry, in bytes. */
enum { SUPER_MIN_INODE = 20, SUPER_FRAGMENT_ENTRY = 16 };

static int super_check_kind(const uint8_t *p, struct error *err)
{
	uint32_t magic = le_u32(p);
	unsigned major = le_u16(p + 28), minor = le_u16(p + 30);

	if (magic == SUPER_MAGIC_SWAPPED)
		return error_set(err, EOPNOTSUPP,
				 "a big-endian squashfs image of an old version; "
				 "make it again with mksquashfs 4.x");
	if (magic != SUPER_MAGIC)
		return error_set(err, EINVAL, "not a squashfs image");
	if (major != 4 || minor != 0)
		return error_set(err, EOPNOTSUPP,
				 "squashfs version %u.%u is not supported, only 4.0", major, minor);
	return 0;
}

static int super_check_blocks(const struct sqfs_super *s, struct error *err)
{
	if (s->block_size < SQFS_MIN_BLOCK_SIZE || s->block_size > SQFS_MAX_BLOCK_SIZE ||
	    (s->block_size & (s->block_size - 1)) != 0)
		return error_set(err, EIO, "image is damaged: block size %" PRIu32, s->block_size);
	if (s->block_log >= 32 || UINT32_C(1) << s->block_log != s->block_size)
		return error_set(err, EIO,
				 "image is damaged: block size %" PRIu32
				 " but its logarithm %" PRIu32,
				 s->block_size, s->block_log);
	if (!sqfs_compressor_to_string(s->compressor))
		return error_set(err, EOPNOTSUPP,
				 "image is compressed by an unknown "
				 "method (%" PRIu32 ")",
				 s->compressor);
	return 0;
}

/* Returns true if a table of size bytes in the image can have n entries of each bytes. A metadata
 * block has at least two bytes of header and one of content. */
static int super_table_holds(uint64_t size, uint64_t n, uint64_t each)
{
	return n * each <= (size / 3 + 1) * SQFS_META_SIZE;
}

static int super_check_tables(const struct sqfs_super *s, struct error *err)
{
	if (s->inode_table < SQFS_SUPER_SIZE || s->inode_table >= s->directory_table ||
	    s->directory_table >= s->bytes_used)
		return error_set(err, EIO, "image is damaged: its tables lie outside of it");
	if (s->id_table < s->directory_table || s->id_table >= s->bytes_used)
		return error_set(err, EIO, "image is damaged: its id table lies outside of it");
	if (s->n_inodes == 0 ||
	    !super_table_holds(s->directory_table - s->inode_table, s->n_inodes, SUPER_MIN_INODE))
		return error_set(err, EIO, "image is damaged: %" PRIu32 " inodes", s->n_inodes);
	if ((s->root_ref >> 16) >= s->directory_table - s->inode_table ||
	    (s->root_ref & 0xffff) >= SQFS_META_SIZE)
		return error_set(err, EIO, "image is damaged: its root lies outside of it");
	if (s->n_fragments == 0)
		return 0;
	if (s->fragment_table < s->directory_table || s->fragment_table >= s->bytes_used ||
	    !super_table_holds(s->fragment_table - s->directory_table, s->n_fragments,
			       SUPER_FRAGMENT_ENTRY))
		return error_set(err, EIO, "image is damaged: %" PRIu32 " fragments",
				 s->n_fragments);
	return 0;
}

int sqfs_super_from_data(struct sqfs_super *super, const void *data, size_t size,
			 uint64_t file_size, struct error *err)
{
	const uint8_t *p = data;
	struct sqfs_super s;
	int r;

	if (file_size == 0)
		return error_set(err, EINVAL, "the image is empty");
	if (size < SQFS_SUPER_SIZE)
		return error_set(err, EINVAL, "not a squashfs image: only %zu bytes", size);
	r = super_check_kind(p, err);
	if (r < 0)
		return r;
	s = (struct sqfs_super){
		.n_inodes = le_u32(p + 4),
		.mkfs_time = le_u32(p + 8),
		.block_size = le_u32(p + 12),
		.n_fragments = le_u32(p + 16),
		.compressor = le_u16(p + 20),
		.block_log = le_u16(p + 22),
		.root_ref = le_u64(p + 32),
		.bytes_used = le_u64(p + 40),
		.id_table = le_u64(p + 48),
		.inode_table = le_u64(p + 64),
		.directory_table = le_u64(p + 72),
		.fragment_table = le_u64(p + 80),
	};
	r = super_check_blocks(&s, err);
	if (r < 0)
		return r;
	if (s.bytes_used > file_size)
		return error_set(err, EIO,
				 "image is truncated: has %" PRIu64 " of %" PRIu64 " bytes",
				 file_size, s.bytes_used);
	r = super_check_tables(&s, err);
	if (r < 0)
		return r;
	*super = s;
	return 0;
}
