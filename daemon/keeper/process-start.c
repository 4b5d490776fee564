/*
 * The order of the steps in drop_all() matters. Changing the bounding set needs CAP_SETPCAP and
 * changing groups needs CAP_SETGID, so both are done before the uid changes. A keyring is made
 * before the change, when no quota of the user applies, and again after it, so that it belongs to
 * the user. A change of uid clears PDEATHSIG, so PDEATHSIG is set last. Descriptors from outside
 * may belong to a FUSE file system. Closing such a descriptor sends a request to its server, which
 * may never answer. So these descriptors come through a socket that only the child has, after the
 * child has closed everything of root: then a child that hangs delays nobody and keeps no lock,
 * socket or mount. The last process that has a socket must close the descriptors that are still in
 * it, so root closes its copy before anything can be sent. The program is executed by a descriptor
 * that was opened when the keeper started, so an upgrade during a job does not mix versions.
 */
#include "daemon/keeper/process-start.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/protocol/packet.h"
#include "common/util/fd.h"

#define FIRST_FD 3
#define HIGH_FD 64  /* above all numbers that the child's program gets */
#define OWN_FDS 256 /* above all descriptors that a keeper opens */
#define JOIN_SESSION_KEYRING 1

/* The same on all architectures; older headers lack them. */
#define NR_CLONE3 435
#define INTO_CGROUP 0x200000000ULL /* CLONE_INTO_CGROUP */

int process_open_program(const char *path)
{
	_cleanup_(fd_closep) int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) && st.st_uid == 0 && !(st.st_mode & 022) ? steal_fd(&fd)
									    : -EPERM;
}

static int drop_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (syscall(SYS_capset, &header, data) < 0 || syscall(SYS_capget, &header, data) < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(data); i++)
		if (data[i].effective || data[i].permitted || data[i].inheritable)
			return -EPERM;
	return 0;
}

/* From here on, an exec as root gives no capability, and no capability can be kept or raised. */
#define SECUREBITS                                                                                 \
	(SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED |                    \
	 SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |                                   \
	 SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

static int drop_bounding_set(void)
{
	int has;

	if (prctl(PR_SET_SECUREBITS, SECUREBITS, 0, 0, 0) < 0)
		return -errno;
	for (int cap = 0; (has = prctl(PR_CAPBSET_READ, cap, 0, 0, 0)) >= 0; cap++)
		if (has && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return -errno;
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	return 0;
}

static int prove(uid_t uid, gid_t gid)
{
	uid_t ru, eu, su;
	gid_t rg, eg, sg;

	if (uid == 0 || getresuid(&ru, &eu, &su) < 0 || getresgid(&rg, &eg, &sg) < 0)
		return -EPERM;
	if (ru != uid || eu != uid || su != uid || rg != gid || eg != gid || sg != gid)
		return -EPERM;
	if (setresuid((uid_t)-1, 0, (uid_t)-1) == 0 || setfsuid((uid_t)-1) != (int)uid)
		return -EPERM;
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0 : -EPERM;
}

int process_become(uid_t uid, gid_t gid, const gid_t *groups, int n_groups)
{
	int r = drop_bounding_set();

	if (r < 0)
		return r;
	if (setgroups((size_t)n_groups, groups) < 0 || setresgid(gid, gid, gid) < 0 ||
	    setresuid(uid, uid, uid) < 0)
		return -errno;
	if (drop_capabilities() < 0)
		return -EPERM;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return prove(uid, gid);
}

void process_reset_signals(void)
{
	sigset_t none;

	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Sets our own limits, because slurmd may have been started with others. RLIMIT_NPROC is not
 * limited: the system user has processes for all jobs, and perhaps for other services. */
static void set_limits(rlim_t file_size)
{
	static const struct sched_param no_priority;
	/* clang-format off */
	const struct { int resource; rlim_t value; } limits[] = {
		{ RLIMIT_CORE, 0 },              { RLIMIT_CPU, RLIM_INFINITY },
		{ RLIMIT_FSIZE, file_size },     { RLIMIT_NOFILE, 4096 },
		{ RLIMIT_MEMLOCK, 64 << 10 },    { RLIMIT_MSGQUEUE, 0 },
		{ RLIMIT_RTPRIO, 0 },            { RLIMIT_STACK, 8 << 20 },      { RLIMIT_NPROC, RLIM_INFINITY },
	};
	/* clang-format on */

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		const __rlimit_resource_t which = (__rlimit_resource_t)limits[i].resource;
		struct rlimit r = { limits[i].value, limits[i].value };

		/* If root may not raise a limit, the present limit stays. */
		if (setrlimit(which, &r) < 0 && getrlimit(which, &r) == 0)
			(void)setrlimit(which, &(struct rlimit){ r.rlim_max, r.rlim_max });
	}
	sched_setscheduler(0, SCHED_OTHER, &no_priority);
	personality(PER_LINUX);
}

static bool is_kept(const struct process *l, int go, int fd)
{
	bool is = fd == go || fd == l->sock || fd == l->program || fd == l->output;

	for (size_t i = 0; i < l->n_fds; i++)
		is = is || fd == l->fds[i];
	for (size_t i = 0; i < l->n_groups; i++)
		is = is || fd == l->groups[i];
	return is;
}

void process_close_others(const struct process *l, int go)
{
	for (int fd = FIRST_FD; fd < OWN_FDS; fd++)
		if (!is_kept(l, go, fd))
			close(fd);
	fd_close_from(OWN_FDS);
}

static int take_fds(struct process *l)
{
	int fds[PROCESS_MAX_FDS + 1];
	size_t n = ARRAY_SIZE(fds);
	char byte;
	int r = packet_receive(l->sock, &byte, 1, fds, &n, MSG_DONTWAIT);

	if (r <= 0)
		return r; /* 0: the socket was closed, so there are no descriptors */
	if (l->takes_output && n)
		l->output = fds[--n];
	if (n > PROCESS_MAX_FDS)
		return -EINVAL;
	for (; l->n_fds < n; l->n_fds++)
		l->fds[l->n_fds] = fds[l->n_fds];
	return 0;
}

/* Moves the descriptors to 0, 1, 2, 3, … and closes all others except *programp, which is
 * close-on-exec. They are moved to high numbers first, because one may have the new number of
 * another. */
static int place_fds(const struct process *l, int *programp)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int high[PROCESS_MAX_FDS], program, output, next = FIRST_FD + (int)l->n_fds;

	program = fcntl(l->program, F_DUPFD_CLOEXEC, HIGH_FD);
	output = fcntl(l->output >= 0 ? l->output : null, F_DUPFD_CLOEXEC, HIGH_FD);
	for (size_t i = 0; i < l->n_fds; i++)
		high[i] = fcntl(l->fds[i], F_DUPFD_CLOEXEC, HIGH_FD);
	if (null < 0 || dup2(null, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0)
		return -EBADF;
	for (size_t i = 0; i < l->n_fds; i++)
		if (dup2(high[i], FIRST_FD + (int)i) < 0)
			return -EBADF;
	if (dup3(program, next, O_CLOEXEC) < 0)
		return -EBADF;
	fd_close_from(next + 1);
	*programp = next;
	return 0;
}

/* Writes a number to the kernel's file name in dir. Returns 0 or -errno. */
static int tell_kernel(int dir, const char *name, int number)
{
	_cleanup_(fd_closep) int fd = openat(dir, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 || dprintf(fd, "%d", number) < 0 ? -errno : 0;
}

/* Writing to `tasks` (v1) moves only the caller. Writing to cgroup.procs takes 10 ms, because the
 * kernel waits until no process of the machine forks or exits. */
int process_join(int group, pid_t pid)
{
	int r = pid == 0 ? tell_kernel(group, "tasks", 0) : -ENOENT;

	if (r < 0)
		r = tell_kernel(group, "cgroup.procs", pid);
	return r == -ENOENT || r == -ENODEV ? 0 : r;
}

/* Creates a child in a cgroup (v2), so that it need not be moved. Returns as fork() does. -1: this
 * was not possible. */
static pid_t fork_into(int group)
{
	/* struct clone_args: flags, exit_signal, cgroup */
	const uint64_t args[11] = { INTO_CGROUP, [4] = SIGCHLD, [10] = (uint64_t)group };

	return group < 0 ? -1 : (pid_t)syscall(NR_CLONE3, args, sizeof(args));
}

static long join_new_keyring(void)
{
	return syscall(SYS_keyctl, JOIN_SESSION_KEYRING, NULL, 0, 0, 0);
}

static _Noreturn void run_child(struct process *l, bool in_first, pid_t keeper, int go)
{
	int program;
	char byte;

	process_close_others(l, go);
	if (read(go, &byte, 1) != 1)
		_exit(PROCESS_EXIT_ORPHAN);
	if (l->sock > 0 && take_fds(l) < 0)
		_exit(PROCESS_EXIT_SETUP);
	for (size_t i = in_first; i < l->n_groups; i++)
		if (l->groups[i] >= 0 && process_join(l->groups[i], 0) < 0)
			_exit(PROCESS_EXIT_SETUP);
	setsid();
	process_reset_signals();
	umask(077);
	if (place_fds(l, &program) < 0 || chdir("/") < 0)
		_exit(PROCESS_EXIT_SETUP);
	(void)tell_kernel(AT_FDCWD, "/proc/self/oom_score_adj",
			  l->oom_score_adj); /* a value below 0 may be refused to root in a
					      * container */
	setpriority(PRIO_PROCESS, 0, l->nice);
	set_limits(l->max_file ? l->max_file : RLIM_INFINITY);
	/* This is done before the user's quota of keys applies: he may have used it up, and the
	 * process would keep slurmd's keyring. On a kernel without keyrings, there is nothing to
	 * give up. */
	if (join_new_keyring() < 0 && errno != ENOSYS)
		_exit(PROCESS_EXIT_SETUP);
	if (process_become(l->user->uid, l->user->gid, l->user->groups, l->user->n_groups) < 0)
		_exit(geteuid() == 0 ? PROCESS_EXIT_DROP : PROCESS_EXIT_PROOF);
	(void)join_new_keyring(); /* the user's; if his quota is used up, the empty keyring from
				   * above stays */
	if (l->dies_with_us &&
	    (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != keeper))
		_exit(PROCESS_EXIT_ORPHAN);
	syscall(SYS_execveat, program, "", l->argv, l->user->env, AT_EMPTY_PATH);
	/* ENOENT means that the program's loader or interpreter is missing. The caller would treat
	 * it as an answer. */
	_exit(PROCESS_EXIT_EXEC + (errno == ENOENT ? ENOEXEC : errno));
}

pid_t process_start(struct process *l, int *gop)
{
	const pid_t keeper = getpid(); /* when the child runs, the keeper may have ended */
	_cleanup_(fd_closep) int rd = -1, wr = -1;
	int go[2];
	bool in_first;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, go) < 0)
		return -errno;
	rd = go[0];
	wr = go[1];
	pid = fork_into(l->n_groups ? l->groups[0] : -1);
	in_first = pid >= 0;
	if (pid < 0)
		pid = fork();
	if (pid == 0) {
		close(wr);
		run_child(l, in_first, keeper, rd);
	}
	if (pid < 0)
		return -errno;
	*gop = steal_fd(&wr);
	return pid;
}
