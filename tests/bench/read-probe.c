/* clang-format off */
/*
 * What the benchmarks do with files, in C, so that Python isn't what is measured.
 *
 *   probe sum PATH [SUB]    prints "FILES DIRS BYTES HASH" of the tree PATH/SUB; names count from
 *                           PATH on, their order does not; PATH may be a file
 *   probe warm PATH...      reads everything, so that it is cached
 *   probe copy N FROM TO    N threads do nothing but read and write the bytes of a file, into a new
 *                           one: as fast as it can be
 *   probe files N DIR DIRS FILES SIZE
 *                           N threads do nothing but make files, each in directories of its own:
 *                           FILES of SIZE bytes in DIRS directories, with their times
 *   probe headers ARCHIVE   reads the headers of a tar, one after the other
 *   probe untar N ARCHIVE DIR, probe tree N CHUNK FROM DIR, probe inflate N IMAGE, probe names TREE POINT
 *                           the same of a tar, of a tree, of an image and of a mount, see bare.h
 *   probe touch BYTES DIR   writes so much memory into a file in DIR and frees it
 *   probe read N DIR <LIST  N threads read the files named in LIST whole, in its order; prints
 *                           "SECONDS FILES BYTES HASH"
 *   probe first DIR         prints the seconds that opendir and the first readdir take
 *
 * Any error ends it with status 1: a reader that passes over errors looks fast.
 */
/* clang-format on */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bare.h"

#define MAX_THREADS 256
#define BUFFER_SIZE (256 << 10)
#define BUFFER_ALIGN 64 /* where reading is fastest; malloc() gives less */
#define HASH_STEP 32

struct sum {
	uint64_t n_files, n_dirs, bytes, hash;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Four words at a time, so that it is no slower than memory. Not against an enemy. */
struct hash {
	uint64_t lane[4], size;
};

static void hash_init(struct hash *h)
{
	*h = (struct hash){ { 1, 2, 3, 4 }, 0 };
}

static void hash_words(struct hash *h, const uint8_t *data)
{
	uint64_t word[4];

	memcpy(word, data, sizeof(word));
	for (int i = 0; i < 4; i++) {
		h->lane[i] = (h->lane[i] ^ word[i]) * UINT64_C(0x9e3779b97f4a7c15);
		h->lane[i] ^= h->lane[i] >> 29;
	}
}

/* Only the last piece of a file may have a size that is no multiple of 32. */
static void hash_add(struct hash *h, const uint8_t *data, size_t size)
{
	uint8_t end[HASH_STEP] = { 0 };

	h->size += size;
	for (; size >= HASH_STEP; size -= HASH_STEP, data += HASH_STEP)
		hash_words(h, data);
	if (!size)
		return;
	memcpy(end, data, size);
	hash_words(h, end);
}

static uint64_t hash_end(const struct hash *h)
{
	uint64_t v = h->size;

	for (int i = 0; i < 4; i++) {
		v = (v ^ h->lane[i]) * UINT64_C(0xff51afd7ed558ccd);
		v ^= v >> 32;
	}
	return v;
}

static uint64_t hash_text(const char *text)
{
	struct hash h;

	hash_init(&h);
	hash_add(&h, (const uint8_t *)text, strlen(text));
	return hash_end(&h);
}

/* Fills the buffer as far as the file goes. */
static size_t read_full(int fd, uint8_t *buf, const char *name)
{
	size_t n = 0;

	while (n < BUFFER_SIZE) {
		ssize_t k = read(fd, buf + n, BUFFER_SIZE - n);

		if (k < 0)
			err(1, "read %s", name);
		if (k == 0)
			break;
		n += (size_t)k;
	}
	return n;
}

static void read_file(int dirfd, const char *name, uint8_t *buf, struct sum *sum)
{
	int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
	struct hash h;
	size_t n;

	if (fd < 0)
		err(1, "open %s", name);
	hash_init(&h);
	do {
		n = read_full(fd, buf, name);
		hash_add(&h, buf, n);
	} while (n == BUFFER_SIZE);
	close(fd);
	sum->n_files++;
	sum->bytes += h.size;
	sum->hash += hash_end(&h) ^ hash_text(name);
}

static void add_entry(const char *path, const char *name, uint8_t *buf, struct sum *sum);

/* name: of the directory as it is hashed, "" at the top */
static void add_dir(const char *path, const char *name, uint8_t *buf, struct sum *sum)
{
	DIR *dir = opendir(path);
	struct dirent *de;

	if (!dir)
		err(1, "open %s", path);
	while (errno = 0, (de = readdir(dir))) {
		char *sub, *sub_name;

		if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, ".."))
			continue;
		if (asprintf(&sub, "%s/%s", path, de->d_name) < 0 ||
		    asprintf(&sub_name, "%s%s%s", name, *name ? "/" : "", de->d_name) < 0)
			err(1, "memory");
		add_entry(sub, sub_name, buf, sum);
		free(sub);
		free(sub_name);
	}
	if (errno)
		err(1, "read %s", path);
	closedir(dir);
}

static void add_entry(const char *path, const char *name, uint8_t *buf, struct sum *sum)
{
	char target[4096] = "";
	struct sum one = { 0 };
	struct stat st;

	if (lstat(path, &st) < 0)
		err(1, "stat %s", path);
	switch (st.st_mode & S_IFMT) {
	case S_IFDIR:
		sum->n_dirs += *name != '\0';
		add_dir(path, name, buf, sum);
		break;
	case S_IFREG:
		read_file(AT_FDCWD, path, buf, &one);
		sum->n_files++;
		sum->bytes += one.bytes;
		sum->hash += one.hash ^ hash_text(path) ^ hash_text(name);
		break;
	case S_IFLNK:
		if (readlink(path, target, sizeof(target) - 1) < 0)
			err(1, "read %s", path);
		sum->n_files++;
		sum->hash += hash_text(target) ^ (hash_text(name) << 1);
		break;
	default:
		errx(1, "%s is neither file, directory nor link", path);
	}
}

static int do_sum(int argc, char **argv)
{
	const char *sub = argc > 1 ? argv[1] : "";
	uint8_t *buf = aligned_alloc(BUFFER_ALIGN, BUFFER_SIZE);
	struct sum sum = { 0 };
	char *path;

	if (!buf || asprintf(&path, "%s%s%s", argv[0], *sub ? "/" : "", sub) < 0)
		err(1, "memory");
	add_entry(path, sub, buf, &sum);
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %016" PRIx64 "\n", sum.n_files, sum.n_dirs,
	       sum.bytes, sum.hash);
	free(path);
	free(buf);
	return 0;
}

static int do_warm(int argc, char **argv)
{
	uint8_t *buf = aligned_alloc(BUFFER_ALIGN, BUFFER_SIZE);
	struct sum sum = { 0 };

	if (!buf)
		err(1, "memory");
	for (int i = 0; i < argc; i++)
		add_entry(argv[i], "", buf, &sum);
	free(buf);
	return 0;
}

static int do_touch(int argc, char **argv)
{
	uint64_t left = strtoull(argv[0], NULL, 10);
	int fd = argc > 1 ? open(argv[1], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : -1;
	uint8_t *buf = aligned_alloc(BUFFER_ALIGN, BUFFER_SIZE);

	if (fd < 0 || !buf)
		err(1, "make a file in %s", argc > 1 ? argv[1] : "?");
	memset(buf, 0, BUFFER_SIZE);
	if (ftruncate(fd, (off_t)left) < 0)
		err(1, "make a file in %s", argv[1]);
	while (left) {
		ssize_t n = write(fd, buf, left < BUFFER_SIZE ? left : BUFFER_SIZE);

		if (n < 0)
			err(1, "write to %s", argv[1]);
		left -= (uint64_t)n;
	}
	free(buf);
	close(fd);
	return 0;
}

/* ---- a bare loop ---- */

#define COPY_STEP (2 << 20) /* a huge page */

static struct copying {
	int in, out;
	off_t size;
	_Atomic off_t next;
} copying;

static void *copier(void *arg)
{
	uint8_t *buf = aligned_alloc(BUFFER_ALIGN, COPY_STEP);
	off_t at;

	if (!buf)
		err(1, "memory");
	while ((at = atomic_fetch_add(&copying.next, COPY_STEP)) < copying.size) {
		ssize_t n = pread(copying.in, buf, COPY_STEP, at);

		if (n < 0 || pwrite(copying.out, buf, (size_t)n, at) != n)
			err(1, "copy");
	}
	free(buf);
	return arg;
}

static int do_copy(int argc, char **argv)
{
	int n_threads = atoi(argv[0]);
	pthread_t threads[MAX_THREADS];
	struct stat st;

	if (argc < 3 || n_threads < 1 || n_threads > MAX_THREADS)
		errx(2, "usage: probe copy N FROM TO");
	copying.in = open(argv[1], O_RDONLY | O_CLOEXEC);
	copying.out = open(argv[2], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (copying.in < 0 || copying.out < 0 || fstat(copying.in, &st) < 0 ||
	    ftruncate(copying.out, st.st_size) < 0)
		err(1, "%s to %s", argv[1], argv[2]);
	copying.size = st.st_size;
	for (int i = 0; i < n_threads; i++)
		if (pthread_create(&threads[i], NULL, copier, NULL))
			errx(1, "no thread");
	for (int i = 0; i < n_threads; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

static struct making {
	int dirfd;
	int n_dirs, n_files, size;
	_Atomic int next;
} making;

static void make_files(int dirfd, const char *buf)
{
	const struct timespec times[2] = { { 1, 0 }, { 1, 0 } };
	char name[32];

	for (int i = 0; i < making.n_files / making.n_dirs; i++) {
		int fd;

		snprintf(name, sizeof(name), "file-%06d", i);
		fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (fd < 0 || write(fd, buf, (size_t)making.size) != making.size ||
		    futimens(fd, times) < 0)
			err(1, "make a file");
		close(fd);
	}
}

static void *maker(void *arg)
{
	char *buf = calloc(1, (size_t)making.size + 1), name[32];
	int i;

	if (!buf)
		err(1, "memory");
	while ((i = atomic_fetch_add(&making.next, 1)) < making.n_dirs) {
		int fd;

		snprintf(name, sizeof(name), "dir-%06d", i);
		if (mkdirat(making.dirfd, name, 0755) < 0 ||
		    (fd = openat(making.dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
			err(1, "make a directory");
		make_files(fd, buf);
		close(fd);
	}
	free(buf);
	return arg;
}

static int do_files(int argc, char **argv)
{
	int n_threads = atoi(argv[0]);
	pthread_t threads[MAX_THREADS];

	if (argc < 5 || n_threads < 1 || n_threads > MAX_THREADS)
		errx(2, "usage: probe files N DIR DIRS FILES SIZE");
	making.dirfd = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	making.n_dirs = atoi(argv[2]);
	making.n_files = atoi(argv[3]);
	making.size = atoi(argv[4]);
	if (making.dirfd < 0 || making.n_dirs < 1)
		err(1, "make files in %s", argv[1]);
	for (int i = 0; i < n_threads; i++)
		if (pthread_create(&threads[i], NULL, maker, NULL))
			errx(1, "no thread");
	for (int i = 0; i < n_threads; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

static struct readers {
	int dirfd;
	char **names;
	size_t n_names;
	_Atomic size_t next;
	pthread_barrier_t start;
	struct sum sums[MAX_THREADS];
} readers;

static void *reader(void *arg)
{
	uint8_t *buf = aligned_alloc(BUFFER_ALIGN, BUFFER_SIZE);
	struct sum sum = { 0 };
	size_t i;

	if (!buf)
		err(1, "memory");
	memset(buf, 1, BUFFER_SIZE);
	pthread_barrier_wait(&readers.start);
	while ((i = atomic_fetch_add(&readers.next, 1)) < readers.n_names)
		read_file(readers.dirfd, readers.names[i], buf, &sum);
	free(buf);
	*(struct sum *)arg = sum;
	return NULL;
}

static void read_list(void)
{
	size_t room = 0, size = 0;
	char *line = NULL;
	ssize_t n;

	while ((n = getline(&line, &size, stdin)) > 0) {
		if (line[n - 1] == '\n')
			line[n - 1] = '\0';
		if (readers.n_names == room) {
			room = room ? 2 * room : 1024;
			readers.names = realloc(readers.names, room * sizeof(*readers.names));
			if (!readers.names)
				err(1, "memory");
		}
		readers.names[readers.n_names] = strdup(line);
		if (!readers.names[readers.n_names++])
			err(1, "memory");
	}
	free(line);
}

static int do_read(int argc, char **argv)
{
	int n_threads = atoi(argv[0]);
	pthread_t threads[MAX_THREADS];
	struct sum all = { 0 };
	double start;

	if (argc < 2 || n_threads < 1 || n_threads > MAX_THREADS)
		errx(2, "usage: probe read N DIR <LIST");
	read_list();
	readers.dirfd = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (readers.dirfd < 0)
		err(1, "open %s", argv[1]);
	pthread_barrier_init(&readers.start, NULL, (unsigned)n_threads + 1);
	for (int i = 0; i < n_threads; i++)
		if (pthread_create(&threads[i], NULL, reader, &readers.sums[i]))
			errx(1, "no thread");
	start = now();
	pthread_barrier_wait(&readers.start);
	for (int i = 0; i < n_threads; i++) {
		pthread_join(threads[i], NULL);
		all.n_files += readers.sums[i].n_files;
		all.bytes += readers.sums[i].bytes;
		all.hash += readers.sums[i].hash;
	}
	printf("%.6f %" PRIu64 " %" PRIu64 " %016" PRIx64 "\n", now() - start, all.n_files,
	       all.bytes, all.hash);
	return 0;
}

static int do_first(int argc __attribute__((unused)), char **argv)
{
	double start = now();
	DIR *dir = opendir(argv[0]);

	if (!dir || !readdir(dir))
		err(1, "read %s", argv[0]);
	printf("%.6f\n", now() - start);
	closedir(dir);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} verbs[] = {
	{ "sum", do_sum },	     { "warm", do_warm },     { "copy", do_copy },
	{ "files", do_files },	     { "touch", do_touch },   { "read", do_read },
	{ "first", do_first },	     { "untar", bare_untar }, { "tree", bare_tree },
	{ "inflate", bare_inflate }, { "names", bare_names }, { "headers", bare_headers },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 2 && i < sizeof(verbs) / sizeof(*verbs); i++)
		if (!strcmp(argv[1], verbs[i].name))
			return verbs[i].run(argc - 2, argv + 2);
	errx(2, "usage: probe sum|warm|copy|files|untar|tree|inflate|touch|read|first ..., see the "
		"source");
}
