/*
 * The threads of a cgroup are read from `tasks` (v1) or `cgroup.threads` (v2). cgroup.procs, which
 * lists processes, cannot be used: it leaves out a process whose first thread has ended, even if
 * another thread of it cannot end. A thread is read at /proc/<tid>/task/<tid>, because stat at
 * /proc/<tid> has the sums of all threads of the process.
 *
 * A thread that the kernel made for io_uring does not keep the information that it was killed. It
 * does not sleep while it waits for its requests. So it looks like a thread that works, but all
 * other threads of its process have ended.
 *
 * Most threads are not about to end. stat shows this. So status is read only for the threads that
 * are about to end.
 */
#include "daemon/manager/proc-look.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/parse.h"

#define MAX_IDS (1U << 20)
#define MIN_IDS 256
#define MAX_DEPTH 9 /* of cgroups below the one of all jobs */
/* From include/linux/sched.h: PF_EXITING; PF_POSTCOREDUMP, which is set earlier (from Linux 5.16
 * on; between the two, the kernel waits for io_uring); PF_IO_WORKER. */
#define FLAGS_EXITING (0x4 | 0x8)
#define FLAG_IO 0x10
#define BIT_KILL (1ULL << (SIGKILL - 1))
#define SKIP5 "%*s %*s %*s %*s %*s "

/* If a process gets SIGKILL, the signal is pending in each of its threads. */
int proc_look_parse_stat(const char *text, struct proc_thread *t)
{
	const char *s = strrchr(text, ')');
	uint64_t start, pending;
	unsigned flags;
	char state;

	/* Fields 3, 9, 22 and 31 */
	if (!s || sscanf(s + 1,
			 " %c " SKIP5 "%u " SKIP5 SKIP5 "%*s %*s %" SCNu64 " " SKIP5
			 "%*s %*s %*s %" SCNu64,
			 &state, &flags, &start, &pending) != 4)
		return -EPROTO;
	t->start = start;
	t->asleep = state == 'S' || state == 'D';
	t->stopped = state == 'T' || state == 't';
	t->io = flags & FLAG_IO;
	t->ending = flags & FLAGS_EXITING || pending & BIT_KILL;
	return 0;
}

/* Reads the number after word, which stands at the beginning of a line. Returns 0 or -EPROTO. */
static int find_number(const char *text, const char *word, uint64_t *valuep)
{
	const char *s = strstr(text, word);
	char *end;

	if (!s)
		return -EPROTO;
	s += strlen(word);
	*valuep = strtoull(s, &end, 10);
	return end == s ? -EPROTO : 0;
}

int proc_look_parse_status(const char *text, struct proc_thread *t)
{
	uint64_t uid, voluntary, forced;

	/* The kernel escapes a newline in a name, so no name looks like the beginning of a line. */
	if (find_number(text, "\nUid:", &uid) < 0 ||
	    find_number(text, "\nvoluntary_ctxt_switches:", &voluntary) < 0 ||
	    find_number(text, "\nnonvoluntary_ctxt_switches:", &forced) < 0)
		return -EPROTO;
	t->uid = (uid_t)uid;
	t->switches = voluntary + forced;
	return 0;
}

static int read_file(int dirfd, const char *path, char *buf, size_t size)
{
	_cleanup_(fd_closep) int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, size - 1);

	buf[n < 0 ? 0 : n] = '\0';
	return n < 0 ? -errno : 0;
}

static int add_id(struct proc_look *l, uint64_t id)
{
	const size_t room = l->room ? l->room * 2 : MIN_IDS;
	pid_t *ids;

	if (l->n_ids == l->room) {
		ids = room > MAX_IDS ? NULL : reallocarray(l->ids, room, sizeof(*ids));
		if (!ids)
			return -ENOMEM;
		l->ids = ids;
		l->room = room;
	}
	l->ids[l->n_ids++] = (pid_t)id;
	return 0;
}

/* Adds the threads of one cgroup. */
static int add_group(struct proc_look *l, int dirfd)
{
	int fd = openat(dirfd, "tasks", O_RDONLY | O_CLOEXEC);
	_cleanup_(file_closep) FILE *f = NULL;
	unsigned id;
	int r = 0;

	if (fd < 0)
		fd = openat(dirfd, "cgroup.threads", O_RDONLY | O_CLOEXEC);
	f = fd < 0 ? NULL : fdopen(fd, "r");
	if (!f)
		fd_closep(&fd);
	while (f && r == 0 && fscanf(f, "%u", &id) == 1)
		r = add_id(l, id);
	return r;
}

/* Adds the threads of a cgroup and of those below it. A cgroup that disappears has no threads. */
static int add_groups(struct proc_look *l, int dirfd, int depth)
{
	_cleanup_(dir_closep) DIR *dir = fdopendir(dirfd);
	struct dirent *e;
	int fd, r;

	if (!dir) {
		close(dirfd);
		return 0;
	}
	r = add_group(l, dirfd);
	while (r == 0 && depth < MAX_DEPTH && (e = readdir(dir))) {
		if (e->d_name[0] == '.' || (e->d_type != DT_DIR && e->d_type != DT_UNKNOWN))
			continue;
		fd = openat(dirfd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r = fd < 0 ? 0 : add_groups(l, fd, depth + 1);
	}
	return r;
}

static int add_processes(struct proc_look *l)
{
	int fd = openat(l->proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	uint32_t pid;
	int r = 0;

	if (!dir) {
		r = -errno;
		fd_closep(&fd);
		return r;
	}
	while (r == 0 && (e = readdir(dir)))
		if (parse_uint32(e->d_name, &pid) == 0)
			r = add_id(l, pid);
	return r;
}

int proc_look_begin(struct proc_look *l, int fd, const char *group, uid_t uid)
{
	int top, r;

	proc_look_end(l);
	l->active = true;
	l->proc_fd = fd;
	l->uid = group ? PROC_LOOK_ANYBODY : uid;
	l->by_uid = !group;
	if (!group)
		return add_processes(l);
	top = open(group, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = top < 0 ? -errno : add_groups(l, top, 0);
	return r == -ENOMEM ? 0 : r; /* threads for which there is no memory are left out */
}

/* Reads and parses one text of a thread. */
static int look_at(const struct proc_look *l, pid_t pid, struct proc_thread *t, const char *name,
		   int (*parse)(const char *text, struct proc_thread *t))
{
	char path[64], text[4096];
	int r;

	snprintf(path, sizeof(path), "%d/task/%d/%s", pid, t->tid, name);
	r = read_file(l->proc_fd, path, text, sizeof(text));
	return r < 0 ? r : parse(text, t);
}

static bool is_wanted(const struct proc_look *l, const struct proc_thread *t)
{
	return l->uid == PROC_LOOK_ANYBODY || t->uid == l->uid;
}

/* The directory that lists the threads of a process; NULL: there is none. */
static DIR *open_threads(int proc_fd, pid_t pid)
{
	char path[32];
	DIR *dir;
	int fd;

	snprintf(path, sizeof(path), "%d/task", pid);
	fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		fd_closep(&fd);
	return dir;
}

/* Returns true if all threads of the process have ended, except those that the kernel made. */
static bool only_kernel_threads_left(const struct proc_look *l, pid_t tid)
{
	_cleanup_(dir_closep) DIR *dir = open_threads(l->proc_fd, tid);
	const struct dirent *e;
	bool alone = dir;

	while (alone && (e = readdir(dir))) {
		struct proc_thread t = { .tid = (pid_t)strtol(e->d_name, NULL, 10) };

		if (t.tid > 0 && look_at(l, tid, &t, "stat", proc_look_parse_stat) == 0)
			alone = t.io || t.ending;
	}
	return alone;
}

static int look_at_thread(const struct proc_look *l, pid_t pid, pid_t tid, struct proc_thread *t)
{
	*t = (struct proc_thread){ .tid = tid };
	if (look_at(l, pid, t, "stat", proc_look_parse_stat) < 0)
		return PROC_LOOK_NOTHING;
	t->io = t->io && !t->ending && only_kernel_threads_left(l, tid);
	t->ending = t->ending || t->io;
	if (!t->ending)
		return PROC_LOOK_NOTHING;
	if (look_at(l, pid, t, "status", proc_look_parse_status) < 0 || !is_wanted(l, t))
		return PROC_LOOK_NOTHING;
	return PROC_LOOK_THREAD;
}

/* A signal stops all threads of a process, but a process that traces it can stop one alone. */
static bool is_stopped(int fd, pid_t pid)
{
	_cleanup_(dir_closep) DIR *dir = open_threads(fd, pid);
	const struct proc_look l = { .proc_fd = fd };
	const struct dirent *e;
	bool stopped = false;

	while (dir && !stopped && (e = readdir(dir))) {
		struct proc_thread t = { .tid = (pid_t)strtol(e->d_name, NULL, 10) };

		stopped = t.tid > 0 && look_at(&l, pid, &t, "stat", proc_look_parse_stat) == 0 &&
			  t.stopped;
	}
	return stopped;
}

bool proc_look_is_stopped(int fd, pid_t pid)
{
	bool stopped = is_stopped(fd, pid);
	char path[64], text[4096], *next = text;
	long child;

	snprintf(path, sizeof(path), "%d/task/%d/children", pid, pid);
	if (stopped || read_file(fd, path, text, sizeof(text)) < 0)
		return stopped;
	while (!stopped && (child = strtol(next, &next, 10)) > 0)
		stopped = is_stopped(fd, (pid_t)child);
	return stopped;
}

/* Opens the threads of a process, unless it belongs to another user. */
static void open_process(struct proc_look *l, pid_t pid)
{
	struct proc_thread first = { .tid = pid };

	if (look_at(l, pid, &first, "status", proc_look_parse_status) < 0 || !is_wanted(l, &first))
		return;
	l->pid = pid;
	l->threads = open_threads(l->proc_fd, pid);
}

static int look_at_next_of_process(struct proc_look *l, struct proc_thread *t)
{
	const struct dirent *e = readdir(l->threads);
	uint32_t tid;

	if (e)
		return parse_uint32(e->d_name, &tid) < 0 ? PROC_LOOK_NOTHING
							 : look_at_thread(l, l->pid, (pid_t)tid, t);
	closedir(steal_ptr(l->threads));
	return PROC_LOOK_NOTHING;
}

int proc_look_next(struct proc_look *l, struct proc_thread *t)
{
	pid_t id;

	if (l->threads)
		return look_at_next_of_process(l, t);
	if (l->next == l->n_ids)
		return PROC_LOOK_END;
	id = l->ids[l->next++];
	if (!l->by_uid)
		return look_at_thread(l, id, id, t);
	open_process(l, id);
	return PROC_LOOK_NOTHING;
}

void proc_look_end(struct proc_look *l)
{
	dir_closep(&l->threads);
	free(l->ids);
	*l = PROC_LOOK_INIT;
}
