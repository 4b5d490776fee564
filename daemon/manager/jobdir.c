#include "daemon/manager/jobdir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "common/util/error.h"
#include "common/util/log.h"
#include "daemon/manager/privops.h"
#include "daemon/manager/state.h"

#define LOCK_POLL_US 10000

static int do_lock(const struct jobdir *d, enum privop_lock how)
{
	return privops_do_name(PRIVOP_LOCK, d->dir, 0, how, 0, 0);
}

void jobdir_unlock(const struct jobdir *d)
{
	if (d->dir)
		(void)do_lock(d, PRIVOP_LOCK_FREE);
}

void jobdir_deinit(struct jobdir *d)
{
	fd_closep(&d->fd);
	if (d->dir)
		privops_do_name(PRIVOP_CLOSE_DIR, d->dir, 0, 0, 0, 0);
	d->dir = 0;
}

int jobdir_open_base(bool trash, struct error *err)
{
	const char *name = trash ? STAGE_RUN_DIR "/" RUNDIR_TRASH : STAGE_RUN_DIR;
	int r = privops_open(PRIVOP_OPEN_BASE, trash ? PRIVOP_DIR_TRASH : PRIVOP_DIR_RUN, 0);

	if (r == -EPERM)
		return error_set(err, EPERM,
				 "%s: must belong to root and be writable by nobody else", name);
	return r < 0 ? error_errno(err, -r, "make or open %s", name) : r;
}

static uint32_t get_parent(const struct jobdir_id *id)
{
	return id->in_trash ? PRIVOP_DIR_TRASH : PRIVOP_DIR_RUN;
}

static uint32_t get_name(const struct jobdir_id *id)
{
	return id->aside_ms ? PRIVOP_NAME_JOB_ASIDE : PRIVOP_NAME_JOB;
}

int jobdir_create(struct jobdir *d, uint32_t job_id, struct error *err)
{
	const struct jobdir_id id = { .job_id = job_id };
	int r = privops_do_name(PRIVOP_MAKE_DIR, PRIVOP_DIR_RUN, PRIVOP_NAME_JOB, job_id, 0, 0);

	if (r < 0)
		return error_errno(err, -r, "make %s/%u", STAGE_RUN_DIR, job_id);
	return jobdir_open(d, &id, err);
}

int jobdir_open(struct jobdir *d, const struct jobdir_id *id, struct error *err)
{
	struct privop a = { .kind = PRIVOP_OPEN_DIR,
			    .dir = get_parent(id),
			    .name = get_name(id),
			    .n = { id->job_id, (int64_t)id->aside_ms } };
	size_t n = 1;
	int fd = -1, r = privops_do(&a, &fd, &n);

	if (r < 0)
		return r == -ENOENT ? JOBDIR_E_GONE
				    : error_errno(err, -r, "open %s/%u", STAGE_RUN_DIR, id->job_id);
	*d = (struct jobdir){ *id, (uint32_t)r, fd, a.uid, a.gid };
	return 0;
}

int jobdir_check_place(const struct jobdir *d, struct error *err)
{
	struct privop a = { .kind = PRIVOP_CHECK_DIR,
			    .dir = get_parent(&d->id),
			    .dir2 = d->dir,
			    .name = get_name(&d->id),
			    .n = { d->id.job_id, (int64_t)d->id.aside_ms } };
	int r = privops_do(&a, NULL, NULL);

	if (r < 0)
		return error_errno(err, -r, "look at %u", d->id.job_id);
	return r ? JOBDIR_E_GONE : 0;
}

int jobdir_lock(const struct jobdir *d, uint64_t deadline_ms, struct error *err)
{
	int r;

	while ((r = do_lock(d, PRIVOP_LOCK_TAKE)) < 0) {
		if (r == -ENOENT)
			return JOBDIR_E_GONE;
		if (r != -EBUSY)
			return error_errno(err, -r, "lock %u", d->id.job_id);
		r = jobdir_check_place(d, err);
		if (r != 0)
			return r;
		if (clock_ms() >= deadline_ms)
			return error_set(err, EBUSY, "job %u: its keeper lives", d->id.job_id);
		usleep(LOCK_POLL_US);
	}
	return jobdir_check_place(d, err);
}

int jobdir_trash(struct jobdir *d, struct error *err)
{
	_cleanup_(fd_closep) int trash = jobdir_open_base(true, err);
	const uint64_t ms = clock_ms();
	int r = trash < 0 ? trash : jobdir_check_place(d, err);

	if (r != 0)
		return r < 0 ? r : 0;
	r = privops_rename(get_parent(&d->id), get_name(&d->id), PRIVOP_DIR_TRASH,
			   PRIVOP_NAME_JOB_ASIDE, d->id.job_id, (int64_t)ms);
	if (r < 0)
		return r == -ENOENT
			       ? 0
			       : error_errno(err, -r, "move %u to %s", d->id.job_id, RUNDIR_TRASH);
	d->id.in_trash = true;
	d->id.aside_ms = ms;
	return 0;
}

int jobdir_remove(const struct jobdir *d, enum privop_name name, uint32_t slot, struct error *err)
{
	int r = privops_do_name(PRIVOP_REMOVE, d->dir, name, slot, 0, 0);

	return r == 0 || r == -ENOENT
		       ? 0
		       : error_errno(err, -r, "remove name %u of job %u", name, d->id.job_id);
}

int jobdir_remove_itself(const struct jobdir *d, struct error *err)
{
	int r = privops_do_name(PRIVOP_REMOVE, get_parent(&d->id), get_name(&d->id), d->id.job_id,
				(int64_t)d->id.aside_ms, 0);

	return r == 0 || r == -ENOENT
		       ? 0
		       : error_errno(err, -r, "remove the directory of job %u", d->id.job_id);
}

int jobdir_read_text(const struct jobdir *d, enum privop_file file, char *buf, size_t size)
{
	_cleanup_(fd_closep) int fd = privops_open(PRIVOP_OPEN_FILE, d->dir, file);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = read(fd, buf, size - 1);
	if (n < 0)
		return -errno;
	buf[n] = '\0';
	return (int)n;
}

/* A manager has written the record, but root has written the mark. If they differ, the mark
 * counts. */
static void believe_root(const struct jobdir *d, struct state *st)
{
	static uint32_t told;

	if (!d->uid || (st->uid == d->uid && st->gid == d->gid))
		return;
	if (told != d->id.job_id)
		log_warning("the record of job %u says uid %u, gid %u, but root made its directory "
			    "for uid %u, gid %u: using the latter",
			    d->id.job_id, st->uid, st->gid, d->uid, d->gid);
	told = d->id.job_id;
	st->uid = d->uid;
	st->gid = d->gid;
}

int jobdir_read_state(const struct jobdir *d, struct state *st)
{
	_cleanup_(fd_closep) int fd = privops_open(PRIVOP_OPEN_FILE, d->dir, PRIVOP_FILE_STATE);
	int r;

	memset(st, 0, sizeof(*st));
	r = fd < 0 ? fd : state_read(fd, st);
	if (r == 0)
		believe_root(d, st);
	return r;
}

int jobdir_write_state(const struct jobdir *d, const struct state *st)
{
	_cleanup_(freep) char *text = NULL;
	size_t size;
	int r = state_print(st, &text, &size);

	if (r == 0)
		r = privops_write(d->dir, PRIVOP_FILE_STATE_NEW, text, size);
	return r < 0 ? r
		     : privops_rename(d->dir, PRIVOP_NAME_STATE_NEW, d->dir, PRIVOP_NAME_STATE, 0,
				      0);
}

void jobdir_find_owner(const struct jobdir *d, struct state *st)
{
	struct statx s;

	st->uid = d->uid ?: st->uid;
	st->gid = d->uid ? d->gid : st->gid;
	if (d->uid || statx(d->fd, RUNDIR_SOCK, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC,
			    STATX_UID | STATX_GID, &s) < 0)
		return;
	st->uid = s.stx_uid;
	st->gid = s.stx_gid;
}

/* Parses the name <job>, or in .trash also <job>.<ms>. */
static bool read_name(struct jobdir_id *id, const char *name)
{
	static const char digits[] = "0123456789";
	const size_t n = strspn(name, digits);
	const char *ms = name + n + 1;

	if (!n || (name[n] && (!id->in_trash || name[n] != '.' || !*ms || ms[strspn(ms, digits)])))
		return false;
	id->job_id = (uint32_t)strtoul(name, NULL, 10);
	id->aside_ms = name[n] ? strtoull(ms, NULL, 10) : 0;
	return true;
}

struct list {
	struct jobdir_id *ids;
	size_t n;
};

static void list_deinit(struct list *l)
{
	free(l->ids);
}

static int add_id(struct list *l, const struct jobdir_id *id)
{
	struct jobdir_id *ids = reallocarray(l->ids, l->n + 1, sizeof(*ids));

	if (!ids)
		return -ENOMEM;
	l->ids = ids;
	ids[l->n++] = *id;
	return 0;
}

/* Adds the jobs' directories among the entries that getdents64(2) returned. Returns 0 or -errno. */
static int add_entries(struct list *l, bool trash, const char *entries, size_t size)
{
	struct jobdir_id id = { .in_trash = trash };
	unsigned short n;
	int r = 0;

	for (const char *e = entries; r == 0 && e < entries + size; e += n) {
		memcpy(&n, e + offsetof(struct dirent, d_reclen), sizeof(n));
		if (read_name(&id, e + offsetof(struct dirent, d_name)))
			r = add_id(l, &id);
	}
	return r;
}

/* Reads the whole list before anything is done with it: fn may move and remove entries, and may
 * read a list, too. */
static int read_list(struct list *l, bool trash)
{
	struct privop a = { .kind = PRIVOP_LIST,
			    .dir = trash ? PRIVOP_DIR_TRASH : PRIVOP_DIR_RUN,
			    .n = { 1 } };
	int r;

	while ((r = privops_do(&a, NULL, NULL)) > 0) {
		r = add_entries(l, trash, a.text, (size_t)r);
		if (r < 0)
			return r;
		a.n[0] = 0;
	}
	return r;
}

int jobdir_for_each(int (*fn)(void *arg, const struct jobdir_id *id), void *arg, struct error *err)
{
	int r = 0;

	for (int trash = 0; r >= 0 && trash < 2; trash++) {
		_cleanup_(fd_closep) int fd = jobdir_open_base(trash, err);
		_cleanup_(list_deinit) struct list l = { 0 };

		r = fd < 0 ? fd : read_list(&l, trash);
		if (fd >= 0 && r < 0)
			r = error_errno(err, -r, "list %s", STAGE_RUN_DIR);
		for (size_t i = 0; r >= 0 && i < l.n; i++)
			r = fn(arg, &l.ids[i]);
	}
	return r < 0 ? r : 0;
}

/* Returns -EBUSY if the directory was moved aside, still has its tmpfs, and is locked. */
static int look_for_memory(void *arg, const struct jobdir_id *id)
{
	_cleanup_(jobdir_deinit) struct jobdir d = JOBDIR_INIT;

	if (!id->aside_ms || jobdir_open(&d, id, NULL) != 0 ||
	    faccessat(d.fd, RUNDIR_MEMORY, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return do_lock(&d, PRIVOP_LOCK_LOOK) == -EBUSY ? -EBUSY : 0;
}

bool jobdir_is_freeing(void)
{
	return jobdir_for_each(look_for_memory, NULL, NULL) == -EBUSY;
}
