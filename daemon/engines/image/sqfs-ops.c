/*
 * The kernel's node id is the file's reference plus two, with 1 for the root: so no table of node
 * ids is needed. Nothing ever changes, so the kernel may cache everything for a day: attributes,
 * names that exist and names that do not, directories and pages. If the kernel can do without open
 * and close requests, it sends none: see sqfs_server_settle().
 *
 * The offset of a directory entry is the cookie of volume.h plus two: 1 is after ".", 2 after "..".
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
#include "common/util/error.h"
#include "daemon/engines/image/sqfs-channel.h"
#include "daemon/engines/image/sqfs-pipe.h"
#include "daemon/engines/image/sqfs-scratch.h"
#include "daemon/engines/image/volume.h"

#define OPS_TIMEOUT 86400.0
#define OPS_PROBE_NODE ((fuse_ino_t)-1) /* larger than all references */
#define OPS_NO_REF UINT64_MAX

enum {
	OPS_MAX_READ = VOLUME_MAX_READ, /* a shorter answer is the end of the file */
	OPS_MIN_SPLICE = 16384,		/* for each extent; copying is faster for fewer bytes */
	OPS_MAX_SPANS = 4,
	OPS_MAX_XATTR = 65536, /* XATTR_SIZE_MAX and XATTR_LIST_MAX of linux/limits.h */
	OPS_BACKGROUND = 64,
	OPS_NODE_SHIFT = 2,
	OPS_OFF_DOT = 1,
	OPS_OFF_DOTDOT = 2,
};

static struct sqfs_view *get_view(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static uint64_t node_to_ref(const struct sqfs_view *v, fuse_ino_t node)
{
	return node == FUSE_ROOT_ID ? v->volume->root : node - OPS_NODE_SHIFT;
}

static fuse_ino_t ref_to_node(const struct sqfs_view *v, uint64_t ref)
{
	return ref == v->volume->root ? FUSE_ROOT_ID : ref + OPS_NODE_SHIFT;
}

/* Writes a message such as "d/f is damaged", if the volume knows the names of its files. */
static void describe_failure(struct volume *volume, uint64_t ref, int errnum, struct error *err)
{
	char path[PATH_MAX];

	if (ref == OPS_NO_REF || !volume->ops->get_path ||
	    volume->ops->get_path(volume, ref, path, sizeof(path)) < 0)
		error_set(err, errnum, "%s", strerror(errnum == EBADMSG ? EIO : errnum));
	else if (errnum == EBADMSG)
		error_set(err, errnum,
			  "%.400s is damaged: it can't be unpacked, or has another checksum; make "
			  "the archive again",
			  path);
	else
		error_set(err, errnum, "%s (%.400s)", strerror(errnum), path);
}

/* Reports a failure. NFS also returns ESTALE, for a file that was removed or replaced. */
static void report_failure(const struct sqfs_view *v, uint64_t ref, int errnum)
{
	const char *noun = v->volume->noun;
	struct error err = ERROR_INIT;

	if (errnum == ESTALE)
		error_set(&err, errnum,
			  "the %s has changed or was removed since it was mounted: its files can't "
			  "be read any more; submit the job again when nobody writes to it",
			  noun);
	else
		describe_failure(v->volume, ref, errnum, &err);
	if (errnum != ESTALE)
		error_prefix(&err, "reading the %s failed", noun);
	v->report(v->report_arg, err.text);
}

/* Answers with an error, and reports the source's first one. ref: the file, or OPS_NO_REF. */
static void reply_failure_of(fuse_req_t req, uint64_t ref, int r)
{
	struct sqfs_view *v = get_view(req);
	int errnum = -r;

	if (errnum != ENOMEM && errnum != ENOTDIR && errnum != EINVAL) {
		if (v->report && !atomic_exchange(&v->failed, true))
			report_failure(v, ref, errnum);
		errnum = EIO;
	}
	fuse_reply_err(req, errnum);
}

static void reply_failure(fuse_req_t req, int r)
{
	reply_failure_of(req, OPS_NO_REF, r);
}

static int stat_ref(const struct sqfs_view *v, uint64_t ref, struct stat *st)
{
	int r = v->volume->ops->stat(v->volume, ref, st);

	st->st_uid = v->uid;
	st->st_gid = v->gid;
	return r;
}

/* Loads the attributes of an entry. The file must have the type that the listing says. */
static int load_entry(const struct sqfs_view *v, const struct volume_dirent *ent,
		      struct fuse_entry_param *e)
{
	int r;

	*e = (struct fuse_entry_param){ .attr_timeout = OPS_TIMEOUT, .entry_timeout = OPS_TIMEOUT };
	r = stat_ref(v, ent->ref, &e->attr);
	if (r < 0)
		return r;
	if ((e->attr.st_mode & S_IFMT) != ent->type)
		return -EIO;
	e->ino = ref_to_node(v, ent->ref);
	return 0;
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	struct sqfs_view *v = userdata;

	v->no_open = conn->capable & FUSE_CAP_NO_OPEN_SUPPORT;
	v->no_opendir = conn->capable & FUSE_CAP_NO_OPENDIR_SUPPORT;
	conn->want |= conn->capable & (FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS |
				       FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_READDIRPLUS);
	/* Without "auto": a process that lists a directory usually opens its files next. Here, an
	 * inode in the listing takes almost no time, but each look-up is a round trip. */
	conn->want &= ~(unsigned)(FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_AUTO_INVAL_DATA |
				  FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
				  FUSE_CAP_SPLICE_MOVE);
	/* libfuse uses this to tell the kernel the maximum number of pages of a request, also of
	 * reads. With its default of 256 pages, requests could be larger than our answers if pages
	 * are large. */
	conn->max_write = OPS_MAX_READ;
	conn->max_background = OPS_BACKGROUND;
	conn->congestion_threshold = OPS_BACKGROUND * 3 / 4;
}

/* Answers a look-up of the probe, for which only OPEN and FLUSH follow (answered ENOSYS). */
static void reply_probe(fuse_req_t req)
{
	const struct sqfs_view *v = get_view(req);
	const struct fuse_entry_param e = {
		.ino = OPS_PROBE_NODE,
		.attr_timeout = OPS_TIMEOUT,
		.attr = { .st_mode = S_IFREG | 0400,
			  .st_nlink = 1,
			  .st_uid = v->uid,
			  .st_gid = v->gid },
	};

	fuse_reply_entry(req, &e);
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct sqfs_view *v = get_view(req);
	struct fuse_entry_param e = { .entry_timeout = OPS_TIMEOUT };
	struct volume_dirent ent;
	int r;

	if (v->is_probed && parent == FUSE_ROOT_ID && strcmp(name, SQFS_OPS_PROBE) == 0) {
		reply_probe(req);
		return;
	}
	if (strlen(name) > VOLUME_MAX_NAME) {
		fuse_reply_err(req, ENAMETOOLONG);
		return;
	}
	r = v->volume->ops->find(v->volume, node_to_ref(v, parent), name, &ent);
	if (r == 1)
		r = load_entry(v, &ent, &e);
	if (r < 0)
		reply_failure(req, r);
	else
		fuse_reply_entry(req, &e); /* node 0: there is no such name; may be cached */
}

static void op_getattr(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
	struct sqfs_view *v = get_view(req);
	struct stat st;
	int r = stat_ref(v, node_to_ref(v, node), &st);

	if (r < 0)
		reply_failure(req, r);
	else
		fuse_reply_attr(req, &st, OPS_TIMEOUT);
}

static void op_readlink(fuse_req_t req, fuse_ino_t node)
{
	struct sqfs_view *v = get_view(req);
	char text[VOLUME_MAX_SYMLINK + 1];
	int r = v->volume->ops->read_link(v->volume, node_to_ref(v, node), text);

	if (r < 0)
		reply_failure(req, r);
	else
		fuse_reply_readlink(req, text);
}

/* n: bytes in buf, or -errno. */
static void reply_xattr(fuse_req_t req, const char *buf, int n, size_t size)
{
	if (n == -ENOSYS || n == -ENODATA || n == -ERANGE)
		fuse_reply_err(req, -n);
	else if (n < 0)
		reply_failure(req, n);
	else if (size == 0)
		fuse_reply_xattr(req, (size_t)n);
	else if ((size_t)n > size)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, buf, (size_t)n);
}

static void op_getxattr(fuse_req_t req, fuse_ino_t node, const char *name, size_t size)
{
	struct sqfs_view *v = get_view(req);
	char *buf = sqfs_scratch_get(OPS_MAX_XATTR);
	int n = !buf ? -ENOMEM
		: v->volume->ops->get_xattr
			? v->volume->ops->get_xattr(v->volume, node_to_ref(v, node), name, buf,
						    OPS_MAX_XATTR)
			: -ENOSYS;

	reply_xattr(req, buf, n, size);
}

static void op_listxattr(fuse_req_t req, fuse_ino_t node, size_t size)
{
	struct sqfs_view *v = get_view(req);
	char *buf = sqfs_scratch_get(OPS_MAX_XATTR);
	int n = !buf ? -ENOMEM
		: v->volume->ops->list_xattrs
			? v->volume->ops->list_xattrs(v->volume, node_to_ref(v, node), buf,
						      OPS_MAX_XATTR)
			: -ENOSYS;

	reply_xattr(req, buf, n, size);
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

static int check_source(void *arg)
{
	struct volume *volume = arg;

	return volume->ops->check ? volume->ops->check(volume) : 0;
}

/* Lets the kernel take uncompressed content directly from the source. */
static int reply_stored(fuse_req_t req, const struct volume_read *read)
{
	struct volume *volume = get_view(req)->volume;
	struct sqfs_span spans[OPS_MAX_SPANS];
	size_t size = 0;
	int fd, r;

	for (size_t i = 0; i < read->n_extents; i++) {
		const struct volume_extent *x = &read->extents[i];

		if (i == OPS_MAX_SPANS || x->data)
			return -EOPNOTSUPP;
		spans[i] = (struct sqfs_span){ x->offset, x->size };
		size += x->size;
	}
	if (size < read->n_extents * OPS_MIN_SPLICE)
		return -EOPNOTSUPP;
	fd = volume->ops->get_fd(volume, read);
	r = fd < 0 ? fd : sqfs_channel_send_file(fd, spans, read->n_extents, check_source, volume);
	if (r == 0)
		fuse_reply_none(req);
	return r;
}

/* Reads uncompressed content of the source into the thread's buffer. */
static int load_extents(struct volume *volume, struct volume_read *read)
{
	size_t size = 0;
	void *buf;

	for (size_t i = 0; i < read->n_extents; i++)
		size += read->extents[i].data ? 0 : read->extents[i].size;
	if (size == 0)
		return 0;
	buf = sqfs_scratch_get(size);
	return buf ? volume->ops->load(volume, read, buf) : -ENOMEM;
}

static void reply_extents(fuse_req_t req, uint64_t ref, struct volume_read *read)
{
	struct iovec iov[VOLUME_MAX_EXTENTS];
	int r = load_extents(get_view(req)->volume, read);

	for (size_t i = 0; i < read->n_extents; i++)
		iov[i] = (struct iovec){ (void *)read->extents[i].data, read->extents[i].size };
	if (r < 0)
		reply_failure_of(req, ref, r);
	else
		fuse_reply_iov(req, iov, (int)read->n_extents);
}

static void op_read(fuse_req_t req, fuse_ino_t node, size_t size, off_t off,
		    struct fuse_file_info *fi)
{
	struct sqfs_view *v = get_view(req);
	struct volume *volume = v->volume;
	const uint64_t ref = node_to_ref(v, node);
	struct volume_read read;
	int r = -EINVAL;

	/* without a write, the cache line stays shared */
	if (!atomic_load_explicit(&v->was_read, memory_order_relaxed))
		atomic_store_explicit(&v->was_read, true, memory_order_relaxed);
	if (size > OPS_MAX_READ)
		size = OPS_MAX_READ;
	if (off >= 0)
		r = volume->ops->read(volume, ref, (uint64_t)off, size, &read);
	if (r < 0) {
		reply_failure_of(req, ref, r);
		return;
	}
	if (reply_stored(req, &read) < 0)
		reply_extents(req, ref, &read);
	volume->ops->release(volume, &read);
	if (volume->ops->read_ahead)
		volume->ops->read_ahead(volume, &read);
}

/* A part of a directory that is being sent to the kernel. */
struct listing {
	fuse_req_t req;
	struct sqfs_view *view;
	bool plus;
	char *buf;
	size_t size, used;
};

/* Adds an entry. Returns false if there is no room. */
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

static bool listing_add_dot(struct listing *l, const char *name, uint64_t number, off_t off)
{
	struct fuse_entry_param e = { .attr = { .st_ino = number, .st_mode = S_IFDIR } };

	return listing_add(l, name, &e, off);
}

static bool listing_add_entry(void *arg, const struct volume_dirent *ent)
{
	struct fuse_entry_param e = { 0 };
	struct listing *l = arg;

	/* An entry that cannot be read has no attributes here. A look-up returns the reason. */
	if (!l->plus || load_entry(l->view, ent, &e) < 0)
		e = (struct fuse_entry_param){
			.attr = { .st_ino = ent->number, .st_mode = ent->type },
		};
	return listing_add(l, ent->name, &e, (off_t)ent->cookie + OPS_OFF_DOTDOT);
}

/* Adds "." and "..". Returns 1: there is room for more; 0: there is none; or -errno. */
static int listing_add_dots(struct listing *l, uint64_t dir, off_t off)
{
	struct volume *volume = l->view->volume;
	uint64_t number, parent;
	int r;

	if (off >= OPS_OFF_DOTDOT)
		return 1;
	r = volume->ops->get_numbers(volume, dir, &number, &parent);
	if (r < 0)
		return r;
	if (off < OPS_OFF_DOT && !listing_add_dot(l, ".", number, OPS_OFF_DOT))
		return 0;
	return listing_add_dot(l, "..", parent, OPS_OFF_DOTDOT);
}

static int listing_fill(struct listing *l, uint64_t dir, off_t off)
{
	struct volume *volume = l->view->volume;
	uint64_t cookie = off <= OPS_OFF_DOTDOT ? 0 : (uint64_t)off - OPS_OFF_DOTDOT;
	int r;

	r = listing_add_dots(l, dir, off);
	if (r <= 0)
		return r;
	r = volume->ops->list(volume, dir, cookie, listing_add_entry, l);
	/* Entries before the damage are returned. The next call starts at the damage. */
	return r < 0 && l->used == 0 ? r : 0;
}

static void reply_listing(fuse_req_t req, fuse_ino_t node, size_t size, off_t off, bool plus)
{
	struct sqfs_view *v = get_view(req);
	_cleanup_(freep) char *buf = malloc(size);
	struct listing l = { req, v, plus, buf, size, 0 };
	int r;

	if (!buf)
		r = -ENOMEM;
	else
		r = off < 0 ? -EINVAL : listing_fill(&l, node_to_ref(v, node), off);
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
	struct volume *volume = get_view(req)->volume;
	struct statvfs st;

	volume->ops->statfs(volume, &st);
	fuse_reply_statfs(req, &st);
}

const struct fuse_lowlevel_ops sqfs_ops = {
	.init = op_init,
	.lookup = op_lookup,
	.getattr = op_getattr,
	.readlink = op_readlink,
	.getxattr = op_getxattr,
	.listxattr = op_listxattr,
	.open = op_open,
	.opendir = op_opendir,
	.read = op_read,
	.readdir = op_readdir,
	.readdirplus = op_readdirplus,
	.statfs = op_statfs,
};
