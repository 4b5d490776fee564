/*
 * sqfs-unit: what the tests of the squashfs reader share: a tree with everything in it, images of
 * it by mksquashfs, and a comparison of the two through the reader.
 */
#pragma once

#include "tests/unit/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "daemon/engines/image/sqfs-dir.h"
#include "daemon/engines/image/sqfs-file.h"
#include "daemon/engines/image/sqfs-image.h"
#include "daemon/engines/image/sqfs-inode.h"

static inline void sqfs_unit_file(const char *dir, const char *name, size_t size, unsigned seed)
{
	_cleanup_(file_closep) FILE *f = NULL;
	char path[4096];

	assert_true(snprintf(path, sizeof(path), "%s/%s", dir, name) < (int)sizeof(path));
	f = fopen(path, "w");
	assert_non_null(f);
	for (size_t i = 0; i < size; i++) {
		seed = seed * 1103515245u + 12345u;
		/* half of it compresses */
		fputc(i / 512 % 2 ? (int)(seed >> 16 & 0xff) : (int)(i & 0x3f), f);
	}
}

static inline void sqfs_unit_dir(char *buf, const char *dir, const char *name)
{
	assert_true(snprintf(buf, 4096, "%s/%s", dir, name) < 4096);
	assert_true(mkdir(buf, 0755) == 0 || errno == EEXIST);
}

/* Makes root/tree: sizes around block borders, holes, hard and symbolic links, odd names and modes,
 * a deep path, many entries in one directory, empty things, a FIFO. */
static inline void sqfs_unit_tree(const char *root, unsigned n_many)
{
	static const size_t sizes[] = {
		0, 1, 4095, 4096, 4097, 8192, 131071, 131072, 131073, 400000
	};
	static const char *const names[] = { "new\nline", "bad\xff\xfeutf8", "-dash",  "sp ace*",
					     "\x1b[31m",  "..three",	     ".hidden" };
	char tree[4096], dir[4096], path[4200];
	char name[300];
	int fd;

	sqfs_unit_dir(tree, root, "tree");
	sqfs_unit_dir(dir, tree, "sizes");
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		snprintf(name, sizeof(name), "size-%zu", sizes[i]);
		sqfs_unit_file(dir, name, sizes[i], (unsigned)i);
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		sqfs_unit_file(tree, names[i], i * 10, (unsigned)i);
	memset(name, 'n', 255);
	name[255] = '\0';
	sqfs_unit_file(tree, name, 3, 1);
	sqfs_unit_dir(dir, tree, "empty");
	sqfs_unit_dir(dir, tree, "many");
	for (unsigned i = 0; i < n_many; i++) {
		snprintf(name, sizeof(name), "entry-%06u", i);
		sqfs_unit_file(dir, name, i % 97, i);
	}
	strcpy(dir, tree);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "deep%d", i);
		strcpy(path, dir);
		sqfs_unit_dir(dir, path, name);
	}
	sqfs_unit_file(dir, "leaf", 5000, 7);

	snprintf(path, sizeof(path), "%s/sparse", tree);
	fd = open(path, O_WRONLY | O_CREAT, 0644);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 3000000), 0);
	assert_int_equal(pwrite(fd, "middle", 6, 1500000), 6);
	close(fd);
	snprintf(path, sizeof(path), "%s/link", tree);
	assert_int_equal(symlink("../outside/of it", path), 0);
	snprintf(path, sizeof(path), "%s/hard", tree);
	snprintf(dir, sizeof(dir), "%.2000s/sizes/size-131073", tree);
	assert_int_equal(link(dir, path), 0);
	assert_int_equal(chmod(dir, 04751), 0);
	snprintf(path, sizeof(path), "%s/fifo", tree);
	assert_int_equal(mkfifo(path, 0600), 0);
}

/* Makes root/image of root/tree; false if there is no mksquashfs. */
static inline bool sqfs_unit_pack(const char *root, const char *options)
{
	_cleanup_(freep) char *cmd = NULL;

	if (system("command -v mksquashfs >/dev/null 2>&1") != 0)
		return false;
	assert_true(asprintf(&cmd,
			     "mksquashfs '%s/tree' '%s/image' -noappend -quiet -no-progress "
			     "-processors 2 %s >/dev/null 2>&1",
			     root, root, options) > 0);
	return system(cmd) == 0;
}

static inline int sqfs_unit_open(const char *root)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/image", root);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

/* Reads all of a file in pieces of step bytes. Caller frees. */
static inline char *sqfs_unit_read(struct sqfs_image *img, const struct sqfs_inode *inode,
				   size_t step)
{
	char *data = malloc(inode->size + 1);
	_cleanup_(freep) void *stored = malloc(step);
	size_t max = sqfs_file_max_extents(img, step), n, pos = 0;
	struct volume_extent *x = calloc(max, sizeof(*x));

	assert_non_null(data);
	assert_non_null(stored);
	assert_non_null(x);
	while (pos < inode->size) {
		assert_int_equal(sqfs_file_read(img, inode, pos, step, x, &n), 0);
		assert_true(n > 0 && n <= max);
		assert_int_equal(sqfs_file_load(img, x, n, stored), 0);
		for (size_t i = 0; i < n; i++) {
			memcpy(data + pos, x[i].data, x[i].size);
			pos += x[i].size;
		}
		sqfs_file_release(img, x, n);
	}
	assert_int_equal(pos, inode->size);
	free(x);
	return data;
}

static inline void sqfs_unit_compare_file(struct sqfs_image *img, const struct sqfs_inode *inode,
					  int dirfd, const char *name, size_t step)
{
	_cleanup_(freep) char *ours = sqfs_unit_read(img, inode, step);
	_cleanup_(freep) char *theirs = malloc(inode->size + 1);
	int fd = openat(dirfd, name, O_RDONLY);

	assert_true(fd >= 0);
	assert_non_null(theirs);
	assert_int_equal(read(fd, theirs, inode->size + 1), inode->size);
	close(fd);
	assert_memory_equal(ours, theirs, inode->size);
}

static inline void sqfs_unit_compare_inode(struct sqfs_image *img, const struct sqfs_inode *inode,
					   int dirfd, const char *name, size_t step)
{
	char ours[SQFS_MAX_SYMLINK + 1], theirs[SQFS_MAX_SYMLINK + 1] = "";
	struct stat st;

	assert_int_equal(fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	if (!S_ISLNK(st.st_mode))
		assert_int_equal(inode->mode, st.st_mode & 07777);
	assert_int_equal(inode->mtime, st.st_mtime);
	if (S_ISREG(st.st_mode)) {
		assert_int_equal(inode->type, SQFS_TYPE_FILE);
		assert_int_equal(inode->size, st.st_size);
		assert_int_equal(inode->n_links, st.st_nlink);
		sqfs_unit_compare_file(img, inode, dirfd, name, step);
	} else if (S_ISLNK(st.st_mode)) {
		assert_int_equal(sqfs_inode_read_link(img, inode, ours), 0);
		assert_true(readlinkat(dirfd, name, theirs, sizeof(theirs) - 1) > 0);
		assert_string_equal(ours, theirs);
	}
}

/* Compares what lies at fd (taken over) with a directory of the image; the number of entries. */
static inline size_t sqfs_unit_compare_dir(struct sqfs_image *img, uint64_t ref, int fd,
					   size_t step)
{
	_cleanup_(dir_closep) DIR *dp = fdopendir(fd);
	struct sqfs_inode inode, child;
	size_t n_theirs = 0, n_ours = 0, n = 0;
	struct sqfs_dirent ent;
	struct dirent *de;
	struct sqfs_dir d;
	int r;

	assert_non_null(dp);
	assert_int_equal(sqfs_inode_load(img, ref, &inode), 0);
	while ((de = readdir(dp))) {
		if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, ".."))
			continue;
		n_theirs++;
		assert_int_equal(sqfs_dir_find(img, &inode, de->d_name, &ent), 1);
		assert_string_equal(ent.name, de->d_name);
		assert_int_equal(sqfs_inode_load(img, ent.ref, &child), 0);
		assert_int_equal(child.number, ent.number);
		assert_int_equal(child.type, ent.type);
		sqfs_unit_compare_inode(img, &child, fd, de->d_name, step);
		if (ent.type == SQFS_TYPE_DIR)
			n += sqfs_unit_compare_dir(img, ent.ref, openat(fd, de->d_name, O_RDONLY),
						   step);
	}
	assert_int_equal(sqfs_dir_begin(&d, img, &inode, SQFS_DIR_START), 0);
	while ((r = sqfs_dir_read(&d, &ent)) == 1)
		n_ours++;
	sqfs_dir_end(&d);
	assert_int_equal(r, 0);
	assert_int_equal(n_ours, n_theirs);
	return n + n_ours;
}
