/*
 * Examines one entry and measures the time. If it takes long and most files are small, a file is
 * opened and read at once, because this is the same request for the server, and the copy then needs
 * no other one.
 */
#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/fd.h"
#include "daemon/engines/copy/copy-file.h"
#include "daemon/engines/copy/walk-internal.h"
#include "daemon/engines/copy/walk-kept.h"

#define MEASURE_ONE_OF 8

/* Reads the content. Returns NULL if the file has changed since st was read. */
static char *read_whole(int fd, const struct stat *st)
{
	_cleanup_(freep) char *data = malloc((size_t)st->st_size + 1);
	struct stat now;

	if (!data || read(fd, data, (size_t)st->st_size + 1) != st->st_size ||
	    copy_file_look(fd, &now) < 0 || !copy_file_is_same(st, &now))
		return NULL;
	return steal_ptr(data);
}

/* Opens and reads a file instead of examining it. Returns false if fstatat() must be used, which
 * also gives the reason of a failure. */
static bool look_inside(struct walk *w, struct walk_dir *dir, const char *name, struct stat *st,
			char **datap)
{
	uint64_t before;
	_cleanup_(fd_closep) int fd = -1;

	before = clock_us();
	fd = openat(dir->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	walk_note_wait(w, (clock_us() - before) / 2, 1); /* two requests: look-up and open */
	if (fd < 0 || fstat(fd, st) < 0 || !S_ISREG(st->st_mode))
		return false;
	if (st->st_size <= WALK_KEPT_SMALL && st->st_nlink == 1 && !copy_file_is_sparse(st))
		*datap = read_whole(fd, st);
	return true;
}

bool walk_should_measure(struct walk *w)
{
	static _Thread_local unsigned n;

	return atomic_load_explicit(&w->suspect, memory_order_relaxed) || n++ % MEASURE_ONE_OF == 0;
}

void walk_note_wait(struct walk *w, uint64_t us, unsigned n_units)
{
	size_t n = copy_concurrency_note(&w->pace, us, n_units);

	/* If only one of eight operations was measured, it took a quarter of a second on a slow
	 * source until there were more threads. */
	if (us > WALK_SLOW_US)
		atomic_store_explicit(&w->suspect, true, memory_order_relaxed);
	if (n == 0)
		return;
	atomic_store(&w->slow, true);
	workq_grow(w->q, n);
}

int walk_look(struct walk *w, struct walk_dir *dir, const char *name, unsigned char type,
	      struct stat *st, char **datap)
{
	bool measure = walk_should_measure(w);
	uint64_t before = measure ? clock_us() : 0;

	*datap = NULL;
	if (w->keeping && type == DT_REG && atomic_load(&w->slow) &&
	    walk_kept_wants_data(dir->kept) && look_inside(w, dir, name, st, datap))
		return 0;
	if (fstatat(dir->fd, name, st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
		return -errno;
	if (measure)
		walk_note_wait(w, clock_us() - before, 1);
	return 0;
}
