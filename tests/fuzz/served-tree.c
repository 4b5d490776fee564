#define FUSE_USE_VERSION 312
#include "tests/fuzz/served-tree.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <fuse_lowlevel.h>

#include "common/util/cleanup.h"
#include "daemon/engines/image/sqfs-channel.h"
#include "daemon/engines/image/sqfs-ops.h"
#include "daemon/engines/image/sqfs-pipe.h"
#include "daemon/engines/image/volume.h"
#include "tests/fuzz/oracle.h"

#define LISTING 65536
#define MAX_LOOK (1 << 20) /* of a file at its beginning, and as much at its end */

static struct sqfs_view view;

/* ---- trees ---- */

void tree_clear(struct tree *t)
{
	for (size_t i = 0; i < t->n; i++) {
		free(t->v[i].path);
		free(t->v[i].text);
	}
	free(t->v);
	*t = (struct tree){ 0 };
}

struct entry *tree_add(struct tree *t, const char *parent, const char *name, const struct stat *st)
{
	struct entry *e;

	if (t->n == t->room) {
		t->room = t->room ? 2 * t->room : 64;
		t->v = reallocarray(t->v, t->room, sizeof(*t->v));
		ORACLE_CHECK(t->v, "memory");
	}
	e = &t->v[t->n++];
	*e = (struct entry){ .mode = st->st_mode,
			     .size = st->st_size,
			     .n_links = st->st_nlink,
			     .mtime = st->st_mtim };
	ORACLE_CHECK(asprintf(&e->path, "%s/%s", parent, name) > 0, "memory");
	return e;
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->path, ((const struct entry *)b)->path);
}

void tree_sum_link(struct entry *e)
{
	e->content = crc32(crc32(0, NULL, 0), (const Bytef *)e->text, (uInt)strlen(e->text));
}

void tree_sort(struct tree *t)
{
	if (t->n > 0)
		qsort(t->v, t->n, sizeof(*t->v), compare_paths);
	for (size_t i = 1; i < t->n; i++)
		ORACLE_CHECK(strcmp(t->v[i - 1].path, t->v[i].path) != 0, "%s is there twice",
			     t->v[i].path);
}

off_t tree_next_place(off_t at, off_t size)
{
	return at >= MAX_LOOK && at < size - MAX_LOOK ? size - MAX_LOOK : at;
}

/* ---- the kernel's side ---- */

static struct {
	struct tree *tree;
	const char *parent;
	off_t next;
	uLong content;
	size_t size; /* of the last answer */
	char *text;
	int err;
	size_t archive_size;
} kernel;

void *__wrap_fuse_req_userdata(fuse_req_t req);
int __wrap_fuse_reply_err(fuse_req_t req, int err);
void __wrap_fuse_reply_none(fuse_req_t req);
int __wrap_fuse_reply_readlink(fuse_req_t req, const char *text);
int __wrap_fuse_reply_iov(fuse_req_t req, const struct iovec *iov, int n);
int __wrap_fuse_reply_buf(fuse_req_t req, const char *buf, size_t size);
int __wrap_sqfs_channel_send_file(int fd, const struct sqfs_span *spans, size_t n,
				  sqfs_check_fn check, void *arg);
size_t __wrap_fuse_add_direntry_plus(fuse_req_t req, char *buf, size_t size, const char *name,
				     const struct fuse_entry_param *e, off_t off);
size_t __real_fuse_add_direntry_plus(fuse_req_t req, char *buf, size_t size, const char *name,
				     const struct fuse_entry_param *e, off_t off);

void *__wrap_fuse_req_userdata(fuse_req_t req)
{
	return &view;
}

int __wrap_fuse_reply_err(fuse_req_t req, int err)
{
	ORACLE_CHECK(err > 0, "error %d", err);
	kernel.err = err;
	return 0;
}

void __wrap_fuse_reply_none(fuse_req_t req)
{
}

int __wrap_fuse_reply_readlink(fuse_req_t req, const char *text)
{
	kernel.text = strdup(text);
	ORACLE_CHECK(kernel.text, "memory");
	return 0;
}

int __wrap_fuse_reply_iov(fuse_req_t req, const struct iovec *iov, int n)
{
	for (int i = 0; i < n; i++) {
		kernel.content = crc32(kernel.content, iov[i].iov_base, (uInt)iov[i].iov_len);
		kernel.size += iov[i].iov_len;
	}
	return 0;
}

int __wrap_fuse_reply_buf(fuse_req_t req, const char *buf, size_t size)
{
	return 0;
}

/* As the kernel takes it: from the archive itself, all of it or nothing. */
int __wrap_sqfs_channel_send_file(int fd, const struct sqfs_span *spans, size_t n,
				  sqfs_check_fn check, void *arg)
{
	static unsigned char buf[TREE_PAGE];
	size_t size = 0;
	int r;

	if (oracle_chance(30))
		return -EOPNOTSUPP;
	for (size_t i = 0; i < n; size += spans[i++].size) {
		ORACLE_CHECK(spans[i].size <= sizeof(buf) - size &&
				     spans[i].offset <= kernel.archive_size &&
				     spans[i].size <= kernel.archive_size - spans[i].offset,
			     "%zu bytes at %llu of %zu", spans[i].size,
			     (unsigned long long)spans[i].offset, kernel.archive_size);
		if (pread(fd, buf + size, spans[i].size, (off_t)spans[i].offset) !=
		    (ssize_t)spans[i].size)
			return -EIO;
	}
	r = check(arg);
	if (r < 0)
		return r;
	kernel.content = crc32(kernel.content, buf, (uInt)size);
	kernel.size += size;
	return 0;
}

static void check_stat(const char *name, const struct stat *st)
{
	ORACLE_CHECK(name[0] && strlen(name) <= VOLUME_MAX_NAME && !strchr(name, '/'), "name");
	ORACLE_CHECK(S_ISREG(st->st_mode) || S_ISDIR(st->st_mode) || S_ISLNK(st->st_mode),
		     "%s has mode %o", name, st->st_mode);
	ORACLE_CHECK((st->st_mode & 07000) == 0 && st->st_uid == TREE_UID && st->st_gid == TREE_GID,
		     "%s has mode %o and is of %u:%u", name, st->st_mode, st->st_uid, st->st_gid);
	ORACLE_CHECK(st->st_size >= 0, "%s has %lld bytes", name, (long long)st->st_size);
}

size_t __wrap_fuse_add_direntry_plus(fuse_req_t req, char *buf, size_t size, const char *name,
				     const struct fuse_entry_param *e, off_t off)
{
	size_t n = __real_fuse_add_direntry_plus(req, buf, size, name, e, off);

	if (n > size)
		return n;
	kernel.next = off;
	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return n;
	ORACLE_CHECK(e->ino, "%s can't be looked up", name);
	check_stat(name, &e->attr);
	tree_add(kernel.tree, kernel.parent, name, &e->attr)->node = e->ino;
	return n;
}

/* ---- readers ---- */

static void list(struct tree *t, fuse_ino_t node, const char *path)
{
	kernel.tree = t;
	kernel.parent = path;
	kernel.err = 0;
	kernel.next = 0;
	for (off_t at = -1; kernel.next != at && !kernel.err;) {
		at = kernel.next;
		sqfs_ops.readdirplus(NULL, node, LISTING, at, NULL);
	}
	ORACLE_CHECK(!kernel.err, "%s can't be listed", path);
}

static void read_file(struct entry *e)
{
	off_t n;

	kernel.content = crc32(0, NULL, 0);
	kernel.err = 0;
	for (off_t at = 0; at < e->size && !kernel.err; at = tree_next_place(at + n, e->size)) {
		kernel.size = 0;
		n = e->size - at < TREE_PAGE ? e->size - at : TREE_PAGE;
		sqfs_ops.read(NULL, e->node, TREE_PAGE, at, NULL);
		ORACLE_CHECK(kernel.err || (off_t)kernel.size == n, "%s: %zu bytes at %lld of %lld",
			     e->path, kernel.size, (long long)at, (long long)e->size);
	}
	e->content = kernel.content;
	e->failed = kernel.err != 0;
}

void tree_read(struct tree *t, struct volume *volume, size_t archive_size)
{
	_cleanup_(freep) char *path = NULL;

	view = (struct sqfs_view){ .volume = volume, .uid = TREE_UID, .gid = TREE_GID };
	kernel.archive_size = archive_size;
	list(t, FUSE_ROOT_ID, "");
	for (size_t i = 0; i < t->n; i++) {
		mode_t mode = t->v[i].mode;

		if (S_ISDIR(mode)) {
			free(path);
			path = strdup(t->v[i].path); /* the tree grows */
			ORACLE_CHECK(path, "memory");
			list(t, t->v[i].node, path);
		} else if (S_ISREG(mode)) {
			read_file(&t->v[i]);
			t->failed = t->failed || t->v[i].failed;
		} else {
			sqfs_ops.readlink(NULL, t->v[i].node);
			t->v[i].text = steal_ptr(kernel.text);
			ORACLE_CHECK(t->v[i].text, "%s leads nowhere", t->v[i].path);
			tree_sum_link(&t->v[i]);
		}
	}
	tree_sort(t);
}
