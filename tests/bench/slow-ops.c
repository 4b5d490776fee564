/*
 * These requests take the time of a metadata operation: each look-up, each request for attributes,
 * each open, and each part of a listing, as on a file system whose server has to be asked. Closing
 * takes no time.
 */
#define FUSE_USE_VERSION 312
#include "tests/bench/slow-ops.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <linux/fuse.h>

#include "common/util/cleanup.h"
#include "tests/bench/slow-handles.h"

int slow_view_init(struct slow_view *v)
{
	v->buffer = malloc(SLOW_MAX_READ);
	if (!v->buffer)
		return -ENOMEM;
	return slow_nodes_init(&v->nodes);
}

void slow_view_deinit(struct slow_view *v)
{
	free(v->buffer);
	slow_nodes_deinit(&v->nodes);
}

static struct slow_view *get_view(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static struct slow_node *get_node(const struct slow_view *v, fuse_ino_t id)
{
	return id == FUSE_ROOT_ID ? v->nodes.root : (struct slow_node *)(uintptr_t)id;
}

static double get_attr_timeout(const struct slow_view *v, const struct stat *st)
{
	return S_ISDIR(st->st_mode) ? v->dir_timeout : v->attr_timeout;
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	conn->want &= ~(unsigned)(FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO |
				  FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_SPLICE_READ |
				  FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE);
	conn->want |= conn->capable & (FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS);
	conn->max_read = SLOW_MAX_READ;
	conn->max_background = 1024;
	conn->congestion_threshold = 1024;
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct slow_view *v = get_view(req);
	struct fuse_entry_param e = { 0 };
	struct slow_path path;
	const char *p = slow_node_path(get_node(v, parent), name, &path);
	struct slow_node *node;

	if (!p || fstatat(v->root, p, &e.attr, AT_SYMLINK_NOFOLLOW) < 0) {
		fuse_reply_err(req, p ? errno : ENAMETOOLONG);
		return;
	}
	node = slow_nodes_get(&v->nodes, get_node(v, parent), name);
	if (!node) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	e.ino = (uintptr_t)node;
	e.entry_timeout = S_ISDIR(e.attr.st_mode) ? v->dir_timeout : v->name_timeout;
	e.attr_timeout = get_attr_timeout(v, &e.attr);
	if (fuse_reply_entry(req, &e) < 0)
		slow_nodes_forget(&v->nodes, node, 1); /* interrupted: the kernel has not heard */
}

static void op_forget(fuse_req_t req, fuse_ino_t id, uint64_t n)
{
	struct slow_view *v = get_view(req);

	slow_nodes_forget(&v->nodes, get_node(v, id), n);
	fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t n, struct fuse_forget_data *forgets)
{
	struct slow_view *v = get_view(req);

	for (size_t i = 0; i < n; i++)
		slow_nodes_forget(&v->nodes, get_node(v, forgets[i].ino), forgets[i].nlookup);
	fuse_reply_none(req);
}

static void op_getattr(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct slow_view *v = get_view(req);
	struct slow_path path;
	const char *p = slow_node_path(get_node(v, id), NULL, &path);
	struct stat st;

	if (!p || fstatat(v->root, p, &st, AT_SYMLINK_NOFOLLOW) < 0)
		fuse_reply_err(req, p ? errno : ENAMETOOLONG);
	else
		fuse_reply_attr(req, &st, get_attr_timeout(v, &st));
}

static void op_readlink(fuse_req_t req, fuse_ino_t id)
{
	struct slow_view *v = get_view(req);
	char target[PATH_MAX];
	struct slow_path path;
	const char *p = slow_node_path(get_node(v, id), NULL, &path);
	ssize_t n;

	n = p ? readlinkat(v->root, p, target, sizeof(target) - 1) : -1;
	if (n < 0) {
		fuse_reply_err(req, p ? errno : ENAMETOOLONG);
		return;
	}
	target[n] = '\0';
	fuse_reply_readlink(req, target);
}

/* Answers an open with the handle, which is NULL where errno says why. */
static void reply_handle(fuse_req_t req, struct fuse_file_info *fi, void *handle,
			 void (*close_handle)(void *))
{
	if (!handle) {
		fuse_reply_err(req, errno);
		return;
	}
	fi->fh = (uintptr_t)handle;
	if (fuse_reply_open(req, fi) < 0)
		close_handle(handle);
}

static void op_open(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct slow_view *v = get_view(req);
	struct slow_path path;
	const char *p = slow_node_path(get_node(v, id), NULL, &path);

	fi->direct_io = v->cache == SLOW_CACHE_NONE;
	fi->keep_cache = v->cache == SLOW_CACHE_KEEP;
	reply_handle(req, fi, slow_file_open(v->root, p), slow_file_close);
}

static void op_read(fuse_req_t req, fuse_ino_t id, size_t size, off_t offset,
		    struct fuse_file_info *fi)
{
	struct slow_view *v = get_view(req);
	struct slow_file *file = (struct slow_file *)(uintptr_t)fi->fh;
	ssize_t n;

	if (size > SLOW_MAX_READ) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	n = slow_file_read(file, v->buffer, size, offset);
	if (n < 0)
		fuse_reply_err(req, errno);
	else
		fuse_reply_buf(req, v->buffer, (size_t)n);
}

static void op_release(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	slow_file_close((void *)(uintptr_t)fi->fh);
	fuse_reply_err(req, 0);
}

static void op_opendir(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	struct slow_view *v = get_view(req);
	struct slow_path path;
	const char *p = slow_node_path(get_node(v, id), NULL, &path);

	reply_handle(req, fi, slow_dir_open(v->root, p), slow_dir_close);
}

/* The kernel asks for one piece of a listing at a time. */
static void op_readdir(fuse_req_t req, fuse_ino_t id, size_t size, off_t offset,
		       struct fuse_file_info *fi)
{
	struct slow_dir *d = (struct slow_dir *)(uintptr_t)fi->fh;
	_cleanup_(freep) char *buf = malloc(size);
	const struct dirent *ent;
	size_t n = 0;

	if (!buf) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	slow_dir_seek(d, offset);
	while ((ent = slow_dir_get(d)) != NULL) {
		struct stat st = { .st_ino = ent->d_ino, .st_mode = (mode_t)DTTOIF(ent->d_type) };
		size_t more = fuse_add_direntry(req, buf + n, size - n, ent->d_name, &st,
						ent->d_off);

		if (more > size - n)
			break;
		n += more;
		slow_dir_next(d);
	}
	if (n == 0 && !ent && errno != 0)
		fuse_reply_err(req, errno);
	else
		fuse_reply_buf(req, buf, n);
}

static void op_releasedir(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *fi)
{
	slow_dir_close((void *)(uintptr_t)fi->fh);
	fuse_reply_err(req, 0);
}

static void op_statfs(fuse_req_t req, fuse_ino_t id)
{
	struct slow_view *v = get_view(req);
	struct statvfs st;

	if (fstatvfs(v->root, &st) < 0)
		fuse_reply_err(req, errno);
	else
		fuse_reply_statfs(req, &st);
}

const struct fuse_lowlevel_ops slow_ops = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = op_getattr,
	.readlink = op_readlink,
	.open = op_open,
	.read = op_read,
	.release = op_release,
	.opendir = op_opendir,
	.readdir = op_readdir,
	.releasedir = op_releasedir,
	.statfs = op_statfs,
};

/* ---- what takes how long ---- */

/* So many bytes as are there; what the kernel asks for at most is SLOW_MAX_READ. */
static int64_t get_read_due(struct slow_view *v, const struct fuse_in_header *in, const char *rest,
			    size_t size, int64_t now)
{
	struct fuse_read_in read;
	struct slow_file *file;
	off_t left;

	if (size < sizeof(read))
		return 0;
	memcpy(&read, rest, sizeof(read));
	file = (struct slow_file *)(uintptr_t)read.fh;
	left = (off_t)read.offset < file->size ? file->size - (off_t)read.offset : 0;
	return slow_pace_read(&v->pace, &file->stream, (pid_t)in->pid,
			      read.size < left ? read.size : (size_t)left, now);
}

int64_t slow_ops_get_due(struct slow_view *v, const void *request, size_t size, int64_t now)
{
	struct fuse_in_header in;

	if (size < sizeof(in))
		return 0;
	memcpy(&in, request, sizeof(in));
	switch (in.opcode) {
	case FUSE_LOOKUP:
	case FUSE_GETATTR:
	case FUSE_READLINK:
	case FUSE_OPEN:
	case FUSE_OPENDIR:
	case FUSE_READDIR:
	case FUSE_STATFS:
		return slow_pace_meta(&v->pace, now);
	case FUSE_READ:
		return get_read_due(v, &in, (const char *)request + sizeof(in), size - sizeof(in),
				    now);
	default:
		return 0;
	}
}
