#include "common/util/root-path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/util/cleanup.h"

#define MAX_LINKS 8
#define WALK_FLAGS (O_PATH | O_NOFOLLOW | O_CLOEXEC)

struct walk {
	int fd;	   /* the current directory */
	dev_t dev; /* of fd; 0: the next directory is the caller's own root. It is not checked: a
		    * user can mount it only in a namespace of his own, where /proc is his, too */
	int n_links;
	char rest[PATH_MAX];
};

/* Refuses FUSE file systems of users. Their server could claim that all files belong to root, and
 * could let the caller wait. The kernel knows the user who mounted it: the options are the last
 * field, and users cannot change them. Returns 0 or -EPERM. */
static int check_server(dev_t dev)
{
	_cleanup_(file_closep) FILE *f = fopen("/proc/self/mountinfo", "re");
	_cleanup_(freep) char *line = NULL;
	unsigned major, minor;
	size_t size = 0;

	while (f && getline(&line, &size, f) > 0)
		if (sscanf(line, "%*d %*d %u:%u", &major, &minor) == 2 &&
		    makedev(major, minor) == dev && strstr(line, " - fuse") &&
		    !strstr(strrchr(line, ' '), "user_id=0,"))
			return -EPERM;
	return f && feof(f) ? 0 : -EPERM;
}

/* Returns 0 for a directory that only root can change, 1 for a link of root, or -errno. */
static int look(struct walk *w, int fd)
{
	const dev_t before = w->dev;
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_MODE | STATX_UID,
		  &st) < 0)
		return -errno;
	if (st.stx_uid != 0)
		return -EPERM;
	if (S_ISLNK(st.stx_mode))
		return 1;
	if (!S_ISDIR(st.stx_mode))
		return -ENOTDIR;
	w->dev = makedev(st.stx_dev_major, st.stx_dev_minor);
	if (st.stx_mode & 022)
		return -EPERM;
	return before == 0 || w->dev == before ? 0 : check_server(w->dev);
}

static int go_to_root(struct walk *w)
{
	fd_closep(&w->fd);
	w->dev = 0;
	w->fd = open("/", WALK_FLAGS | O_DIRECTORY);
	return w->fd < 0 ? -errno : look(w, w->fd);
}

/* Puts the target of a link before the rest of the path. */
static int follow(struct walk *w, int link)
{
	char text[PATH_MAX], rest[PATH_MAX];
	ssize_t n = readlinkat(link, "", text, sizeof(text) - 1);

	if (n <= 0)
		return n < 0 ? -errno : -ENOENT;
	if (++w->n_links > MAX_LINKS)
		return -ELOOP;
	text[n] = '\0';
	if (snprintf(rest, sizeof(rest), "%s/%s", text, w->rest) >= (int)sizeof(rest))
		return -ENAMETOOLONG;
	strcpy(w->rest, rest);
	return *text == '/' ? go_to_root(w) : 0;
}

static int enter(struct walk *w, const char *name)
{
	_cleanup_(fd_closep) int fd = openat(w->fd, name, WALK_FLAGS);
	int r = fd < 0 ? -errno : look(w, fd);

	if (r == 1)
		return follow(w, fd);
	if (r < 0)
		return r;
	fd_closep(&w->fd);
	w->fd = steal_fd(&fd);
	return 0;
}

/* Takes the first name from the rest. Returns false if there is none. */
static bool take_name(struct walk *w, char name[static PATH_MAX])
{
	const char *begin = w->rest + strspn(w->rest, "/");
	const size_t n = strcspn(begin, "/");

	snprintf(name, PATH_MAX, "%.*s", (int)n, begin);
	memmove(w->rest, begin + n, strlen(begin + n) + 1);
	return *name;
}

bool root_path_climbs(const char *path)
{
	for (const char *p = path; (p = strstr(p, "/..")); p += 3)
		if (p[3] == '/' || p[3] == '\0')
			return true;
	return false;
}

int root_path_open(const char *path)
{
	struct walk w = { .fd = -1 };
	char name[PATH_MAX]; /* the kernel refuses a name that is too long */
	int r = *path == '/' && !root_path_climbs(path) ? go_to_root(&w) : -EPERM;

	if (snprintf(w.rest, sizeof(w.rest), "%s", path) >= (int)sizeof(w.rest))
		r = -ENAMETOOLONG;
	while (r == 0 && take_name(&w, name))
		r = enter(&w, name);
	if (r < 0)
		fd_closep(&w.fd);
	return r < 0 ? r : w.fd;
}

int root_path_open_above(const char *path, const char **namep)
{
	const char *name = strrchr(path, '/');
	char above[PATH_MAX];

	if (!name || !name[1] || strcmp(name, "/.") == 0 || strcmp(name, "/..") == 0)
		return -EPERM;
	if (snprintf(above, sizeof(above), "%.*s/", (int)(name - path), path) >= (int)sizeof(above))
		return -ENAMETOOLONG;
	*namep = name + 1;
	return root_path_open(above);
}
