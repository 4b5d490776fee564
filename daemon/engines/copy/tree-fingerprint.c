#include "daemon/engines/copy/tree-fingerprint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/beneath.h"
#include "common/util/fnv.h"
#include "daemon/engines/copy/walk.h"

/* Mixes the bits of a hash. The hashes are added up, so each bit must be good. */
static uint64_t mix(uint64_t h)
{
	h = (h ^ h >> 33) * 0xff51afd7ed558ccdULL;
	h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53ULL;
	return h ^ h >> 33;
}

static uint64_t fingerprint(const char *path, const struct stat *st, bool renamed)
{
	const uint64_t facts[] = {
		S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size,
		/* the mode may have been set after the renaming */
		renamed ? st->st_mode & S_IFMT : st->st_mode,
		st->st_ino,
		(uint64_t)st->st_mtim.tv_sec,
		(uint64_t)st->st_mtim.tv_nsec,
		renamed ? 0 : (uint64_t)st->st_ctim.tv_sec,
		renamed ? 0 : (uint64_t)st->st_ctim.tv_nsec,
	};

	return mix(fnv_add(fnv_add(FNV_INIT, path, strlen(path) + 1), facts, sizeof(facts)));
}

uint64_t tree_fingerprint(const char *path, const struct stat *st)
{
	return fingerprint(path, st, false);
}

struct printing {
	int (*is_over)(void *arg);
	void *arg;
	uint64_t sum;
	unsigned depth;
	char path[WALK_PATH_SIZE];
};

static int print_dir(struct printing *p, int at, const char *name, size_t length);

static int print_entry(struct printing *p, int dirfd, const char *name, size_t length)
{
	struct stat st;
	int n;

	if (p->is_over(p->arg))
		return -ECANCELED;
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	n = snprintf(p->path + length, sizeof(p->path) - length, "/%s", name);
	if (n < 0 || length + (size_t)n >= sizeof(p->path))
		return -ENAMETOOLONG;
	p->sum += tree_fingerprint(p->path, &st);
	return S_ISDIR(st.st_mode) ? print_dir(p, dirfd, name, length + (size_t)n) : 0;
}

static int print_dir(struct printing *p, int at, const char *name, size_t length)
{
	_cleanup_(dir_closep) DIR *dir = fd_open_dir(at, name);
	struct dirent *d;
	int r = 0;

	if (!dir)
		return -errno;
	if (++p->depth > WALK_MAX_DEPTH)
		return -ELOOP;
	while (r == 0 && (errno = 0, d = readdir(dir)))
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			r = print_entry(p, dirfd(dir), d->d_name, length);
	p->depth--;
	return r < 0 ? r : -errno;
}

int tree_fingerprint_all(int dirfd, const char *name, int (*is_over)(void *arg), void *arg,
			 uint64_t *fingerprintp)
{
	struct printing p = { .is_over = is_over, .arg = arg };
	struct stat st;
	int r = 0;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return -EINVAL;
	if (S_ISDIR(st.st_mode))
		r = print_dir(&p, dirfd, name, 0);
	*fingerprintp = p.sum + fingerprint("", &st, true);
	return r;
}
