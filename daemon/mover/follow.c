#include "daemon/mover/follow.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "daemon/engines/copy/open-allowed.h"
#include "daemon/engines/copy/rule-patterns.h"
#include "daemon/mover/move.h"

struct follow {
	struct allowed allowed; /* the first member, because follow_free() gets it */
	char **rules;
	char real[PATH_MAX];
};

static int resolve(struct follow *f, int source_fd, struct error *err)
{
	char link[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", source_fd);
	n = readlink(link, f->real, sizeof(f->real));
	if (n < 0 || (size_t)n >= sizeof(f->real))
		return error_errno(err, n < 0 ? errno : ENAMETOOLONG, "open it");
	f->real[n] = '\0';
	return 0;
}

int follow_new(struct allowed **ap, const struct move_order *order, int source_fd,
	       struct error *err)
{
	struct follow *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return error_set(err, ENOMEM, "out of memory");
	r = rule_patterns_new(&f->rules, order->match ? order->match : "/**", err);
	if (r == 0)
		r = resolve(f, source_fd, err);
	if (r < 0) {
		follow_free(&f->allowed);
		return r;
	}
	f->allowed = (struct allowed){ .rules = f->rules,
				       .real = f->real,
				       .leave_out = "remove the link" };
	*ap = &f->allowed;
	return 0;
}

void follow_free(struct allowed *a)
{
	struct follow *f = (struct follow *)a;

	if (f)
		rule_patterns_free(f->rules);
	free(f);
}

void follow_count_dir(struct move *m, const struct walk_dir *dir)
{
	struct stat st;

	if (m->allowed && fstatat(dir->parent->fd, dir->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISLNK(st.st_mode))
		atomic_fetch_add(&m->followed, 1);
}

int follow_link(struct walk *w, struct walk_dir *dir, const char *name, int *fdp, struct stat *st,
		void *arg, struct error *err)
{
	char path[WALK_PATH_SIZE];
	struct move *m = arg;
	int r;

	walk_path(dir, name, path);
	r = allowed_open_link(m->allowed, walk_root(dir)->fd, dir->fd, name, path, fdp, st, err);
	if (r == 0 && S_ISREG(st->st_mode))
		atomic_fetch_add(&m->followed, 1);
	return r;
}
