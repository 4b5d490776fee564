#include "daemon/engines/image/sqfs-content.h"

#include <errno.h>
#include <unistd.h>

#include "common/util/error.h"
#include "common/util/fd.h"
#include "daemon/engines/copy/stage-io.h"
#include "daemon/engines/image/sqfs-file.h"
#include "daemon/engines/image/sqfs-image.h"
#include "daemon/engines/image/sqfs-inode.h"
#include "daemon/engines/image/sqfs-scratch.h"

enum {
	CONTENT_READ = 1 << 20,
	CONTENT_MAX_EXTENTS = CONTENT_READ / SQFS_MIN_BLOCK_SIZE + 2,
};

/* Reports progress as a share of the image's size, so that it ends at the announced total. */
static void show_progress(struct sqfs_content *c, uint64_t bytes)
{
	uint64_t at, shown = atomic_load(&c->shown);
	double part;

	bytes += atomic_fetch_add(&c->done, bytes);
	part = c->total > 0 ? (double)bytes / (double)c->total : 0;
	at = (uint64_t)(part * (double)c->image_size);
	if (at > c->image_size)
		at = c->image_size;
	while (at > shown && !atomic_compare_exchange_weak(&c->shown, &shown, at))
		;
	if (at > shown)
		stage_io_add_progress(c->io, at - shown, 0);
}

int sqfs_content_fail(int r, const char *path, struct error *err)
{
	if (r == -EIO)
		return error_set_hint(
			err, error_set(err, EIO, "image is damaged: %s can't be read", path),
			"make or copy it again");
	return error_errno(err, -r, "read %s in the image", path);
}

bool sqfs_content_is_sparse(const struct sqfs_inode *inode)
{
	return inode->file.n_sparse > 0;
}

static int write_at(int fd, const struct volume_extent *e, uint64_t offset, const char *path,
		    struct error *err)
{
	int r = fd_pwrite_all(fd, e->data, e->size, offset);

	return r < 0 ? error_errno(err, -r, "write %s", path) : 0;
}

/* Writes extents. In a file that has holes, they stay holes, and only written bytes are charged. */
static int write_extents(struct sqfs_content *c, const struct sqfs_inode *inode,
			 const struct volume_extent *extents, size_t n, int fd, uint64_t *posp,
			 const char *path, struct error *err)
{
	bool sparse = sqfs_content_is_sparse(inode);
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		const struct volume_extent *e = &extents[i];

		if (!e->hole || !sparse) {
			if (sparse)
				r = stage_io_charge(c->io, e->size, 0, err);
			if (r == 0)
				r = write_at(fd, e, *posp, path, err);
		}
		*posp += e->size;
		show_progress(c, e->size);
	}
	return r;
}

int sqfs_content_write(struct sqfs_content *c, const struct sqfs_inode *inode, uint64_t from,
		       uint64_t end, int fd, const char *path, struct error *err)
{
	struct volume_extent extents[CONTENT_MAX_EXTENTS];
	uint64_t pos = from;
	size_t n, size;
	void *buf;
	int r;

	if (end > inode->size)
		end = inode->size;
	buf = sqfs_scratch_get(end - from < CONTENT_READ ? end - from : CONTENT_READ);
	if (!buf)
		return error_set(err, ENOMEM, "no memory to extract the image");
	while (pos < end) {
		r = stage_io_check(c->io, err);
		if (r < 0)
			return r;
		size = end - pos < CONTENT_READ ? (size_t)(end - pos) : CONTENT_READ;
		r = sqfs_file_read(c->img, inode, pos, size, extents, &n);
		if (r < 0)
			return sqfs_content_fail(r, path, err);
		r = sqfs_file_load(c->img, extents, n, buf);
		r = r < 0 ? sqfs_content_fail(r, path, err)
			  : write_extents(c, inode, extents, n, fd, &pos, path, err);
		sqfs_file_release(c->img, extents, n);
		if (r < 0)
			return r;
	}
	return 0;
}
