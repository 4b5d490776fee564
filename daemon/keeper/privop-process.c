/*
 * Operations on processes. The keeper reports the end of a child before it reaps the child. Until
 * the manager has read the report, it may send the pid again, so root signals a pid as a child only
 * while it is a child. All other processes are identified by their start time.
 */
#include "daemon/keeper/keeper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/protocol/keeper-helper.h"
#include "common/protocol/rundir.h"
#include "common/util/cleanup.h"
#include "common/util/fd.h"
#include "common/util/root-path.h"

#define SKIP5 "%*s %*s %*s %*s %*s "

struct proc {
	pid_t pid, parent;
	uint64_t start; /* clock ticks since boot, field 22 of /proc/<pid>/stat */
	char state;
};

int proc_parse_stat(const char *line, uint64_t *startp, char *statep, pid_t *parentp)
{
	const char *s = strrchr(line, ')');
	unsigned n_threads;

	if (!s || sscanf(s + 1, " %c %d " SKIP5 SKIP5 SKIP5 "%u %*s %" SCNu64, statep, parentp,
			 &n_threads, startp) != 4)
		return -EPROTO;
	if (*statep == 'Z' && n_threads > 1) /* its first thread alone has ended */
		*statep = 'D';
	return 0;
}

/* Reads a small file of the process as a string. Returns its size, or 0. */
static size_t read_proc(pid_t pid, const char *file, char *buf, size_t size)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[48];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, buf, size - 1);
	buf[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

static int proc_read(pid_t pid, struct proc *p)
{
	char line[1024];

	p->pid = pid;
	return pid > 0 && read_proc(pid, "stat", line, sizeof(line))
		       ? proc_parse_stat(line, &p->start, &p->state, &p->parent)
		       : -ESRCH;
}

/* Returns 0; 1: the process is stopped, by a signal or a tracer; -ESRCH: it does not exist, or is a
 * zombie, which does not count as a process. */
static int proc_get(pid_t pid, struct proc *p)
{
	if (proc_read(pid, p) < 0 || p->state == 'Z' || p->state == 'X')
		return -ESRCH;
	return p->state == 'T' || p->state == 't';
}

/* Returns the uid if all four uids of the process are the same; -1: they differ, or the process is
 * gone. */
static uid_t get_uid(pid_t pid)
{
	char text[1024];
	const char *line = read_proc(pid, "status", text, sizeof(text)) ? strstr(text, "\nUid:")
									: NULL;
	uid_t u[4];

	if (!line || sscanf(line, "\nUid: %u %u %u %u", &u[0], &u[1], &u[2], &u[3]) != 4)
		return (uid_t)-1;
	return u[0] == u[1] && u[0] == u[2] && u[0] == u[3] ? u[0] : (uid_t)-1;
}

/* Returns true if this process of root was started as the keeper of that job, or as the reaper. For
 * the manager of a run, only another run counts: a manager that could end the job's clean-up would
 * outlive the job. */
static bool is_keeper(const struct keeper *k, pid_t pid, uint32_t job)
{
	char words[PATH_MAX + 256], number[16];
	const char *const end = words + read_proc(pid, "cmdline", words, sizeof(words));
	const char *word = words + strlen(words), *before;
	bool found = !k->job && word + 1 < end && strcmp(word + 1, "reap") == 0;

	if (!strstr(words, "/stage-keeper") || word + 1 >= end ||
	    (k->uid && strcmp(word + 1, "run") != 0))
		return false;
	snprintf(number, sizeof(number), "%u", job);
	for (before = words; !found && ++word < end; before = word, word += strlen(word))
		found = strcmp(before, "--job") == 0 && strcmp(word, number) == 0;
	return found;
}

/* Returns true for processes of the job's user, and for processes that work for a job whose
 * directory is open. Other processes of root, and managers or helpers of other jobs, are never
 * allowed. */
static bool may_signal(const struct keeper *k, pid_t pid)
{
	const uid_t uid = get_uid(pid);
	gid_t gid;

	if (uid != 0)
		return privop_is_users(k, uid, &gid);
	for (int i = PRIVOP_DIR_FREE; i < PRIVOP_N_DIRS; i++)
		if (k->dirs[i] >= 0 && (!k->job || k->jobs[i] == k->job) &&
		    is_keeper(k, pid, k->jobs[i]))
			return true;
	return false;
}

static int proc_kill(const struct keeper *k, const struct proc *p, int sig)
{
	_cleanup_(fd_closep) int pidfd = fd_pidfd_open(p->pid);
	struct proc now;

	/* This is read after the pidfd was opened, so the pid cannot belong to another process any
	 * more. */
	if (proc_get(p->pid, &now) < 0 || now.start != p->start)
		return -ESRCH;
	if (!may_signal(k, p->pid))
		return -EPERM;
	if (pidfd >= 0)
		return fd_pidfd_kill(pidfd, sig);
	/* EPERM comes from a seccomp filter that is older than the system call, for example in a
	 * systemd unit */
	if (pidfd != -ENOSYS && pidfd != -EPERM)
		return pidfd;
	return kill(p->pid, sig) < 0 ? -errno : 0;
}

/* Finds n words in text. Returns false if there are fewer. */
static bool read_words(const char *text, int64_t n, const char *argv[static PRIVOP_MAX_ARGS + 1])
{
	const char *const end = text + PRIVOP_TEXT_SIZE; /* the byte before is a NUL */

	for (int64_t i = 0; i < n && i < PRIVOP_MAX_ARGS && text < end;
	     i++, text += strlen(text) + 1)
		argv[i] = text;
	return n > 0 && n <= PRIVOP_MAX_ARGS && text < end;
}

/* oom_score_adj is in thousandths of the memory and is added to a process's score. So the kernel
 * kills the job's tasks before an image server, because they wait for it, but it can still kill the
 * server if no other process is left. */
static int get_oom_score(int64_t flags)
{
	if (flags & PRIVOP_SPAWN_WRITER)
		return 1000;
	return flags & PRIVOP_SPAWN_SERVER ? -500 : 0;
}

/* The manager may run stage-helper as the system user, or as the job's user. A clean-up also finds
 * jobs whose user root no longer knows. For these, it may run, as any user, only the tasks that ask
 * Slurm, and that move and remove our names in a tier. "release" and "empty" would remove what the
 * manager's descriptor and record name, so they never run as any user. If root knows the user, it
 * sets the group. */
static int find_task(const struct keeper *k, struct privop *a, const char *name)
{
	/* clang-format off */
	static const struct { const char *name; bool system, cleans; } tasks[] = {
		{ "path", true, false },       { "metrics", true, false },   { "over", true, false },
		{ "release", false, false },   { "empty", false, false },    { "tier-make", false, false },
		{ "tier-aside", false, true }, { "tier-empty", false, true }, { "over", false, true },
	};
	/* clang-format on */
	const bool system = a->n[0] & PRIVOP_SPAWN_SYSTEM,
		   anybody = !k->uid && a->uid && a->uid != k->system_uid;

	for (size_t i = 0; i < ARRAY_SIZE(tasks); i++)
		if (strcmp(name, tasks[i].name) == 0 && tasks[i].system == system)
			return system || privop_is_users(k, a->uid, &a->gid) ||
					       (anybody && tasks[i].cleans)
				       ? 0
				       : -EPERM;
	return -EPERM;
}

/* Fills argv of a stage-helper with the words of the privileged operation. The path of the
 * configuration is always root's. */
static int fill_helper(const struct keeper *k, struct privop *a,
		       const char *argv[static PRIVOP_MAX_ARGS + 2])
{
	argv[0] = "stage-helper";
	if (!read_words(a->text, a->n[2], argv + 1) || find_task(k, a, argv[1]) < 0)
		return -EPERM;
	if (strcmp(argv[1], "path") == 0 || strcmp(argv[1], "over") == 0)
		argv[2] = k->conf ? k->conf : "";
	return 0;
}

/* Fills argv of stagingd or of a worker. The manager chooses none of the words: with another
 * configuration, it could run programs as the user. */
static int fill_users(const struct keeper *k, const struct privop *a,
		      const char *argv[static PRIVOP_MAX_ARGS + 2])
{
	static char job[16], dir[sizeof(STAGE_RUN_DIR) + 16];
	const char *const daemon[] = {
		"stagingd", "--keeper", "--job", job, "--rundir", dir, k->conf ? "--conf" : NULL,
		k->conf,    NULL
	};

	if (!k->job || k->account.r < 0 || !k->user.uid)
		return -EPERM;
	snprintf(job, sizeof(job), "%u", k->job);
	snprintf(dir, sizeof(dir), STAGE_RUN_DIR "/%u", k->job);
	if (a->name == PRIVOP_PROGRAM_WORKER)
		argv[0] = "stage-worker";
	else
		memcpy(argv, daemon, sizeof(daemon));
	return 0;
}

/* Attack: the manager wants another program, user or word. It gets only our programs: stage-helper,
 * with a task of the list above, as the system user or the job's user; stagingd and workers, with
 * words of root, as the job's user. So it can do what the job's user may do, and nothing as
 * root. */
int privop_spawn(struct keeper *k, struct call *c)
{
	struct privop *a = c->a;
	struct process_user helper = { 0 };
	const char *argv[PRIVOP_MAX_ARGS + 2] = { NULL };
	const bool is_helper = a->name == PRIVOP_PROGRAM_HELPER;
	/* clang-format off */
	struct process l = {
		.user = is_helper ? &helper : &k->user, .argv = argv, .output = -1,
		.takes_output = a->n[0] & PRIVOP_SPAWN_OUTPUT, .dies_with_us = a->n[0] & PRIVOP_SPAWN_DIES,
		.max_file = a->n[0] & PRIVOP_SPAWN_SYSTEM ? PRIVOP_MAX_FILE : 0,
		.groups = k->groups, .n_groups = a->n[0] & PRIVOP_SPAWN_GROUPS ? PRIVOP_N_GROUPS : 0,
		.nice = a->n[1] > 0 ? (int)a->n[1] : 0, .oom_score_adj = get_oom_score(a->n[0])
	};
	/* clang-format on */
	struct proc p;
	pid_t pid;
	int pair[2], r;

	if (a->name >= PRIVOP_N_PROGRAMS || k->programs[a->name] < 0)
		return -EPERM;
	r = is_helper ? fill_helper(k, a, argv) : fill_users(k, a, argv);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	ask_fill_system_user(k, &helper);
	if (!(a->n[0] & PRIVOP_SPAWN_SYSTEM)) {
		helper.uid = a->uid;
		helper.gid = a->gid;
		helper.groups = &helper.gid;
	}
	l.program = k->programs[a->name];
	if (is_helper && strcmp(argv[1], "metrics") == 0)
		l.fds[l.n_fds++] = k->text_fd;
	fd_closep(&k->go_fd);
	l.sock = pair[1];
	pid = process_start(&l, &k->go_fd);
	close(pair[1]); /* before the manager can send a packet */
	if (pid < 0 || privop_give(c, pair[0]) < 0)
		close(pair[0]);
	a->n[1] = pid >= 0 && proc_get(pid, &p) >= 0 ? (int64_t)p.start : 0;
	return pid;
}

/* Attack: none. The process that was spawned last begins or ends, and it was checked before. */
int privop_go(struct keeper *k, struct call *c)
{
	const int r = c->a->n[0] && write(k->go_fd, "g", 1) != 1 ? -errno : 0;

	fd_closep(&k->go_fd);
	return r;
}

/* Returns true if the process runs Slurm's step daemon. A user may run a program as root with the
 * title of a step daemon (exec -a, sudo), but cannot choose its file. So the file's name is
 * checked, and that all parts of its path belong to root. Debian and Ubuntu call it slurmstepd-wlm.
 * The kernel adds "(deleted)" if Slurm was updated since. */
static bool is_step_daemon(pid_t pid)
{
	static const char *const names[] = { "slurmstepd", "slurmstepd (deleted)", "slurmstepd-wlm",
					     "slurmstepd-wlm (deleted)" };
	char link[32], path[PATH_MAX];
	_cleanup_(fd_closep) int dir = -1;
	const char *name;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	n = readlink(link, path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	dir = root_path_open_above(path, &name);
	for (size_t i = 0; dir >= 0 && i < ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/* Attack: the manager learns that a process of another user exists, when it started and whether it
 * is stopped, even if the site hides it with hidepid=. */
int privop_look(struct keeper *k, struct call *c)
{
	struct proc p;
	int r = proc_get((pid_t)c->a->n[0], &p);

	if (r < 0)
		return r;
	c->a->n[1] = (int64_t)p.start;
	c->a->n[2] = c->a->n[2] && is_step_daemon(p.pid);
	return r;
}

/* The pid belongs to a child that is not reaped, so it cannot belong to another process, and the
 * keeper waits for us. Attack: a pid of another process, to move it away from its limits. Only
 * children of the keeper are moved, and only to groups that privop_hold_group() has checked. */
int privop_enter_groups(struct keeper *k, struct call *c)
{
	struct proc p;
	int r = proc_read((pid_t)c->a->n[0], &p);

	if (r < 0 || p.parent != getppid() || p.pid == k->manager)
		return -ESRCH;
	for (size_t i = 0; r == 0 && i < PRIVOP_N_GROUPS; i++)
		if (k->groups[i] >= 0)
			r = process_join(k->groups[i], p.pid);
	return r;
}

/* A child that is not reaped keeps its pid, so the signal cannot reach another process. Attack: the
 * manager ends processes of the job's user, and keepers of jobs whose directories are open (a run:
 * only its own job's). may_signal() refuses all others. */
int privop_kill(struct keeper *k, struct call *c)
{
	const struct proc p = { .pid = (pid_t)c->a->n[0], .start = (uint64_t)c->a->n[1] };
	const int sig = (int)c->a->n[2];
	siginfo_t i;

	if (p.pid <= 1 || p.pid == k->manager)
		return -ESRCH;
	/* Other signals could make a core file or stop a process. */
	if (sig != SIGKILL && sig != SIGTERM && sig != SIGCONT)
		return -EPERM;
	if (p.start)
		return proc_kill(k, &p, sig);
	if (waitid(P_PID, (id_t)p.pid, &i, WEXITED | WNOHANG | WNOWAIT) < 0)
		return -ESRCH;
	return kill(p.pid, sig) < 0 ? -errno : 0;
}

/* A child that is not reaped keeps its pid, so the signal cannot reach another process. Attack:
 * only processes that this keeper has started end. */
int privop_kill_children(struct keeper *k, struct call *c)
{
	_cleanup_(dir_closep) DIR *dir = opendir("/proc");
	struct dirent *e;
	struct proc p;
	int n = 0;

	while (dir && (e = readdir(dir)))
		if (proc_read(atoi(e->d_name), &p) == 0 && p.parent == getpid() && p.state != 'Z' &&
		    p.pid > 1 && p.pid != k->manager && !ask_is_pending(k, p.pid))
			n += kill(p.pid, SIGKILL) == 0;
	return n;
}

/* Attack: the keeper, and only the keeper, runs on CPUs that are busy. */
int privop_follow(struct keeper *k, struct call *c)
{
	return sched_setaffinity(0, PRIVOP_MAX_CPUS / 8, (const cpu_set_t *)c->a->text) < 0 ? -errno
											    : 0;
}
