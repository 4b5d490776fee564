/*
 * mksquashfs packs links as links. Targets outside the directory are then not in the image, and the
 * user notices this only when a job cannot read them. Types come with the names (readdir(3)), so a
 * tree without links costs its listing alone.
 */
#include "client/pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/path.h"

#define MAX_DEPTH 256

struct finder {
	struct pack_links *links;
	char path[PATH_MAX]; /* of the directory that is being read, relative to the top */
};

static void look_at_link(struct finder *f, int dirfd, const char *name)
{
	char to[PATH_MAX] = "";

	if (readlinkat(dirfd, name, to, sizeof(to) - 1) < 0 || !path_leads_out(f->path, to))
		return;
	if (f->links->n++ == 0)
		snprintf(f->links->first, sizeof(f->links->first), "%.500s%s%.250s -> %.250s",
			 f->path, *f->path ? "/" : "", name, to);
}

static unsigned char get_type(int dirfd, const struct dirent *e)
{
	struct stat st;

	if (e->d_type != DT_UNKNOWN)
		return e->d_type;
	if (fstatat(dirfd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return DT_UNKNOWN;
	if (S_ISDIR(st.st_mode))
		return DT_DIR;
	return S_ISLNK(st.st_mode) ? DT_LNK : DT_REG;
}

static void look_in(struct finder *f, int at, const char *name, unsigned depth);

static void look_below(struct finder *f, int dirfd, const char *name, unsigned depth)
{
	const size_t n = strlen(f->path);

	if (n + strlen(name) + 2 > sizeof(f->path))
		return;
	if (n > 0)
		strcat(f->path, "/");
	strcat(f->path, name);
	look_in(f, dirfd, name, depth + 1);
	f->path[n] = '\0';
}

/* Counts the links in a directory. Skips unreadable directories, which mksquashfs refuses later. */
static void look_in(struct finder *f, int at, const char *name, unsigned depth)
{
	const int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_(dir_closep) DIR *dir = fd < 0 || depth > MAX_DEPTH ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!dir && fd >= 0)
		close(fd);
	while (dir && (e = readdir(dir))) {
		const unsigned char type = get_type(fd, e);

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (type == DT_LNK)
			look_at_link(f, fd, e->d_name);
		if (type == DT_DIR)
			look_below(f, fd, e->d_name, depth);
	}
}

void pack_links_count(struct pack_links *links, const char *dir)
{
	struct finder f = { .links = links };

	*links = (struct pack_links){ 0 };
	look_in(&f, AT_FDCWD, dir, 0);
}
