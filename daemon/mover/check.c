#include "daemon/mover/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/path.h"
#include "daemon/mover/move.h"
#include "daemon/mover/place.h"
#include "daemon/mover/record.h"

struct check {
	struct place place;
	struct record_table *table;
	int source_fd, copy_fd; /* directories; -1: the source is a file, or cannot be seen */
	bool is_set;
	bool follow; /* a link counts as what it leads to */
	const char *why;
};

static void check_deinit(struct check *c)
{
	record_table_free(c->table);
	fd_closep(&c->source_fd);
	fd_closep(&c->copy_fd);
	place_close(&c->place);
}

static bool has_type(const struct record_entry *e, const struct stat *st)
{
	switch (e->type) {
	case 'd':
		return S_ISDIR(st->st_mode);
	case 'l':
		return S_ISLNK(st->st_mode);
	}
	return S_ISREG(st->st_mode);
}

static bool has_time(const struct record_entry *e, const struct stat *st)
{
	return e->seconds == st->st_mtim.tv_sec && e->nanoseconds == (uint32_t)st->st_mtim.tv_nsec;
}

/* Compares size and time of files only, because a file system may not be able to store the times of
 * directories and links. */
static bool is_as_copied(const struct record_entry *e, const struct stat *st)
{
	if (!has_type(e, st))
		return false;
	return e->type == 'd' || e->type == 'l' || record_entry_is(e, st);
}

static bool is_as_in_source(const struct record_entry *e, const struct stat *st)
{
	if (!has_type(e, st) || (e->type != 'l' && !record_entry_has_mode(e, st)))
		return false;
	return e->type == 'f' || e->type == 'h' ? record_entry_is(e, st) : has_time(e, st);
}

/* ---- a directory ---- */

/* In a set, a link to a file counts as the file. With links=follow, each link counts as what it
 * leads to. */
static bool check_entry(struct check *c, const struct record_entry *e)
{
	int flags = c->follow || (c->is_set && (e->type == 'f' || e->type == 'h'))
			    ? 0
			    : AT_SYMLINK_NOFOLLOW;
	struct stat st;

	if (fstatat(c->copy_fd, e->path, &st, AT_SYMLINK_NOFOLLOW) < 0 || !is_as_copied(e, &st)) {
		c->why = "something is missing in the copy";
		return false;
	}
	if (c->source_fd >= 0 &&
	    (fstatat(c->source_fd, e->path, &st, flags) < 0 || !is_as_in_source(e, &st))) {
		c->why = "the source has changed";
		return false;
	}
	return true;
}

static bool check_dir(struct check *c, const char *source)
{
	c->copy_fd = openat(c->place.fd, c->place.name,
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	c->source_fd = open(source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->copy_fd < 0) {
		c->why = "the copy is gone";
		return false;
	}
	for (const struct record_entry *e = c->table->last; e; e = e->below)
		if (!check_entry(c, e))
			return false;
	return true;
}

/* ---- a file ---- */

static bool check_file(struct check *c, const char *source)
{
	const struct record_entry *e = record_find(c->table, ".");
	struct stat st;

	if (!e || fstatat(c->place.fd, c->place.name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !is_as_copied(e, &st)) {
		c->why = "the copy is gone";
		return false;
	}
	if (stat(source, &st) == 0 && !is_as_in_source(e, &st)) {
		c->why = "the source has changed";
		return false;
	}
	return true;
}

/* ---- files and directories ---- */

static void touch(int dirfd, const char *path)
{
	static const struct timespec times[2] = { { .tv_nsec = UTIME_NOW },
						  { .tv_nsec = UTIME_OMIT } };

	utimensat(dirfd, path, times, AT_SYMLINK_NOFOLLOW);
}

static void touch_all(const struct check *c)
{
	touch(c->place.fd, PLACE_MANIFEST);
	touch(c->place.fd, c->place.name);
	for (const struct record_entry *e = c->table->last; e && c->copy_fd >= 0; e = e->below)
		touch(c->copy_fd, e->path);
}

/* top: the source, or the directory above a pattern. */
static int check_look(struct check *c, const char *source, const char *top, struct error *err)
{
	struct stat st;
	int r;

	if (fstatat(c->place.fd, PLACE_JOURNAL, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		c->why = "a mover has not ended its work";
		return 0;
	}
	if (errno != ENOENT) /* if the journal may exist, the copy does not count as complete */
		return error_errno(err, errno, "look at %s", PLACE_JOURNAL);
	r = record_load(&c->table, c->place.fd, PLACE_MANIFEST, CHECK_MAX_LINES, err);
	if (r == -E2BIG) {
		c->why = "there is too much in it to look at here";
		return 0;
	}
	if (r < 0)
		return r;
	if (!c->table->whole || strcmp(c->table->source, source)) {
		c->why = "there is no whole copy";
		return 0;
	}
	c->is_set = !strcmp(c->table->kind, "set");
	return c->is_set || !strcmp(c->table->kind, "dir") ? check_dir(c, top) : check_file(c, top);
}

int check_copy(const struct move_order *order, const char **whyp, struct error *err)
{
	_cleanup_(check_deinit) struct check c = {
		.place = PLACE_NONE, .follow = order->follow, .source_fd = -1, .copy_fd = -1
	};
	_cleanup_(freep) char *top = strndup(order->source, order->n_top);
	int r;

	if (!top)
		return error_set(err, ENOMEM, "out of memory");
	*whyp = "there is no whole copy";
	if (access(order->dir, F_OK) < 0 && errno == ENOENT)
		return 0;
	r = place_open(&c.place, order->dir, path_base(top), err);
	if (r == 0)
		r = check_look(&c, order->source, top, err);
	if (r > 0)
		touch_all(&c);
	if (c.why)
		*whyp = c.why;
	return r;
}
