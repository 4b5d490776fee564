#include "tests/fuzz/oracle.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/util/cleanup.h"
#include "common/util/fd.h"
#include "common/util/rmtree.h"
#include "daemon/engines/archive/magic.h"
#include "daemon/worker/ctx-internal.h"
#include "daemon/worker/plan.h"
#include "daemon/worker/source.h"
#include "daemon/worker/stager.h"
#include "daemon/worker/target.h"

extern const struct stager stager_extract;
#ifdef ORACLE_SQUASHFS
extern const struct stager stager_squashfs;
#endif

#define MAX_FILE (64u << 20)
#define MAX_CHARGED_BYTES (64u << 20)
#define MAX_CHARGED_FILES 20000

static uint64_t state = 1;

void oracle_seed(uint64_t seed)
{
	state = seed * 2654435761u + 88172645463325252u;
}

/* xorshift64* */
uint32_t oracle_random(uint32_t below)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (uint32_t)((state * 2685821657736338717u) >> 33) % below;
}

void oracle_fail(const char *file, int line, const char *condition, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s:%d: %s: ", file, line, condition);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, " (errno %d)\n", errno);
	abort();
}

void oracle_open(struct oracle *o)
{
	char path[PATH_MAX];

	umask(022);
	strcpy(o->dir, "/dev/shm/stage-oracle-XXXXXX");
	ORACLE_CHECK(mkdtemp(o->dir), "%s", o->dir);
	snprintf(o->input, sizeof(o->input), "%s/input", o->dir);
	snprintf(o->deep, sizeof(o->deep), "%s" ORACLE_LEVELS, o->dir);
	for (size_t n = strlen(o->dir) + 2; n <= strlen(o->deep); n += 2) {
		snprintf(path, n + 1, "%s", o->deep);
		ORACLE_CHECK(mkdir(path, 0755) == 0, "%s", path);
	}
	snprintf(path, sizeof(path), "%s/out", o->deep);
	ORACLE_CHECK(mkdir(path, 0755) == 0, "%s", path);
	o->out_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ORACLE_CHECK(o->out_fd >= 0, "%s", path);
	o->target_fd = -1;
}

void oracle_close(struct oracle *o)
{
	_cleanup_(fd_closep) int shm = open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct error err = ERROR_INIT;

	oracle_clear(o);
	fd_closep(&o->out_fd);
	ORACLE_CHECK(rmtree_at(shm, o->dir + strlen("/dev/shm/"), NULL, &err) == 0, "%s", err.text);
}

void oracle_write_input(struct oracle *o, const void *data, size_t size)
{
	_cleanup_(fd_closep) int fd = open(o->input, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
					   0600);

	ORACLE_CHECK(fd >= 0 && fd_write_all(fd, data, size) == 0, "%s", o->input);
}

void *oracle_read_file(const char *path, size_t *sizep)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *data = NULL;

	ORACLE_CHECK(fd >= 0 && fd_read_file(fd, MAX_FILE, &data, sizep) == 0, "%s", path);
	return data;
}

bool *oracle_cover_image(const unsigned char *data, size_t size)
{
	static unsigned char out[1 << 20];
	bool *covered = calloc(size + 1, sizeof(*covered));
	size_t at = 96;

	ORACLE_CHECK(covered, "memory");
	while (at + 8 < size) {
		z_stream z = { .next_in = (unsigned char *)data + at,
			       .avail_in = (unsigned)(size - at),
			       .next_out = out,
			       .avail_out = sizeof(out) };
		int r;

		ORACLE_CHECK(inflateInit(&z) == Z_OK, "zlib");
		r = inflate(&z, Z_FINISH);
		inflateEnd(&z);
		if (r == Z_STREAM_END && z.total_out > 0) {
			memset(covered + at, true, z.total_in);
			at += z.total_in;
		} else {
			at++;
		}
	}
	return covered;
}

/* As probe.c has it: by the first bytes; whatever is wrapped is taken for a tar. */
static int get_facts(int fd, struct facts *facts, struct error *err)
{
	char head[MAGIC_SIZE];
	ssize_t n = pread(fd, head, sizeof(head), 0);

	ORACLE_CHECK(n >= 0, "read");
	*facts = (struct facts){ .kind = SOURCE_FILE, .format = FORMAT_TAR };
	facts->filter = magic_get_filter(head, (size_t)n);
	if (facts->filter == FILTER_NONE)
		facts->format = magic_get_format(head, (size_t)n);
	if (facts->format == FORMAT_PLAIN)
		return error_set(err, EINVAL, "no archive");
	return 0;
}

static const struct stager *find_stager(const struct facts *facts)
{
#ifdef ORACLE_SQUASHFS
	if (facts->format == FORMAT_SQUASHFS)
		return &stager_squashfs;
#endif
	return &stager_extract;
}

/* A worker that is alone, is never cancelled, and may write so much and no more. */
static int charge(struct stage_io *io, uint64_t bytes, uint64_t files, struct error *err)
{
	struct ctx_private *p = ctx_of_io(io)->priv;

	if (bytes > MAX_CHARGED_BYTES ||
	    atomic_fetch_add(&p->charged_bytes, bytes) > MAX_CHARGED_BYTES ||
	    atomic_fetch_add(&p->charged_files, files) > MAX_CHARGED_FILES)
		return error_set(err, ENOSPC, "more than the oracle has room for");
	return 0;
}

static const struct stage_io_ops io_ops = { .charge = charge };

int oracle_extract(struct oracle *o, struct dataset *ds, struct error *err)
{
	struct ctx_private priv = { .n_passes = 1 };
	struct ctx ctx = {
		.io = { .ops = &io_ops, .ds = ds, .n_threads = 2 },
		.ds = ds,
		.policy = { .threads = 2, .cache_size = 4 << 20 },
		.priv = &priv,
	};
	struct plan plan = { .method = DATASET_METHOD_EXTRACT };
	struct target target = { .dirfd = o->out_fd, .name = (char *)"target" };
	struct stager_result result = { 0 };
	struct source src = { .kind = SOURCE_FILE, .path = o->input, .real = o->input };
	_cleanup_(fd_closep) int fd = open(o->input, O_RDONLY | O_CLOEXEC);
	struct facts facts;
	int r;

	ORACLE_CHECK(fd >= 0 && fstat(fd, &src.st) == 0, "%s", o->input);
	src.fd = fd;
	target.path = target.name;
	r = get_facts(fd, &facts, err);
	facts.bytes = (uint64_t)src.st.st_size;
	if (r == 0)
		r = find_stager(&facts)->stage(&ctx, &src, &facts, &plan, &target, &result, err);
	ORACLE_CHECK((target.root_mode & ~0777u) == 0, "mode %o", target.root_mode);
	o->target_fd = openat(o->out_fd, "target", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	ORACLE_CHECK(r < 0 || o->target_fd >= 0, "no target");
	return r;
}

void oracle_clear(struct oracle *o)
{
	struct error err = ERROR_INIT;

	fd_closep(&o->target_fd);
	if (o->out_fd >= 0)
		ORACLE_CHECK(rmtree_at(o->out_fd, "target", NULL, &err) == 0, "%s", err.text);
}

static void walk(int dirfd, const char *path,
		 void (*fn)(void *arg, int dirfd, const char *name, const char *path,
			    const struct stat *st),
		 void *arg)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(dir_closep) DIR *d = fd < 0 ? NULL : fdopendir(fd);
	_cleanup_(freep) char *below = NULL;
	struct dirent *e;
	struct stat st;

	ORACLE_CHECK(d, "open %s", path);
	while ((e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		ORACLE_CHECK(fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0, "%s",
			     e->d_name);
		free(below);
		ORACLE_CHECK(asprintf(&below, "%s/%s", path, e->d_name) >= 0, "memory");
		fn(arg, fd, e->d_name, below, &st);
		if (S_ISDIR(st.st_mode)) {
			_cleanup_(fd_closep) int sub = openat(
				fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

			ORACLE_CHECK(sub >= 0, "open %s", below);
			walk(sub, below, fn, arg);
		}
	}
}

void oracle_walk(int fd,
		 void (*fn)(void *arg, int dirfd, const char *name, const char *path,
			    const struct stat *st),
		 void *arg)
{
	struct stat st;

	ORACLE_CHECK(fstat(fd, &st) == 0, "target");
	fn(arg, fd, ".", "", &st);
	walk(fd, "", fn, arg);
}

/* FNV-1a */
static uint64_t add_bytes(uint64_t sum, const void *data, size_t size)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < size; i++)
		sum = (sum ^ p[i]) * 1099511628211u;
	return sum;
}

static uint64_t add_content(uint64_t sum, int dirfd, const char *name)
{
	_cleanup_(fd_closep) int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char buf[65536];
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		sum = add_bytes(sum, buf, (size_t)n);
	ORACLE_CHECK(n == 0, "read %s", name);
	return sum;
}

/* Entries come in any order, so their sums are added up. */
static void add_entry(void *arg, int dirfd, const char *name, const char *path,
		      const struct stat *st)
{
	uint64_t sum = add_bytes(14695981039346656037u, path, strlen(path) + 1), *total = arg;
	uint64_t numbers[] = { st->st_mode, S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size,
			       S_ISDIR(st->st_mode) ? 0 : st->st_nlink,
			       (uint64_t)st->st_mtim.tv_sec };
	char text[PATH_MAX];
	ssize_t n;

	if (!*path)
		numbers[0] = numbers[3] = 0; /* the top's are set when it is shown */
	sum = add_bytes(sum, numbers, sizeof(numbers));
	if (S_ISREG(st->st_mode))
		sum = add_content(sum, dirfd, name);
	if (S_ISLNK(st->st_mode)) {
		n = readlinkat(dirfd, name, text, sizeof(text));
		sum = add_bytes(sum, text, n < 0 ? 0 : (size_t)n);
	}
	*total += sum;
}

uint64_t oracle_sum_tree(int fd)
{
	uint64_t sum = 0;

	oracle_walk(fd, add_entry, &sum);
	return sum;
}
