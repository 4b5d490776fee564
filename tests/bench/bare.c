/*
 * This program checks only what it must. It takes only the last component of a path from an
 * archive. If the input is not as the benchmarks make it, the program ends.
 */
#include "bare.h"

#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_THREADS 256
#define STEP (2 << 20) /* a huge page */
#define ALIGN 64       /* where reading is fastest */
#define BLOCK 512

static char *new_buffer(void)
{
	char *buf = aligned_alloc(ALIGN, STEP);

	if (!buf)
		err(1, "memory");
	return buf;
}

static void run_threads(int n, void *(*run)(void *))
{
	pthread_t threads[MAX_THREADS];

	for (intptr_t i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)i))
			errx(1, "no thread");
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

static int get_number(const char *text, int max)
{
	int n = atoi(text);

	if (n < 1 || n > max)
		errx(2, "%s is no number from 1 to %d", text, max);
	return n;
}

static int open_dir(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		err(1, "open %s", name);
	return fd;
}

/* size bytes at `at` of in into a new file. */
static void make_file(int dirfd, const char *name, int in, off_t at, uint64_t size,
		      const struct timespec times[2], char *buf)
{
	int out = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (out < 0)
		err(1, "make %s", name);
	for (uint64_t done = 0, n; done < size; done += n) {
		n = size - done < STEP ? size - done : STEP;
		if (pread(in, buf, n, at + (off_t)done) != (ssize_t)n ||
		    pwrite(out, buf, n, (off_t)done) != (ssize_t)n)
			err(1, "copy %s", name);
	}
	if (futimens(out, times) < 0)
		err(1, "date %s", name);
	close(out);
}

/* ---- a tar ---- */

static struct {
	int in, root, n_threads;
} tar;

static uint64_t get_octal(const char *s, int n)
{
	uint64_t v = 0;

	for (; n-- > 0 && *s >= '0' && *s <= '7'; s++)
		v = v * 8 + (uint64_t)(*s - '0');
	return v;
}

/* Of directories: the first is everybody's, of the others each thread has every n-th. */
static bool enter(const char *name, int number, int me, int *dirp)
{
	if (number > 0 && number % tar.n_threads != me)
		return false;
	if (mkdirat(tar.root, name, 0755) < 0 && (number > 0 || errno != EEXIST))
		err(1, "make %s", name);
	if (*dirp >= 0)
		close(*dirp);
	*dirp = open_dir(tar.root, name);
	return number > 0;
}

static void *untar_thread(void *arg)
{
	int me = (int)(intptr_t)arg, n_dirs = 0, dir = -1;
	char *buf = new_buffer(), h[BLOCK], name[101] = "";
	bool mine = false;
	uint64_t size;

	for (off_t at = 0; pread(tar.in, h, BLOCK, at) == BLOCK && *h; at += BLOCK) {
		const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
						   { .tv_sec = (time_t)get_octal(h + 136, 12) } };

		memcpy(name, h, 100);
		size = get_octal(h + 124, 12);
		if (h[156] == '5')
			mine = enter(name, n_dirs++, me, &dir);
		else if (h[156] != '0' || !strchr(name, '/'))
			errx(1, "%s is neither a directory nor a file in one", name);
		else if (mine)
			make_file(dir, strrchr(name, '/') + 1, tar.in, at + BLOCK, size, times,
				  buf);
		at += (off_t)((size + BLOCK - 1) / BLOCK * BLOCK);
	}
	close(dir);
	free(buf);
	return NULL;
}

int bare_untar(int argc, char **argv)
{
	if (argc < 3)
		errx(2, "usage: probe untar N ARCHIVE DIR");
	tar.n_threads = get_number(argv[0], MAX_THREADS);
	tar.in = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (tar.in < 0)
		err(1, "open %s", argv[1]);
	tar.root = open_dir(AT_FDCWD, argv[2]);
	run_threads(tar.n_threads, untar_thread);
	return 0;
}

/* ---- a tree ---- */

#define MAX_DIRS 450 /* two descriptors each */
#define MAX_FILES 1000000

struct file {
	char *name;
	int dir; /* its number */
};

static struct {
	int chunk, n_threads, n_dirs;
	char *names[MAX_DIRS];
	int in[MAX_DIRS], out[MAX_DIRS];
	int from, to;
	_Atomic int next_dir, next_file, n_files;
	struct file *files;
	pthread_barrier_t listed;
} tree;

static bool is_dots(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

static void list_dir(int number)
{
	struct dirent *de;
	int n, fd;
	DIR *dir;

	if (mkdirat(tree.to, tree.names[number], 0755) < 0)
		err(1, "make %s", tree.names[number]);
	tree.out[number] = open_dir(tree.to, tree.names[number]);
	tree.in[number] = open_dir(tree.from, tree.names[number]);
	fd = dup(tree.in[number]);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		err(1, "list %s", tree.names[number]);
	while ((de = readdir(dir))) {
		if (is_dots(de->d_name))
			continue;
		n = atomic_fetch_add(&tree.n_files, 1);
		if (n >= MAX_FILES || !(tree.files[n].name = strdup(de->d_name)))
			errx(1, "too many files");
		tree.files[n].dir = number;
	}
	closedir(dir);
}

static void copy_one(const struct file *f, char *buf)
{
	int in = openat(tree.in[f->dir], f->name, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (in < 0 || fstat(in, &st) < 0)
		err(1, "open %s", f->name);
	make_file(tree.out[f->dir], f->name, in, 0, (uint64_t)st.st_size,
		  (struct timespec[]){ { .tv_nsec = UTIME_OMIT }, st.st_mtim }, buf);
	close(in);
}

static void *tree_thread(void *arg)
{
	char *buf = new_buffer();
	int i;

	while ((i = atomic_fetch_add(&tree.next_dir, 1)) < tree.n_dirs)
		list_dir(i);
	pthread_barrier_wait(&tree.listed);
	while ((i = atomic_fetch_add(&tree.next_file, tree.chunk)) < tree.n_files)
		for (int k = i; k < i + tree.chunk && k < tree.n_files; k++)
			copy_one(&tree.files[k], buf);
	free(buf);
	return arg;
}

static void list_top(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *de;

	if (!dir)
		err(1, "open %s", path);
	while ((de = readdir(dir))) {
		if (is_dots(de->d_name))
			continue;
		if (tree.n_dirs == MAX_DIRS)
			errx(1, "more than %d directories in %s", MAX_DIRS, path);
		tree.names[tree.n_dirs] = strdup(de->d_name);
		if (!tree.names[tree.n_dirs++])
			err(1, "memory");
	}
	closedir(dir);
}

int bare_tree(int argc, char **argv)
{
	if (argc < 4)
		errx(2, "usage: probe tree N CHUNK FROM DIR");
	tree.n_threads = get_number(argv[0], MAX_THREADS);
	tree.chunk = get_number(argv[1], MAX_FILES);
	tree.files = calloc(MAX_FILES, sizeof(*tree.files));
	if (!tree.files)
		err(1, "memory");
	list_top(argv[2]);
	tree.from = open_dir(AT_FDCWD, argv[2]);
	tree.to = open_dir(AT_FDCWD, argv[3]);
	pthread_barrier_init(&tree.listed, NULL, (unsigned)tree.n_threads);
	run_threads(tree.n_threads, tree_thread);
	return 0;
}

int bare_headers(int argc, char **argv)
{
	uint64_t n = 0, size;
	char h[BLOCK];
	int fd;

	if (argc != 1)
		errx(2, "headers ARCHIVE");
	fd = open(argv[0], O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		err(1, "open %s", argv[0]);
	for (off_t at = 0; pread(fd, h, BLOCK, at) == BLOCK && *h; n++) {
		size = get_octal(h + 124, 12);
		at += (off_t)(BLOCK + (size + BLOCK - 1) / BLOCK * BLOCK);
	}
	close(fd);
	printf("%llu\n", (unsigned long long)n);
	return 0;
}
