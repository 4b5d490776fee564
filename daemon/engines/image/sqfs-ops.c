/*
 * The kernel's node id is the inode's reference plus two, with 1 for the root: nothing has to be
 * remembered for it or forgotten. Nothing ever changes, so the kernel may keep all that it is told
 * for a day: attributes, names that are there and names that are not, directories and pages. It is
 * not asked to open anything where it can do without, nor told of a close: see sqfs_server_settle().
 *
 * The offset of a directory entry is the cookie of sqfs-dir.h plus two: 1 is behind ".", 2 behind
 * "..".
 */
#define FUSE_USE_VERSION 312
#include "daemon/engines/image/sqfs-ops.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>

#include <fuse_lowlevel.h>

#include "common/util/cleanup.h"
#include "daemon/engines/image/sqfs-ahead.h"
#include "daemon/engines/image/sqfs-channel.h"
#include "daemon/engines/image/sqfs-dir.h"
#include "daemon/engines/image/sqfs-file.h"
#include "daemon/engines/image/sqfs-image.h"
#include "daemon/engines/image/sqfs-inode.h"
#include "daemon/engines/image/sqfs-pipe.h"
#include "daemon/engines/image/sqfs-scratch.h"

#define OPS_TIMEOUT 86400.0
#define OPS_PROBE_NODE ((fuse_ino_t)-1) /* beyond the references of an image, which have 48 bits */

enum {
	OPS_MAX_READ = 1 << 20, /* a shorter answer is the end of the file to the kernel */
	OPS_MAX_EXTENTS = OPS_MAX_READ / SQFS_MIN_BLOCK_SIZE + 2,
	OPS_MIN_SPLICE = 16384, /* each; less is copied faster */
	OPS_MAX_SPANS = 4,
	OPS_BACKGROUND = 64,
	OPS_NODE_SHIFT = 2,
	OPS_OFF_DOT = 1,
	OPS_OFF_DOTDOT = 2,
};

static const mode_t type_modes[] = {
	[SQFS_TYPE_DIR] = S_IFDIR,
	[SQFS_TYPE_FILE] = S_IFREG,
	[SQFS_TYPE_SYMLINK] = S_IFLNK,
};

static struct sqfs_view *get_view(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static uint64_t node_to_ref(const struct sqfs_view *v, fuse_ino_t node)
{
	return node == FUSE_ROOT_ID ? sqfs_inode_get_root(v->img) : node - OPS_NODE_SHIFT;
}

static fuse_ino_t ref_to_node(const struct sqfs_view *v, uint64_t ref)
{
	return ref == sqfs_inode_get_root(v->img) ? FUSE_ROOT_ID : ref + OPS_NODE_SHIFT;
}

/* Answers with an error; the first that is the image's is reported. */
static void reply_failure(fuse_req_t req, int r)
{
	struct sqfs_view *v = get_view(req);
	char text[128];
	int errnum = -r;

	if (errnum != ENOMEM && errnum != ENOTDIR && errnum != EINVAL) {
		if (v->report && !atomic_exchange(&v->failed, true)) {
			snprintf(text, sizeof(text), "reading the image failed: %s",
				 strerror(errnum));
			v->report(v->report_arg, text);
		}
		errnum = EIO;
	}
	fuse_reply_err(req, errnum);
}

static void fill_stat(const struct sqfs_view *v, const struct sqfs_inode *inode, struct stat *st)
{
	*st = (struct stat){
		.st_ino = inode->number,
		.st_mode = type_modes[inode->type] | (inode->mode & 0777),
		.st_nlink = inode->n_links,
		.st_uid = v->uid,
		.st_gid = v->gid,
		.st_size = (off_t)inode->size,
		.st_blksize = (blksize_t)sqfs_image_get_super(v->img)->block_size,
		.st_blocks = (blkcnt_t)((inode->size + 511) / 512),
		.st_atim.tv_sec = inode->mtime,
		.st_mtim.tv_sec = inode->mtime,
		.st_ctim.tv_sec = inode->mtime,
	};
	if (inode->type == SQFS_TYPE_FILE && inode->file.n_sparse <= inode->size)
		st->st_blocks = (blkcnt_t)((inode->size - inode->file.n_sparse + 511) / 512);
}

/* Inode of a node that is shown. */
static int load_node(const struct sqfs_view *v, fuse_ino_t node, struct sqfs_inode *inode)
{
	int r = sqfs_inode_load(v->img, node_to_ref(v, node), inode);

	return r < 0 ? r : sqfs_type_is_shown(inode->type) ? 0 : -EIO;
}

/* The entry's inode has to be what the listing calls it. */
static int load_entry(const struct sqfs_view *v, const struct sqfs_dirent *ent,
		      struct fuse_entry_param *e)
{
	struct sqfs_inode inode;
	int r;

	*e = (struct fuse_entry_param){ .attr_timeout = OPS_TIMEOUT, .entry_timeout = OPS_TIMEOUT };
	r = sqfs_inode_load(v->img, ent->ref, &inode);
	if (r < 0)
		return r;
	if (inode.type != ent->type)
		return -EIO;
	e->ino = ref_to_node(v, ent->ref);
	fill_stat(v, &inode, &e->attr);
	return 0;
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	struct sqfs_view *v = userdata;

	v->no_open = conn->capable & FUSE_CAP_NO_OPEN_SUPPORT;
	v->no_opendir = conn->capable & FUSE_CAP_NO_OPENDIR_SUPPORT;
	conn->want |= conn->capable & (FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS |
				       FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_READDIRPLUS);
	/* Not "auto": who lists a directory opens what is in it next, and an inode costs next to
	 * nothing here, a look-up of its own a round trip. */
	conn->want &= ~(unsigned)(FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_AUTO_INVAL_DATA |
				  FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
				  FUSE_CAP_SPLICE_MOVE);
	/* By this libfuse says how many pages a request may have, of reads, too. Its own 256 are
	 * more than are answered where pages are larger. */
	conn->max_write = OPS_MAX_READ;
	conn->max_background = OPS_BACKGROUND;
	conn->congestion_threshold = OPS_BACKGROUND * 3 / 4;
}

/* Only OPEN and FLUSH are sent for it, and both are answered ENOSYS. */
static void reply_probe(fuse_req_t req)
{
	const struct sqfs_view *v = get_view(req);
	const struct fuse_entry_param e = {
		.ino = OPS_PROBE_NODE,
		.attr_timeout = OPS_TIMEOUT,
		.attr = { .st_mode = S_IFREG | 0400, .st_nlink = 1, .st_uid = v->uid, .st_gid = v->gid },
	};

	fuse_reply_entry(req, &e);
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct sqfs_view *v = get_view(req);
	struct fuse_entry_param e = { .entry_timeout = OPS_TIMEOUT };
	struct sqfs_inode inode;
	struct sqfs_dirent ent;
	int r;

	if (v->is_probed && parent == FUSE_ROOT_ID && strcmp(name, SQFS_OPS_PROBE) == 0) {
		reply_probe(req);
		return;
	}
	if (strlen(name) > SQFS_MAX_NAME) {
		fuse_reply_err(req, ENAMETOOLONG);
		return;
	}
	r = load_node(v, parent, &inode);
	if (r == 0)
		r = sqfs_dir_find(v->img, &inode, name, &ent);
	if (r == 1 && sqfs_type_is_shown(ent.type))
		r = load_entry(v, &ent, &e);
	if (r < 0)
		reply_failure(req, r);
	else
		fuse_reply_entry(req, &e); /* node 0: there is none, and that may be remembered */
}

static void op_getattr(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
	struct sqfs_view *v = get_view(req);
	struct sqfs_inode inode;
	struct stat st;
	int r;

	r = load_node(v, node, &inode);
	if (r < 0) {
		reply_failure(req, r);
		return;
	}
	fill_stat(v, &inode, &st);
	fuse_reply_attr(req, &st, OPS_TIMEOUT);
}

static void op_readlink(fuse_req_t req, fuse_ino_t node)
{
	struct sqfs_view *v = get_view(req);
	char text[SQFS_MAX_SYMLINK + 1];
	struct sqfs_inode inode;
	int r;

	r = load_node(v, node, &inode);
	if (r == 0)
		r = sqfs_inode_read_link(v->img, &inode, text);
	if (r < 0)
		reply_failure(req, r);
	else
		fuse_reply_readlink(req, text);
}

static void op_open(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
	if (get_view(req)->no_open) {
		fuse_reply_err(req, ENOSYS);
		return;
	}
	fi->keep_cache = 1;
	fuse_reply_open(req, fi);
}

static void op_opendir(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
	if (get_view(req)->no_opendir) {
		fuse_reply_err(req, ENOSYS);
		return;
	}
	fi->keep_cache = 1;
	fi->cache_readdir = 1;
	fuse_reply_open(req, fi);
}

/* Has the kernel take uncompressed content straight from the image. */
static int reply_stored(fuse_req_t req, const struct sqfs_extent *extents, size_t n)
{
	const struct sqfs_image *img = get_view(req)->img;
	struct sqfs_span spans[OPS_MAX_SPANS];
	bool copied = n > 0; /* nothing of it is in no copy */
	size_t size = 0;
	int r;

	for (size_t i = 0; i < n; i++) {
		if (i == OPS_MAX_SPANS || extents[i].data)
			return -EOPNOTSUPP;
		spans[i] = (struct sqfs_span){ extents[i].offset, extents[i].size };
		size += extents[i].size;
		copied = copied && sqfs_image_is_copied(img, extents[i].offset, extents[i].size);
	}
	if (size < n * OPS_MIN_SPLICE)
		return -EOPNOTSUPP;
	r = sqfs_channel_send_file(sqfs_image_get_fd(img, copied), spans, n);
	if (r == 0)
		fuse_reply_none(req);
	return r;
}

/* Reads what the image holds uncompressed into the thread's buffer. */
static int load_extents(struct sqfs_image *img, struct sqfs_extent *extents, size_t n)
{
	size_t size = 0;
	void *buf;

	for (size_t i = 0; i < n; i++)
		size += extents[i].data ? 0 : extents[i].size;
	if (size == 0)
		return 0;
	buf = sqfs_scratch_get(size);
	return buf ? sqfs_file_load(img, extents, n, buf) : -ENOMEM;
}

static void op_read(fuse_req_t req, fuse_ino_t node, size_t size, off_t off,
		    struct fuse_file_info *fi)
{
	struct sqfs_view *v = get_view(req);
	struct sqfs_extent extents[OPS_MAX_EXTENTS];
	struct iovec iov[OPS_MAX_EXTENTS];
	struct sqfs_inode inode;
	size_t n = 0;
	int r;

	if (size > OPS_MAX_READ)
		size = OPS_MAX_READ;
	r = off < 0 ? -EINVAL : load_node(v, node, &inode);
	if (r == 0)
		r = sqfs_file_read(v->img, &inode, (uint64_t)off, size, extents, &n);
	if (r == 0 && reply_stored(req, extents, n) == 0)
		return;
	if (r == 0)
		r = load_extents(v->img, extents, n);
	for (size_t i = 0; i < n; i++)
		iov[i] = (struct iovec){ (void *)extents[i].data, extents[i].size };
	if (r < 0)
		reply_failure(req, r);
	else
		fuse_reply_iov(req, iov, (int)n);
	sqfs_file_release(v->img, extents, n);
	if (r == 0)
		sqfs_ahead_run(v->ahead, &inode, (uint64_t)off, size);
}

/* A page of a directory on its way to the kernel. */
struct listing {
	fuse_req_t req;
	struct sqfs_view *view;
	bool plus;
	char *buf;
	size_t size, used;
};

/* False: does not fit any more. */
static bool listing_add(struct listing *l, const char *name, const struct fuse_entry_param *e,
			off_t off)
{
	size_t left = l->size - l->used, n;

	if (l->plus)
		n = fuse_add_direntry_plus(l->req, l->buf + l->used, left, name, e, off);
	else
		n = fuse_add_direntry(l->req, l->buf + l->used, left, name, &e->attr, off);
	if (n > left)
		return false;
	l->used += n;
	return true;
}

static bool listing_add_dot(struct listing *l, const char *name, uint32_t number, off_t off)
{
	struct fuse_entry_param e = { .attr = { .st_ino = number, .st_mode = S_IFDIR } };

	return listing_add(l, name, &e, off);
}

static bool listing_add_entry(struct listing *l, const struct sqfs_dirent *ent)
{
	struct fuse_entry_param e = { 0 };

	if (!sqfs_type_is_shown(ent->type))
		return true;
	/* An inode that can't be read is listed without attributes; looking it up will say why. */
	if (!l->plus || load_entry(l->view, ent, &e) < 0)
		e = (struct fuse_entry_param){
			.attr = { .st_ino = ent->number, .st_mode = type_modes[ent->type] },
		};
	return listing_add(l, ent->name, &e, (off_t)ent->cookie + OPS_OFF_DOTDOT);
}

static int listing_fill(struct listing *l, const struct sqfs_inode *inode, off_t off)
{
	struct sqfs_dirent ent;
	struct sqfs_dir d;
	int r;

	if (off < OPS_OFF_DOT && !listing_add_dot(l, ".", inode->number, OPS_OFF_DOT))
		return 0;
	if (off < OPS_OFF_DOTDOT && !listing_add_dot(l, "..", inode->dir.parent, OPS_OFF_DOTDOT))
		return 0;
	r = sqfs_dir_begin(&d, l->view->img, inode,
			   off <= OPS_OFF_DOTDOT ? SQFS_DIR_START : (uint64_t)off - OPS_OFF_DOTDOT);
	if (r < 0)
		return r;
	while ((r = sqfs_dir_read(&d, &ent)) == 1)
		if (!listing_add_entry(l, &ent))
			break;
	sqfs_dir_end(&d);
	/* What was read before the damage is handed out; the next call starts at it. */
	return r < 0 && l->used == 0 ? r : 0;
}

static void reply_listing(fuse_req_t req, fuse_ino_t node, size_t size, off_t off, bool plus)
{
	struct sqfs_view *v = get_view(req);
	_cleanup_(freep) char *buf = malloc(size);
	struct listing l = { req, v, plus, buf, size, 0 };
	struct sqfs_inode inode;
	int r;

	r = !buf ? -ENOMEM : off < 0 ? -EINVAL : load_node(v, node, &inode);
	if (r == 0)
		r = inode.type == SQFS_TYPE_DIR ? listing_fill(&l, &inode, off) : -ENOTDIR;
	if (r < 0)
		reply_failure(req, r);
	else
		fuse_reply_buf(req, buf, l.used);
}

static void op_readdir(fuse_req_t req, fuse_ino_t node, size_t size, off_t off,
		       struct fuse_file_info *fi)
{
	reply_listing(req, node, size, off, false);
}

static void op_readdirplus(fuse_req_t req, fuse_ino_t node, size_t size, off_t off,
			   struct fuse_file_info *fi)
{
	reply_listing(req, node, size, off, true);
}

static void op_statfs(fuse_req_t req, fuse_ino_t node)
{
	const struct sqfs_super *s = sqfs_image_get_super(get_view(req)->img);
	struct statvfs st = {
		.f_bsize = s->block_size,
		.f_frsize = s->block_size,
		.f_blocks = (s->bytes_used + s->block_size - 1) / s->block_size,
		.f_files = s->n_inodes,
		.f_namemax = SQFS_MAX_NAME,
	};

	fuse_reply_statfs(req, &st);
}

const struct fuse_lowlevel_ops sqfs_ops = {
	.init = op_init,
	.lookup = op_lookup,
	.getattr = op_getattr,
	.readlink = op_readlink,
	.open = op_open,
	.opendir = op_opendir,
	.read = op_read,
	.readdir = op_readdir,
	.readdirplus = op_readdirplus,
	.statfs = op_statfs,
};
