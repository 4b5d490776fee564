/*
 * Movers are submitted by sbatch, like the jobs that wait for them. So the site's filters, defaults
 * and accounts apply to them as to any job, and stagectl does not link libslurm, which changes with
 * each release. The mover's environment has no setting of Slurm and none of ours: --stage-data of
 * the job does not apply to the mover.
 */
#include "client/submit-mover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/capture.h"
#include "client/cmd.h"
#include "client/mover-look.h"
#include "client/output.h"
#include "client/submit-copy.h"
#include "client/submit-script.h"
#include "common/config/conf.h"
#include "common/dataset/dataset.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/parse.h"
#include "common/util/strutil.h"

#define SQUEUE_MS 60000
#define LOCK ".stage-submit"

/* ---- directories ---- */

static int make_dirs(const char *path, struct error *err)
{
	_cleanup_(freep) char *part = strdup(path);

	if (!part)
		return error_set(err, ENOMEM, "out of memory");
	for (char *p = strchr(part + 1, '/');; p = strchr(p + 1, '/')) {
		if (p)
			*p = '\0';
		if (mkdir(part, 0700) < 0 && errno != EEXIST && errno != EROFS &&
		    (errno != EACCES || access(part, F_OK) < 0))
			return error_errno(err, errno, "make directory %s", part);
		if (!p)
			return 0;
		*p = '/';
	}
}

/* Refuses a base that other users could change: they could replace a copy. */
static int check_own(const char *base, struct error *err)
{
	struct stat st;

	if (lstat(base, &st) < 0)
		return error_errno(err, errno, "%s", base);
	if (S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022))
		return 0;
	return error_exit(err, STAGE_EXIT_REFUSED, EPERM,
			  "%s is no directory of yours alone; "
			  "remove it, or chmod go-w it",
			  base);
}

_Static_assert(MOVER_MAX_JOBS >= DATASET_MAX_ITEMS, "a copy needs a mover and a lock at most");

/* A file that is locked. Device and inode identify it, because two bases may be one directory. */
struct lock {
	int fd;
	dev_t dev;
	ino_t ino;
};

struct locks {
	struct lock items[MOVER_MAX_JOBS];
	size_t n;
};

static void locks_deinit(struct locks *l)
{
	while (l->n > 0)
		close(l->items[--l->n].fd);
}

static int open_lock(const char *base, struct locks *l, struct error *err)
{
	struct lock *lock = &l->items[l->n];
	_cleanup_(freep) char *path = NULL;
	struct stat st;

	path = strutil_printf("%s/" LOCK, base);
	if (!path)
		return error_set(err, ENOMEM, "out of memory");
	lock->fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (lock->fd < 0)
		return error_errno(err, errno, "open %s", path);
	l->n++;
	if (fstat(lock->fd, &st) < 0)
		return error_errno(err, errno, "stat %s", path);
	lock->dev = st.st_dev;
	lock->ino = st.st_ino;
	return 0;
}

static int compare_locks(const void *a, const void *b)
{
	const struct lock *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return (x->ino > y->ino) - (x->ino < y->ino);
}

/* On a file system without locks, two submissions may submit a mover each. Then the second mover
 * waits for the first one. */
static int take_lock(const struct lock *lock, struct error *err)
{
	while (flock(lock->fd, LOCK_EX) < 0) {
		if (errno == ENOSYS || errno == EOPNOTSUPP || errno == ENOLCK)
			return 0;
		if (errno != EINTR)
			return error_errno(err, errno, "lock " LOCK);
	}
	return 0;
}

/* Locks all bases until the movers are submitted, because two submissions at the same time would
 * not see each other's movers. Each file is locked once, and in the same order by all submissions,
 * so they cannot block each other. */
static int lock_bases(const struct submit_copies *copies, struct locks *l, struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < copies->n_items && r == 0; i++)
		r = open_lock(copies->items[i].base, l, err);
	if (r == 0)
		qsort(l->items, l->n, sizeof(*l->items), compare_locks);
	for (size_t i = 0; i < l->n && r == 0; i++)
		if (i == 0 || compare_locks(&l->items[i], &l->items[i - 1]) != 0)
			r = take_lock(&l->items[i], err);
	return r;
}

static void add_job(struct mover_jobs *jobs, uint32_t id, bool is_new)
{
	for (size_t i = 0; i < jobs->n_jobs; i++)
		if (jobs->ids[i] == id)
			return;
	jobs->ids[jobs->n_jobs] = id;
	jobs->is_new[jobs->n_jobs++] = is_new;
}

/* Handles the copies that need no new mover. For the others, open[i] stays true. */
static int submit_mover_look(struct mover_jobs *jobs, struct submit_copies *copies, bool *open,
			     struct error *err)
{
	_cleanup_(mover_list_deinit) struct mover_list list = { 0 };
	int r = mover_list_read(&list, err);

	for (size_t i = 0; i < copies->n_items && r == 0; i++) {
		struct submit_copy *c = &copies->items[i];
		const struct mover_entry *e = mover_list_find(&list, c->key);
		char state[256];

		if (e) {
			c->job_id = e->id;
			output_error("%s: mover job %u copies it already, %s", c->name,
				     (unsigned)e->id,
				     mover_entry_to_string(e, state, sizeof(state)));
			add_job(jobs, e->id, false);
		} else if (mover_copy_is_whole(c, NULL)) {
			output_error("%s: its copy in %s is complete and is used", c->name, c->dir);
		} else {
			open[i] = true;
			r = make_dirs(c->dir, err);
		}
	}
	return r;
}

static void submit_mover_tell(const struct submit_copies *copies, uint32_t id)
{
	for (size_t i = 0; i < copies->n_items; i++) {
		const struct submit_copy *c = &copies->items[i];

		if (c->job_id == id)
			output_error("%s: mover job %u (partition %s) copies %s to %s; its log: "
				     "%s/mover-%u.log",
				     c->name, (unsigned)id, c->rule->mover_partition, c->source,
				     c->dir, c->base, (unsigned)id);
	}
}

/* Submits one mover for all open copies that use the same partition as copy `first`. */
static int submit_next(struct mover_jobs *jobs, struct submit_copies *copies, bool *open,
		       size_t first, const char *account, struct error *err)
{
	const struct submit_copy *all[MOVER_MAX_JOBS];
	uint32_t id;
	size_t n = 0;
	int r;

	for (size_t i = first; i < copies->n_items && n < MOVER_MAX_JOBS; i++)
		if (open[i] && !strcmp(copies->items[i].rule->mover_partition,
				       copies->items[first].rule->mover_partition))
			all[n++] = &copies->items[i];
	r = submit_script_run(all, n, account, &id, err);
	if (r < 0)
		return r;
	for (size_t i = first; i < copies->n_items; i++)
		for (size_t k = 0; k < n; k++)
			if (all[k] == &copies->items[i]) {
				copies->items[i].job_id = id;
				open[i] = false;
			}
	add_job(jobs, id, true);
	submit_mover_tell(copies, id);
	return 0;
}

/* Makes sure that only one mover copies a source that is listed twice. */
static void close_twins(const struct submit_copies *copies, bool *open)
{
	for (size_t i = 0; i < copies->n_items; i++)
		for (size_t k = 0; k < i; k++)
			if (open[k] && !strcmp(copies->items[i].key, copies->items[k].key))
				open[i] = false;
}

static int make_bases(const struct submit_copies *copies, struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < copies->n_items && r == 0; i++) {
		r = make_dirs(copies->items[i].base, err);
		if (r == 0)
			r = check_own(copies->items[i].base, err);
	}
	return r;
}

int mover_bring(struct mover_jobs *jobs, struct submit_copies *copies, const char *account,
		struct error *err)
{
	_cleanup_(freep) bool *open = calloc(copies->n_items + 1, sizeof(*open));
	_cleanup_(locks_deinit) struct locks locks = { 0 };
	int r;

	*jobs = (struct mover_jobs){ 0 };
	if (!open)
		return error_set(err, ENOMEM, "out of memory");
	r = make_bases(copies, err);
	if (r == 0)
		r = lock_bases(copies, &locks, err);
	if (r == 0)
		r = submit_mover_look(jobs, copies, open, err);
	close_twins(copies, open);
	for (size_t i = 0; i < copies->n_items && r == 0; i++)
		if (open[i])
			r = submit_next(jobs, copies, open, i, account, err);
	if (r < 0)
		mover_cancel(jobs);
	return r;
}

void mover_cancel(const struct mover_jobs *jobs)
{
	for (size_t i = 0; i < jobs->n_jobs; i++) {
		_cleanup_(freep) char *text = NULL;
		char id[16];
		const char *const argv[] = { "scancel", id, NULL };

		snprintf(id, sizeof(id), "%u", (unsigned)jobs->ids[i]);
		if (jobs->is_new[i] && capture_run(argv, SQUEUE_MS, &text) == 0)
			output_error("mover job %s is cancelled", id);
	}
}

char *mover_make_dependency(const struct mover_jobs *jobs, const char *users)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	fputs("afterok", f);
	for (size_t i = 0; i < jobs->n_jobs; i++)
		fprintf(f, ":%u", (unsigned)jobs->ids[i]);
	if (users && *users)
		fprintf(f, ",%s", users);
	if (ferror(f) | fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}
