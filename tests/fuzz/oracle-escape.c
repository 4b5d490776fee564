/*
 * Hostile archives, each opened by the real stager into a fresh directory: whatever it comes to,
 * nothing outside is made, changed, linked to or read through, and nothing inside is a device, a
 * FIFO, a socket, or gives rights away.
 *
 *	oracle-escape ARCHIVES [SEED]
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "common/util/cleanup.h"
#include "tests/fuzz/hostile-tar.h"
#include "tests/fuzz/oracle.h"

#define SECRET "what stands outside"

static const char *const watched[] = { "/1",
				       "/1/2",
				       "/1/2/3",
				       "/1/2/3/4",
				       ORACLE_LEVELS,
				       ORACLE_LEVELS "/canary",
				       ORACLE_LEVELS "/canary/victim",
				       ORACLE_LEVELS "/canary/dir",
				       ORACLE_LEVELS "/canary/dir/victim" };

static struct oracle o;
static struct stat before[ARRAY_SIZE(watched)];
static unsigned long current;

static void make_canary(void)
{
	static const char *const dirs[] = { "canary", "canary/dir" };
	static const char *const files[] = { "canary/victim", "canary/dir/victim" };
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(path, sizeof(path), "%s/%s", o.deep, dirs[i]);
		ORACLE_CHECK(mkdir(path, 0755) == 0, "%s", path);
	}
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		FILE *f;

		snprintf(path, sizeof(path), "%s/%s", o.deep, files[i]);
		f = fopen(path, "w");
		ORACLE_CHECK(f && fputs(SECRET, f) >= 0 && fclose(f) == 0, "%s", path);
	}
}

static void look(size_t i, struct stat *st)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s%s", o.dir, watched[i]);
	ORACLE_CHECK(lstat(path, st) == 0, "archive %lu: %s is gone", current, path);
}

/* Whatever is done to a file or a directory changes one of these. */
static void check_outside(void)
{
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(watched); i++) {
		look(i, &st);
		ORACLE_CHECK(st.st_ino == before[i].st_ino && st.st_mode == before[i].st_mode &&
				     st.st_nlink == before[i].st_nlink &&
				     st.st_size == before[i].st_size &&
				     st.st_ctim.tv_sec == before[i].st_ctim.tv_sec &&
				     st.st_ctim.tv_nsec == before[i].st_ctim.tv_nsec,
			     "archive %lu: escaped: %s has changed", current, watched[i]);
	}
}

static void check_entry(void *arg, int dirfd, const char *name, const char *path,
			const struct stat *st)
{
	_cleanup_(fd_closep) int fd = -1;
	char text[sizeof(SECRET)] = "";

	ORACLE_CHECK(S_ISREG(st->st_mode) || S_ISDIR(st->st_mode) || S_ISLNK(st->st_mode),
		     "archive %lu: %s is no file", current, path);
	ORACLE_CHECK(S_ISLNK(st->st_mode) || (st->st_mode & 07000) == 0,
		     "archive %lu: %s has mode %o", current, path, st->st_mode);
	if (!S_ISREG(st->st_mode))
		return;
	fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ORACLE_CHECK(fd >= 0 && read(fd, text, sizeof(text) - 1) >= 0, "%s", path);
	ORACLE_CHECK(strcmp(text, SECRET) != 0, "archive %lu: %s was read through", current, path);
}

/* out/ holds the target and nothing else. */
static void check_out(void)
{
	struct stat st;

	ORACLE_CHECK(fstat(o.out_fd, &st) == 0 && st.st_nlink == 3,
		     "archive %lu: something is beside the target", current);
}

/* *datap becomes a gzip or zstd of itself. */
static void wrap(void **datap, size_t *sizep)
{
	size_t room = *sizep + 4096;
	_cleanup_(freep) void *in = *datap;
	void *out = malloc(room);
	z_stream z = { 0 };

	ORACLE_CHECK(out, "memory");
	if (oracle_chance(50)) {
		size_t n = ZSTD_compress(out, room, in, *sizep, 1);

		ORACLE_CHECK(!ZSTD_isError(n), "zstd");
		*sizep = n;
	} else {
		z.next_in = in;
		z.avail_in = (unsigned)*sizep;
		z.next_out = out;
		z.avail_out = (unsigned)room;
		ORACLE_CHECK(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, 0) == Z_OK &&
				     deflate(&z, Z_FINISH) == Z_STREAM_END,
			     "gzip");
		*sizep = z.total_out;
		deflateEnd(&z);
	}
	*datap = out;
}

static int open_one(void)
{
	char canary[PATH_MAX];
	struct dataset ds = { .method = DATASET_METHOD_EXTRACT };
	_cleanup_(freep) void *data = NULL;
	struct error err = ERROR_INIT;
	size_t size;
	int r;

	snprintf(canary, sizeof(canary), "%s/canary", o.deep);
	data = hostile_tar_new(canary, &size);
	ds.nested = oracle_chance(30);
	ds.strip = oracle_chance(10) ? oracle_random(3) : 0;
	ds.subdir = oracle_chance(5) ? (char *)"a" : NULL;
	if (oracle_chance(15))
		wrap(&data, &size);
	oracle_write_input(&o, data, size);
	r = oracle_extract(&o, &ds, &err);
	ORACLE_CHECK(r >= 0 || err.text[0], "archive %lu: refused without a word", current);
	check_outside();
	if (o.target_fd >= 0) {
		check_out();
		oracle_walk(o.target_fd, check_entry, NULL);
	}
	oracle_clear(&o);
	return r;
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000, n_ready = 0;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

	oracle_open(&o);
	make_canary();
	for (size_t i = 0; i < ARRAY_SIZE(watched); i++)
		look(i, &before[i]);
	for (current = 0; current < n; current++) {
		oracle_seed(seed + current);
		n_ready += open_one() == 0;
	}
	oracle_close(&o);
	printf("%lu hostile archives (%lu of them ready), nothing escaped\n", n, n_ready);
	/* What is refused at once tells nothing. */
	ORACLE_CHECK(n < 100 || (n_ready > n / 20 && n_ready < n), "%lu of %lu are ready", n_ready,
		     n);
	return 0;
}
