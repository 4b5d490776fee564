#include "tests/fuzz/scratch-tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "tests/fuzz/fuzz.h"

/* The same numbers on all architectures; older headers lack them. */
#define NR_FSOPEN 430
#define NR_FSCONFIG 431
#define NR_FSMOUNT 432

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

int scratch_tree_open(void)
{
	_cleanup_(fd_closep) int fs = (int)syscall(NR_FSOPEN, "tmpfs", FSOPEN_CLOEXEC);
	_cleanup_(fd_closep) int mount = -1;
	int top;

	if (fs < 0 || syscall(NR_FSCONFIG, fs, FSCONFIG_SET_STRING, "mode", "0755", 0) < 0 ||
	    syscall(NR_FSCONFIG, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	mount = (int)syscall(NR_FSMOUNT, fs, FSMOUNT_CLOEXEC, 0);
	if (mount < 0)
		return -errno;
	top = openat(mount, ".", DIR_FLAGS);
	return top < 0 ? -errno : top;
}

/* For each name in dir, which stays the caller's. A DIR takes four times as long. */
static void for_each(int dir, void (*fn)(void *arg, int dir, const char *name), void *arg)
{
	char buf[4096] __attribute__((aligned(8)));
	const struct dirent64 *e;
	ssize_t n;

	FUZZ_CHECK(lseek(dir, 0, SEEK_SET) == 0);
	while ((n = getdents64(dir, buf, sizeof(buf))) > 0)
		for (ssize_t at = 0; at < n; at += e->d_reclen) {
			e = (const struct dirent64 *)(buf + at);
			if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
				fn(arg, dir, e->d_name);
		}
	FUZZ_CHECK(n == 0);
}

static void remove_one(void *arg, int dir, const char *name)
{
	_cleanup_(fd_closep) int fd = openat(dir, name, DIR_FLAGS);

	if (fd >= 0)
		for_each(fd, remove_one, NULL);
	FUZZ_CHECK(unlinkat(dir, name, fd >= 0 ? AT_REMOVEDIR : 0) == 0);
}

void scratch_tree_empty(int top)
{
	for_each(top, remove_one, NULL);
}

static void make_above(int top, const char *path)
{
	char part[400];

	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		FUZZ_CHECK(snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path) <
			   (int)sizeof(part));
		FUZZ_CHECK(mkdirat(top, part, 0755) == 0 || errno == EEXIST);
	}
}

static void make_file(int top, const char *path, const char *text)
{
	_cleanup_(fd_closep) int fd = openat(top, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
					     0600);
	const size_t n = strlen(text);

	FUZZ_CHECK(fd >= 0 && write(fd, text, n) == (ssize_t)n);
}

static void make_one(int top, const struct scratch_entry *e)
{
	static const struct timespec old[2] = { { 1, 0 }, { 1, 0 } };
	const char *path = e->path + 1, *text = e->text ? e->text : "";

	make_above(top, path);
	if (S_ISDIR(e->mode))
		FUZZ_CHECK(mkdirat(top, path, 0700) == 0);
	else if (S_ISLNK(e->mode))
		FUZZ_CHECK(symlinkat(text, top, path) == 0);
	else
		make_file(top, path, text);
	FUZZ_CHECK(fchownat(top, path, e->uid, e->uid, AT_SYMLINK_NOFOLLOW) == 0);
	FUZZ_CHECK(S_ISLNK(e->mode) || fchmodat(top, path, e->mode & 07777, 0) == 0);
	FUZZ_CHECK(utimensat(top, path, old, AT_SYMLINK_NOFOLLOW) == 0);
}

void scratch_tree_fill(int top, const struct scratch_entry *entries, size_t n)
{
	for (size_t i = 0; i < n; i++)
		make_one(top, &entries[i]);
}

struct reader {
	struct scratch_list *list;
	const char *path; /* of the directory that is read */
	bool is_safe;	  /* that directory */
};

static void read_one(void *arg, int dir, const char *name)
{
	const struct reader *r = arg;
	struct scratch_file *f = &r->list->files[r->list->n];
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;

	FUZZ_CHECK(r->list->n++ < SCRATCH_TREE_MAX);
	FUZZ_CHECK(fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0);
	FUZZ_CHECK(snprintf(f->path, sizeof(f->path), "%s/%s", r->path, name) <
		   (int)sizeof(f->path));
	f->ino = st.st_ino;
	f->mode = st.st_mode;
	f->uid = st.st_uid;
	f->gid = st.st_gid;
	f->size = S_ISDIR(st.st_mode) ? 0 : st.st_size;
	f->nlink = S_ISDIR(st.st_mode) ? 0 : st.st_nlink;
	f->changed = S_ISDIR(st.st_mode) ? 0 : st.st_mtime;
	f->is_safe = r->is_safe && S_ISDIR(st.st_mode) && st.st_uid == 0 && !(st.st_mode & 022);
	if (!S_ISDIR(st.st_mode))
		return;
	fd = openat(dir, name, DIR_FLAGS);
	FUZZ_CHECK(fd >= 0);
	for_each(fd, read_one, &(struct reader){ r->list, f->path, f->is_safe });
}

void scratch_tree_read(int top, struct scratch_list *list)
{
	list->n = 0;
	for_each(top, read_one, &(struct reader){ list, "", true });
}
