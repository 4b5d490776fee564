/*
 * stage-keeper: the privileged half, one process for each job on a node. It does nothing on the
 * node that the job's user could not do, except what SECURITY.md lists. It decides nothing. It
 * starts stage-manager as the system user and performs the privileged operations that the manager
 * requests, one at a time (common/protocol/keeper-privops.h). It reports to the manager which child
 * has ended, and that the job is over. Of texts it parses the numbers on its own command line,
 * /etc/passwd and the kernel's tables. If the keeper or its manager dies, the other one ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/protocol/keeper-helper.h"
#include "common/protocol/packet.h"
#include "common/util/cleanup.h"
#include "daemon/keeper/keeper.h"

#include "stage-build.h"

/* Returns the word after the given word of the command line; NULL: there is none. */
static const char *find_word(char **argv, const char *word)
{
	for (; *argv; argv++)
		if (strcmp(*argv, word) == 0)
			return argv[1];
	return NULL;
}

/* Returns the number after the given word; 0: there is none, or it cannot be a user's. */
static uint32_t find_id(char **argv, const char *word)
{
	const char *text = find_word(argv, word);

	return text ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

/* Starts the manager. In `run`, it gets the plugin's fd 0. */
static int start_manager(struct keeper *k, const char *const *argv, bool run)
{
	struct process_user user;
	struct process l = { .user = &user,
			     .argv = argv,
			     .program = k->programs[PRIVOP_PROGRAM_HELPER],
			     .fds = { -1, 0 },
			     .n_fds = run ? 2 : 1,
			     .output = 2,
			     .max_file = PRIVOP_MAX_FILE,
			     .dies_with_us = true };
	_cleanup_(fd_closep) int theirs = -1, go = -1;
	/* An empty packet would look like the end of the connection, so this filter drops it. The
	 * kernel reports an error to its sender. */
	static struct sock_filter not_empty[] = { BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
						  BPF_STMT(BPF_RET | BPF_A, 0) };
	const struct sock_fprog filter = { ARRAY_SIZE(not_empty), not_empty };
	int pair[2];

	if (!k->system_uid)
		return -ENOENT;
	if (l.program < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return l.program < 0 ? l.program : -errno;
	ask_fill_system_user(k, &user);
	k->sock = pair[0];
	l.fds[0] = theirs = pair[1];
	if (setsockopt(k->sock, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) < 0)
		return -errno;
	k->manager = process_start(&l, &go);
	if (k->manager < 0)
		return k->manager;
	return write(go, "g", 1) != 1 ? -errno : 0;
}

/* Gives up everything that was inherited from the process that started us. */
static int detach(struct keeper *k)
{
	_cleanup_(fd_closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	k->answer_fd = fcntl(1, F_DUPFD_CLOEXEC, 3);
	for (int fd = 0; fd < 3; fd++)
		if (dup2(null, fd) < 0)
			return -errno;
	return k->answer_fd < 0 || chdir("/") < 0 ? -errno : 0;
}

static void tell(struct keeper *k, uint32_t kind, pid_t pid, int status)
{
	const struct privop a = { .kind = kind, .n = { pid, status } };

	(void)packet_send(k->sock, &a, sizeof(a), NULL, 0, 0);
}

static int fail(const struct keeper *k, int r)
{
	const char *what = k->system_uid ? "stage-helper can't be run, is libexec complete?"
					 : "the system user " HELPER_SYSTEM_USER
					   " is missing in /etc/passwd of this node: "
					   "useradd -rUs /usr/sbin/nologin " HELPER_SYSTEM_USER;

	if (k->answer_fd >= 0)
		dprintf(k->answer_fd, "%s%s (%s)\n",
			k->answer_fd > 2 ? "E" : "stage-keeper: ", what, strerror(-r));
	return EXIT_FAILURE;
}

/* Finds the system user in /etc/passwd. A name service could hang, or other users could change its
 * data. */
static void find_system_user(struct keeper *k)
{
	_cleanup_(file_closep) FILE *f = fopen("/etc/passwd", "re");
	const struct passwd *pw;

	while (f && !k->system_uid && (pw = fgetpwent(f)))
		if (strcmp(pw->pw_name, HELPER_SYSTEM_USER) == 0 && pw->pw_gid != 0) {
			k->system_uid = pw->pw_uid;
			k->system_gid = pw->pw_gid;
		}
}

/* Reaps children. Returns the manager's exit status, or -EAGAIN while it runs. */
static int reap(struct keeper *k)
{
	pid_t pid, *child;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		child = child_find(k, pid);
		if (child)
			*child = 0;
		ask_end(k, pid, status);
		if (pid == k->manager)
			return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
		tell(k, PRIVOP_EXITED, pid, status);
	}
	return -EAGAIN;
}

/* Performs one operation for the manager. Returns 0, or -errno if the connection has ended. */
static int serve(struct keeper *k)
{
	static struct privop a;
	struct call c = { .a = &a };
	int r;

	/* A packet from the manager may carry descriptors. Root must not take them, and not drop
	 * them with the packet: closing a descriptor of a FUSE file system would wait for its
	 * server. So the packet is only looked at first. */
	r = packet_receive(k->sock, &a, sizeof(a), c.out, &c.n_out, MSG_DONTWAIT | MSG_PEEK);
	if (r == 1)
		r = packet_receive(k->sock, &a, sizeof(a), c.out, &c.n_out, MSG_DONTWAIT);
	if (r <= 0)
		return r == -EAGAIN ? 0 : -EPIPE;
	privop_do(k, &c);
	r = packet_send(k->sock, &a, sizeof(a), c.out, c.n_out, 0);
	/* Root keeps no copy of a FUSE connection's descriptors: with a copy, readers would wait
	 * for a dead server. */
	while (c.n_out)
		fd_closep(&c.out[--c.n_out]);
	return r;
}

static int loop(struct keeper *k, int signals)
{
	struct signalfd_siginfo info;
	bool over = false;
	int r;

	for (;;) {
		struct pollfd p[] = { { signals, POLLIN, 0 }, { over ? -1 : k->sock, POLLIN, 0 } };

		if (poll(p, ARRAY_SIZE(p), -1) < 0)
			continue;
		while (p[0].revents && read(signals, &info, sizeof(info)) == sizeof(info))
			if (info.ssi_signo != SIGCHLD)
				tell(k, PRIVOP_OVER, 0, 0);
		r = reap(k);
		if (r >= PROCESS_EXIT_DROP)
			return fail(k, r > PROCESS_EXIT_EXEC ? PROCESS_EXIT_EXEC - r : -EIO);
		if (r != -EAGAIN)
			return r;
		if (!p[1].revents || serve(k) == 0)
			continue;
		/* This ends the remaining processes of the manager, and a child that waits for its
		 * start.
		 */
		over = true;
		shutdown(k->sock, SHUT_RDWR);
		fd_closep(&k->go_fd);
	}
}

static int work(struct keeper *k, bool run, const char **argv)
{
	static const char *const programs[] = { "stage-helper", "stagingd", "stage-worker" };
	char path[PATH_MAX];
	int r, signals;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (int i = 0; run && i < 2; i++)
		sigaddset(&set, i ? SIGINT : SIGTERM);
	sigprocmask(SIG_SETMASK, &set, NULL);
	signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
		snprintf(path, sizeof(path), STAGE_LIBEXEC_DIR "/%s", programs[i]);
		k->programs[i] = process_open_program(path);
	}
	argv[0] = "stage-manager";
	if (run)
		setsid();
	prctl(PR_SET_CHILD_SUBREAPER, run, 0, 0, 0);
	find_system_user(k);
	r = signals < 0 ? -errno : start_manager(k, argv, run);
	if (run && detach(k) < 0)
		r = r < 0 ? r : -EIO;
	/* The helpers run while the manager does the work that the plugin waits for. If no process
	 * can be created now, the manager asks again. */
	if (r == 0 && run && k->uid) {
		(void)ask_site(k);
		(void)ask_user(k);
	}
	return r < 0 ? fail(k, r) : child_hold(k->sock, loop(k, signals));
}

int main(int argc, char **argv)
{
	static struct keeper k = KEEPER_INIT;
	const bool run = argc > 1 && strcmp(argv[1], "run") == 0;

	prctl(PR_SET_DUMPABLE, 0);
	clearenv();
	umask(022);
	process_reset_signals();
	signal(SIGPIPE, SIG_IGN);
	if (argc == 2 && strcmp(argv[1], "--version") == 0)
		return puts("stage-keeper " STAGE_VERSION) < 0;
	if (geteuid() != 0) {
		fputs("stage-keeper: must be run by root\n", stderr);
		return EXIT_FAILURE;
	}
	k.uid = run ? find_id(argv, "--uid") : 0;
	k.gid = run ? find_id(argv, "--gid") : 0;
	k.job = find_id(argv, "--job");
	k.sluid = run ? find_word(argv, "--sluid") : NULL;
	k.node = find_word(argv, "--node");
	k.conf = find_word(argv, "--conf");
	k.conf = k.conf && *k.conf ? k.conf : NULL;
	return work(&k, run, (const char **)argv);
}
