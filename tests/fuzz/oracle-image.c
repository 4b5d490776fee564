/*
 * Damaged images: each through the check's child and, where that lets it pass, through all that an
 * image server does with it, request by request as the kernel would ask. The check may crash in its
 * child, the server may not; neither may take five seconds of CPU time.
 *
 *	oracle-image DIRECTORY IMAGES [SEED]
 *
 * DIRECTORY has sound images (tests/fuzz/seeds: squashfs/).
 */
#define FUSE_USE_VERSION 312
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <fuse_lowlevel.h>

#include "common/util/cleanup.h"
#include "daemon/engines/image/sqfs-channel.h"
#include "daemon/engines/image/sqfs-check.h"
#include "daemon/engines/image/sqfs-image.h"
#include "daemon/engines/image/sqfs-ops.h"
#include "daemon/engines/image/sqfs-pipe.h"
#include "daemon/engines/image/sqfs-volume.h"
#include "daemon/engines/image/volume.h"
#include "tests/fuzz/oracle.h"

#define MAX_SOUND 32
#define MAX_SECONDS 5
#define MAX_NODES 400
#define CACHE (1 << 20)
#define PAGE 65536

static struct {
	char *data;
	size_t size;
} sounds[MAX_SOUND];
static size_t n_sounds;
static struct oracle o;
static struct sqfs_view view;
static size_t image_size;

/* ---- the kernel's side ---- */

static struct {
	size_t asked; /* bytes that the answer may have */
	fuse_ino_t nodes[MAX_NODES];
	mode_t modes[MAX_NODES];
	size_t n_nodes;
	unsigned long n_answers;
	char sum; /* of what was read */
} kernel;

static void check_stat(const struct stat *st)
{
	ORACLE_CHECK(S_ISREG(st->st_mode) || S_ISDIR(st->st_mode) || S_ISLNK(st->st_mode),
		     "mode %o", st->st_mode);
	ORACLE_CHECK((st->st_mode & 07000) == 0 && st->st_uid == 1000 && st->st_gid == 1001,
		     "mode %o", st->st_mode);
}

static void add_node(fuse_ino_t node, const struct stat *st)
{
	check_stat(st);
	if (kernel.n_nodes == MAX_NODES)
		return;
	kernel.nodes[kernel.n_nodes] = node;
	kernel.modes[kernel.n_nodes++] = st->st_mode;
}

void *__wrap_fuse_req_userdata(fuse_req_t req);
int __wrap_fuse_reply_err(fuse_req_t req, int err);
void __wrap_fuse_reply_none(fuse_req_t req);
int __wrap_fuse_reply_entry(fuse_req_t req, const struct fuse_entry_param *e);
int __wrap_fuse_reply_attr(fuse_req_t req, const struct stat *attr, double timeout);
int __wrap_fuse_reply_readlink(fuse_req_t req, const char *text);
int __wrap_fuse_reply_iov(fuse_req_t req, const struct iovec *iov, int n);
int __wrap_fuse_reply_buf(fuse_req_t req, const char *buf, size_t size);
int __wrap_fuse_reply_statfs(fuse_req_t req, const struct statvfs *st);
int __wrap_fuse_reply_open(fuse_req_t req, const struct fuse_file_info *fi);
int __wrap_sqfs_channel_send_file(int fd, const struct sqfs_span *spans, size_t n,
				  sqfs_check_fn check, void *arg);

void *__wrap_fuse_req_userdata(fuse_req_t req)
{
	return &view;
}

int __wrap_fuse_reply_err(fuse_req_t req, int err)
{
	ORACLE_CHECK(err > 0, "error %d", err);
	kernel.n_answers++;
	return 0;
}

void __wrap_fuse_reply_none(fuse_req_t req)
{
	kernel.n_answers++;
}

int __wrap_fuse_reply_entry(fuse_req_t req, const struct fuse_entry_param *e)
{
	kernel.n_answers++;
	if (e->ino)
		check_stat(&e->attr);
	return 0;
}

int __wrap_fuse_reply_attr(fuse_req_t req, const struct stat *attr, double timeout)
{
	kernel.n_answers++;
	check_stat(attr);
	return 0;
}

int __wrap_fuse_reply_readlink(fuse_req_t req, const char *text)
{
	kernel.n_answers++;
	ORACLE_CHECK(strlen(text) < 4096, "link");
	return 0;
}

/* Each byte is looked at: it has to be there. */
int __wrap_fuse_reply_iov(fuse_req_t req, const struct iovec *iov, int n)
{
	size_t size = 0;

	kernel.n_answers++;
	for (int i = 0; i < n; i++) {
		for (size_t k = 0; k < iov[i].iov_len; k++)
			kernel.sum ^= ((const char *)iov[i].iov_base)[k];
		size += iov[i].iov_len;
	}
	ORACLE_CHECK(size <= kernel.asked, "%zu of %zu", size, kernel.asked);
	return 0;
}

int __wrap_fuse_reply_buf(fuse_req_t req, const char *buf, size_t size)
{
	kernel.n_answers++;
	ORACLE_CHECK(size <= kernel.asked, "%zu of %zu", size, kernel.asked);
	return 0;
}

int __wrap_fuse_reply_statfs(fuse_req_t req, const struct statvfs *st)
{
	kernel.n_answers++;
	return 0;
}

int __wrap_fuse_reply_open(fuse_req_t req, const struct fuse_file_info *fi)
{
	kernel.n_answers++;
	return 0;
}

/* Sometimes the kernel takes it. */
int __wrap_sqfs_channel_send_file(int fd, const struct sqfs_span *spans, size_t n,
				  sqfs_check_fn check, void *arg)
{
	for (size_t i = 0; i < n; i++)
		ORACLE_CHECK(spans[i].offset <= image_size &&
				     spans[i].size <= image_size - spans[i].offset,
			     "%zu bytes at %llu of %zu", spans[i].size,
			     (unsigned long long)spans[i].offset, image_size);
	return oracle_chance(20) ? 0 : -EOPNOTSUPP;
}

size_t __wrap_fuse_add_direntry_plus(fuse_req_t req, char *buf, size_t size, const char *name,
				     const struct fuse_entry_param *e, off_t off);
size_t __real_fuse_add_direntry_plus(fuse_req_t req, char *buf, size_t size, const char *name,
				     const struct fuse_entry_param *e, off_t off);

/* What a listing shows is asked for next. */
size_t __wrap_fuse_add_direntry_plus(fuse_req_t req, char *buf, size_t size, const char *name,
				     const struct fuse_entry_param *e, off_t off)
{
	ORACLE_CHECK(name[0] && strlen(name) <= 256 && !strchr(name, '/'), "name");
	if (e->ino)
		add_node(e->ino, &e->attr);
	return __real_fuse_add_direntry_plus(req, buf, size, name, e, off);
}

/* ---- requests ---- */

static void ask_file(fuse_ino_t node)
{
	static const off_t places[] = {
		0, 1, 4095, 131071, 131072, (off_t)1 << 40, INT64_MAX - 5000
	};

	sqfs_ops.open(NULL, node, &(struct fuse_file_info){ 0 });
	for (off_t at = 0; at < 4 * PAGE; at += PAGE) {
		kernel.asked = PAGE;
		sqfs_ops.read(NULL, node, PAGE, at, NULL);
	}
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		kernel.asked = 1 + oracle_random(PAGE);
		sqfs_ops.read(NULL, node, kernel.asked, places[i], NULL);
	}
}

static void ask_dir(fuse_ino_t node)
{
	static const char *const names[] = { "a", "size-1", "nothing", "zzzz", "", "\xff" };

	sqfs_ops.opendir(NULL, node, &(struct fuse_file_info){ 0 });
	kernel.asked = 4096;
	sqfs_ops.readdirplus(NULL, node, 4096, 0, NULL);
	sqfs_ops.readdir(NULL, node, 4096, 0, NULL);
	kernel.asked = 1 + oracle_random(300);
	sqfs_ops.readdirplus(NULL, node, kernel.asked, oracle_random(500), NULL);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		sqfs_ops.lookup(NULL, node, names[i]);
}

static void ask(fuse_ino_t node, mode_t mode)
{
	sqfs_ops.getattr(NULL, node, NULL);
	if (S_ISREG(mode) || oracle_chance(2))
		ask_file(node);
	if (S_ISDIR(mode) || oracle_chance(2))
		ask_dir(node);
	if (S_ISLNK(mode) || oracle_chance(2))
		sqfs_ops.readlink(NULL, node);
}

static void serve(int fd)
{
	_cleanup_(sqfs_image_closep) struct sqfs_image *img = NULL;
	_cleanup_(volume_freep) struct volume *volume = NULL;
	static atomic_uint n_idle = 1;
	struct error err = ERROR_INIT;
	struct stat root = { .st_mode = S_IFDIR, .st_uid = 1000, .st_gid = 1001 };

	if (sqfs_image_open(&img, fd, CACHE, &err) < 0)
		return;
	ORACLE_CHECK(sqfs_volume_new(&volume, img) == 0, "volume");
	ORACLE_CHECK(volume->ops->start(volume, &n_idle, 1) == 0, "volume");
	view = (struct sqfs_view){ .volume = volume, .uid = 1000, .gid = 1001 };
	kernel.n_nodes = 0;
	kernel.n_answers = 0;
	add_node(FUSE_ROOT_ID, &root);
	for (size_t i = 0; i < kernel.n_nodes; i++)
		ask(kernel.nodes[i], kernel.modes[i]);
	ask(oracle_random(1u << 20), S_IFREG); /* a node that nobody was told of */
	sqfs_ops.statfs(NULL, FUSE_ROOT_ID);
	ORACLE_CHECK(kernel.n_answers > 3, "%lu answers", kernel.n_answers);
}

/* ---- images ---- */

static void load_all(const char *path)
{
	_cleanup_(dir_closep) DIR *d = opendir(path);
	struct dirent *e;

	ORACLE_CHECK(d, "%s", path);
	while ((e = readdir(d))) {
		_cleanup_(freep) char *name = NULL;

		if (e->d_name[0] == '.')
			continue;
		ORACLE_CHECK(n_sounds < MAX_SOUND && asprintf(&name, "%s/%s", path, e->d_name) > 0,
			     "%s", path);
		sounds[n_sounds].data = oracle_read_file(name, &sounds[n_sounds].size);
		n_sounds++;
	}
	ORACLE_CHECK(n_sounds > 0, "%s is empty", path);
}

/* A byte in the superblock, in the tables behind the data (mostly), or anywhere. */
static size_t choose_place(size_t size)
{
	uint32_t tables = (uint32_t)(size < 3000 ? size : 3000);

	switch (oracle_random(10)) {
	case 0:
		return oracle_random(96);
	case 1:
		return oracle_random((uint32_t)size);
	default:
		return size - 1 - oracle_random(tables);
	}
}

static void damage(char *data, size_t *sizep)
{
	static const unsigned char bytes[] = { 0, 1, 0x7f, 0x80, 0xff, 0x1f, 0xfe };

	for (uint32_t i = 1 + oracle_random(6); i > 0; i--) {
		size_t at = choose_place(*sizep);

		switch (oracle_random(4)) {
		case 0:
			data[at] ^= (char)(1 << oracle_random(8));
			break;
		case 1:
			data[at] = (char)oracle_random(256);
			break;
		default:
			for (uint32_t k = 1u << oracle_random(4); k > 0 && at < *sizep; k--, at++)
				data[at] = (char)bytes[oracle_random(sizeof(bytes))];
		}
	}
	if (oracle_chance(3))
		*sizep = 100 + oracle_random((uint32_t)*sizep - 100);
}

static double seconds_used(void)
{
	struct rusage own, children;

	getrusage(RUSAGE_SELF, &own);
	getrusage(RUSAGE_CHILDREN, &children);
	return (double)(own.ru_utime.tv_sec + own.ru_stime.tv_sec + children.ru_utime.tv_sec +
			children.ru_stime.tv_sec) +
	       (double)(own.ru_utime.tv_usec + own.ru_stime.tv_usec + children.ru_utime.tv_usec +
			children.ru_stime.tv_usec) /
		       1e6;
}

/* Whether the check let it pass. */
static bool try_one(void)
{
	size_t which = oracle_random((uint32_t)n_sounds);
	_cleanup_(freep) char *data = malloc(sounds[which].size);
	_cleanup_(fd_closep) int fd = -1;
	struct sqfs_counts counts;
	struct error err = ERROR_INIT;
	double start = seconds_used();
	int r;

	ORACLE_CHECK(data, "memory");
	image_size = sounds[which].size;
	memcpy(data, sounds[which].data, image_size);
	damage(data, &image_size);
	oracle_write_input(&o, data, image_size);
	fd = open(o.input, O_RDONLY | O_CLOEXEC);
	ORACLE_CHECK(fd >= 0, "%s", o.input);
	r = sqfs_check_run(fd, &counts, NULL, NULL, &err);
	ORACLE_CHECK(r == 0 || err.text[0], "refused without a word");
	if (r == 0)
		serve(fd);
	ORACLE_CHECK(seconds_used() - start < MAX_SECONDS, "%.1f s", seconds_used() - start);
	return r == 0;
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000, n_passed = 0;
	uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;

	ORACLE_CHECK(argc > 1, "usage: oracle-image DIRECTORY IMAGES [SEED]");
	oracle_open(&o);
	load_all(argv[1]);
	for (unsigned long i = 0; i < n; i++) {
		oracle_seed(seed + i);
		n_passed += try_one();
	}
	oracle_close(&o);
	for (size_t i = 0; i < n_sounds; i++)
		free(sounds[i].data);
	printf("%lu damaged images, %lu passed the check, none crashed or held up the server\n", n,
	       n_passed);
	/* What is refused at once tells nothing of the server. */
	ORACLE_CHECK(n < 100 || (n_passed > n / 50 && n_passed < n), "%lu of %lu passed", n_passed,
		     n);
	return 0;
}
