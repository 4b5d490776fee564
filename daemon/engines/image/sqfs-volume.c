/*
 * A file's reference is that of its inode, so no table of references is needed.
 */
#include "daemon/engines/image/sqfs-volume.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/engines/image/sqfs-ahead.h"
#include "daemon/engines/image/sqfs-dir.h"
#include "daemon/engines/image/sqfs-file.h"
#include "daemon/engines/image/sqfs-image.h"
#include "daemon/engines/image/sqfs-inode.h"
#include "daemon/engines/image/sqfs-xattr.h"
#include "daemon/engines/image/volume.h"

enum {
	VOLUME_AHEAD_PART = 8, /* read-ahead may use this part of the cache */
};

_Static_assert(SQFS_MIN_BLOCK_SIZE >= VOLUME_MIN_BLOCK, "the extents of a read have room");
_Static_assert(SQFS_MAX_SYMLINK <= VOLUME_MAX_SYMLINK, "a link has room");
_Static_assert(SQFS_MAX_NAME <= VOLUME_MAX_NAME, "a name has room");
_Static_assert(sizeof(struct sqfs_inode) <= VOLUME_FILE_WORDS * sizeof(uint64_t),
	       "an inode has room");
_Static_assert(_Alignof(struct sqfs_inode) <= _Alignof(uint64_t), "an inode may lie there");

static const mode_t type_modes[] = {
	[SQFS_TYPE_DIR] = S_IFDIR,
	[SQFS_TYPE_FILE] = S_IFREG,
	[SQFS_TYPE_SYMLINK] = S_IFLNK,
};

struct sqfs_volume {
	struct volume volume;
	struct sqfs_image *img;
	struct sqfs_ahead *ahead;
	atomic_bool has_xattrs; /* false also if this is not known yet */
};

static struct sqfs_image *get_image(struct volume *v)
{
	return ((struct sqfs_volume *)v)->img;
}

/* Loads the inode of a file that is shown. */
static int load_inode(struct volume *v, uint64_t ref, struct sqfs_inode *inode)
{
	int r = sqfs_inode_load(get_image(v), ref, inode);

	if (r < 0)
		return r;
	return sqfs_type_is_shown(inode->type) ? 0 : -EIO;
}

/* Returns the number of blocks to read ahead for one reader: enough for all threads, but only a
 * small part of the cache. */
static unsigned get_reach(const struct sqfs_image *img, unsigned n_threads)
{
	unsigned most = (unsigned)(sqfs_image_get_cache_size(img) / VOLUME_AHEAD_PART /
				   sqfs_image_get_super(img)->block_size);

	return n_threads < most ? n_threads + 1 : most;
}

static int sqfs_volume_start(struct volume *v, const atomic_uint *n_idle, unsigned n_threads)
{
	struct sqfs_volume *s = (struct sqfs_volume *)v;

	return sqfs_ahead_new(&s->ahead, s->img, n_idle, get_reach(s->img, n_threads));
}

static int sqfs_volume_stat(struct volume *v, uint64_t ref, struct stat *st)
{
	struct sqfs_inode inode;
	uint64_t held;
	int r = load_inode(v, ref, &inode);

	if (r < 0)
		return r;
	held = inode.size;
	if (inode.type == SQFS_TYPE_FILE && inode.file.n_sparse <= inode.size)
		held -= inode.file.n_sparse;
	*st = (struct stat){
		.st_ino = inode.number,
		.st_mode = type_modes[inode.type] | (inode.mode & 0777),
		.st_nlink = inode.n_links,
		.st_size = (off_t)inode.size,
		.st_blksize = (blksize_t)sqfs_image_get_super(get_image(v))->block_size,
		.st_blocks = (blkcnt_t)((held + 511) / 512),
		.st_atim.tv_sec = inode.mtime,
		.st_mtim.tv_sec = inode.mtime,
		.st_ctim.tv_sec = inode.mtime,
	};
	return 0;
}

static int sqfs_volume_get_numbers(struct volume *v, uint64_t dir, uint64_t *numberp,
				   uint64_t *parentp)
{
	struct sqfs_inode inode;
	int r = load_inode(v, dir, &inode);

	if (r == 0 && inode.type != SQFS_TYPE_DIR)
		r = -ENOTDIR;
	if (r < 0)
		return r;
	*numberp = inode.number;
	*parentp = inode.dir.parent;
	return 0;
}

static void fill_dirent(const struct sqfs_dirent *from, struct volume_dirent *ent)
{
	*ent = (struct volume_dirent){
		.ref = from->ref,
		.number = from->number,
		.type = type_modes[from->type],
		.cookie = from->cookie,
	};
}

static int sqfs_volume_find(struct volume *v, uint64_t dir, const char *name,
			    struct volume_dirent *ent)
{
	struct sqfs_inode inode;
	struct sqfs_dirent found = { 0 };
	int r = load_inode(v, dir, &inode);

	if (r == 0)
		r = sqfs_dir_find(get_image(v), &inode, name, &found);
	if (r <= 0 || !sqfs_type_is_shown(found.type))
		return r < 0 ? r : 0;
	fill_dirent(&found, ent);
	return 1;
}

static int sqfs_volume_list(struct volume *v, uint64_t dir, uint64_t cookie, volume_list_fn add,
			    void *arg)
{
	struct volume_dirent ent;
	struct sqfs_dirent found;
	struct sqfs_inode inode;
	struct sqfs_dir d;
	int r = load_inode(v, dir, &inode);

	if (r == 0)
		r = sqfs_dir_begin(&d, get_image(v), &inode, cookie);
	if (r < 0)
		return r;
	while ((r = sqfs_dir_read(&d, &found)) == 1) {
		if (!sqfs_type_is_shown(found.type))
			continue;
		fill_dirent(&found, &ent);
		ent.name = found.name;
		if (!add(arg, &ent))
			break;
	}
	sqfs_dir_end(&d);
	return r < 0 ? r : 0;
}

static int sqfs_volume_read_link(struct volume *v, uint64_t ref,
				 char text[static VOLUME_MAX_SYMLINK + 1])
{
	struct sqfs_inode inode;
	int r = load_inode(v, ref, &inode);

	return r < 0 ? r : sqfs_inode_read_link(get_image(v), &inode, text);
}

/* Loads an inode for its attributes. If the volume has none, returns ENOSYS, which the kernel
 * remembers: ls(1) asks for an attribute of each file. */
static int load_inode_with_xattrs(struct volume *v, uint64_t ref, struct sqfs_inode *inode)
{
	struct sqfs_volume *s = (struct sqfs_volume *)v;

	if (!atomic_load_explicit(&s->has_xattrs, memory_order_relaxed)) {
		if (!sqfs_xattr_is_used(s->img))
			return -ENOSYS;
		atomic_store_explicit(&s->has_xattrs, true, memory_order_relaxed);
	}
	return load_inode(v, ref, inode);
}

static int sqfs_volume_list_xattrs(struct volume *v, uint64_t ref, char *buf, size_t size)
{
	struct sqfs_inode inode;
	int r = load_inode_with_xattrs(v, ref, &inode);

	return r < 0 ? r : sqfs_xattr_list(get_image(v), &inode, buf, size);
}

static int sqfs_volume_get_xattr(struct volume *v, uint64_t ref, const char *name, void *buf,
				 size_t size)
{
	struct sqfs_inode inode;
	int r = load_inode_with_xattrs(v, ref, &inode);

	return r < 0 ? r : sqfs_xattr_get(get_image(v), &inode, name, buf, size);
}

static struct sqfs_inode *get_inode(const struct volume_read *read)
{
	return (struct sqfs_inode *)read->file;
}

static int sqfs_volume_read(struct volume *v, uint64_t ref, uint64_t pos, size_t size,
			    struct volume_read *read)
{
	int r = load_inode(v, ref, get_inode(read));

	read->pos = pos;
	read->size = size;
	read->n_extents = 0;
	if (r < 0)
		return r;
	return sqfs_file_read(get_image(v), get_inode(read), pos, size, read->extents,
			      &read->n_extents);
}

/* Returns the descriptor of the copy if that contains the whole read; otherwise that of the
 * image. */
static int sqfs_volume_get_fd(struct volume *v, const struct volume_read *read)
{
	const struct sqfs_image *img = get_image(v);
	bool copied = read->n_extents > 0; /* a read without extents needs no copy */

	for (size_t i = 0; i < read->n_extents && copied; i++)
		copied = sqfs_image_is_copied(img, read->extents[i].offset, read->extents[i].size);
	return sqfs_image_get_fd(img, copied);
}

static int sqfs_volume_load(struct volume *v, struct volume_read *read, void *buf)
{
	return sqfs_file_load(get_image(v), read->extents, read->n_extents, buf);
}

static void sqfs_volume_release(struct volume *v, struct volume_read *read)
{
	sqfs_file_release(get_image(v), read->extents, read->n_extents);
}

static void sqfs_volume_read_ahead(struct volume *v, const struct volume_read *read)
{
	sqfs_ahead_run(((struct sqfs_volume *)v)->ahead, get_inode(read), read->pos, read->size);
}

static void sqfs_volume_set_cache_size(struct volume *v, uint64_t size)
{
	sqfs_image_set_cache_size(get_image(v), size);
}

static void sqfs_volume_statfs(struct volume *v, struct statvfs *st)
{
	const struct sqfs_super *s = sqfs_image_get_super(get_image(v));

	*st = (struct statvfs){
		.f_bsize = s->block_size,
		.f_frsize = s->block_size,
		.f_blocks = (s->bytes_used + s->block_size - 1) / s->block_size,
		.f_files = s->n_inodes,
		.f_namemax = SQFS_MAX_NAME,
	};
}

static void sqfs_volume_free(struct volume *v)
{
	sqfs_ahead_free(((struct sqfs_volume *)v)->ahead);
	free(v);
}

int sqfs_volume_new(struct volume **vp, struct sqfs_image *img)
{
	static const struct volume_ops ops = {
		.start = sqfs_volume_start,
		.stat = sqfs_volume_stat,
		.get_numbers = sqfs_volume_get_numbers,
		.find = sqfs_volume_find,
		.list = sqfs_volume_list,
		.read_link = sqfs_volume_read_link,
		.list_xattrs = sqfs_volume_list_xattrs,
		.get_xattr = sqfs_volume_get_xattr,
		.read = sqfs_volume_read,
		.get_fd = sqfs_volume_get_fd,
		.load = sqfs_volume_load,
		.release = sqfs_volume_release,
		.read_ahead = sqfs_volume_read_ahead,
		.set_cache_size = sqfs_volume_set_cache_size,
		.statfs = sqfs_volume_statfs,
		.free = sqfs_volume_free,
	};
	struct sqfs_volume *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->img = img;
	s->volume = (struct volume){ .ops = &ops,
				     .noun = "image",
				     .root = sqfs_inode_get_root(img) };
	*vp = &s->volume;
	return 0;
}
