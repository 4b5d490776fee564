/*
 * Plays stagingd and stage-worker for the test, depending on the name by which it is started.
 * keeper-test talks to the stagingd of this program over the job's socket, with one text in each
 * packet. If it plays a manager that an attacker has taken over, it passes the socket of the keeper
 * to hostile-manager-test. As a worker, it serves a file system with one file, `f`. In mode "hang",
 * a read of this file is never answered.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/keyctl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/protocol/keeper-privops.h"
#include "common/protocol/keeper-verbs.h"

#define MAX_TEXT 60000
#define MAX_IDS 64

static char reply[MAX_TEXT];

static void add(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void add(const char *fmt, ...)
{
	size_t n = strlen(reply);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(reply + n, sizeof(reply) - n, fmt, ap);
	va_end(ap);
}

/* What the keeper made of us, as lines. */
static void add_file(const char *path, char separator)
{
	char buf[16384];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, buf, sizeof(buf) - 1);

	for (ssize_t i = 0; i < n; i++)
		if (buf[i] == '\0')
			buf[i] = separator;
	buf[n > 0 ? n : 0] = '\0';
	add("%s", buf);
	close(fd);
}

/* Its number, and type, uid, gid, rights and name; or an errno. */
static void add_keyring(void)
{
	long ring = syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0);
	char text[200] = "";

	if (ring < 0 || syscall(SYS_keyctl, KEYCTL_DESCRIBE, ring, text, sizeof(text) - 1) < 0)
		snprintf(text, sizeof(text), "errno %d", errno);
	add("Keyring:\t%ld %s\n", ring, text);
}

static void add_proof(void)
{
	DIR *dir = opendir("/proc/self/fd");
	char link[64], target[256];
	struct dirent *e;
	ssize_t n;

	add_file("/proc/self/status", ' ');
	add("Cwd:\t%s\nSid:\t%d\nPid:\t%d\n", getcwd(target, sizeof(target)), getsid(0), getpid());
	add("Secure:\t%x\nNice:\t%d\nScheduler:\t%d\nPersonality:\t",
	    (unsigned)prctl(PR_GET_SECUREBITS, 0, 0, 0, 0), getpriority(PRIO_PROCESS, 0),
	    sched_getscheduler(0));
	add_file("/proc/self/personality", ' ');
	add_keyring();
	add("Oom:\t");
	add_file("/proc/self/oom_score_adj", ' ');
	add("Cgroups:\n");
	add_file("/proc/self/cgroup", ' ');
	add("Env:\t");
	add_file("/proc/self/environ", ';');
	add("\nArgs:\t");
	add_file("/proc/self/cmdline", ';');
	add("\nCore:\t");
	add_file("/proc/self/limits", ' ');
	while (dir && (e = readdir(dir))) {
		snprintf(link, sizeof(link), "/proc/self/fd/%.16s", e->d_name);
		n = readlink(link, target, sizeof(target) - 1);
		if (n < 0 || atoi(e->d_name) == dirfd(dir))
			continue;
		target[n] = '\0';
		add("Fd:\t%s %s\n", e->d_name, target);
	}
	if (dir)
		closedir(dir);
}

static void send_with_fds(int sock, const void *data, size_t size, const int *fds, size_t n)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int) * 16)];
	} control = { 0 };
	struct iovec iov = { (void *)data, size };
	struct msghdr hdr = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n) {
		hdr.msg_control = control.buf;
		hdr.msg_controllen = CMSG_SPACE(sizeof(int) * n);
		CMSG_FIRSTHDR(&hdr)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&hdr)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&hdr)->cmsg_len = CMSG_LEN(sizeof(int) * n);
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&hdr)), fds, sizeof(int) * n);
	}
	if (sendmsg(sock, &hdr, MSG_NOSIGNAL) < 0)
		add("send: %s\n", strerror(errno));
}

static ssize_t receive_with_fds(int sock, void *data, size_t size, int *fds, size_t *n_fdsp)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int) * 16)];
	} control;
	struct iovec iov = { data, size };
	struct msghdr hdr = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.buf,
			      .msg_controllen = sizeof(control.buf) };
	ssize_t n = recvmsg(sock, &hdr, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&hdr);

	*n_fdsp = 0;
	if (c && c->cmsg_type == SCM_RIGHTS) {
		*n_fdsp = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(fds, CMSG_DATA(c), *n_fdsp * sizeof(int));
	}
	return n;
}

/* ---- stage-worker ---- */

static void fuse_answer(int fd, const struct fuse_in_header *in, int error, const void *data,
			size_t size)
{
	struct fuse_out_header out = { .len = (uint32_t)(sizeof(out) + size),
				       .error = error,
				       .unique = in->unique };
	struct iovec iov[] = { { &out, sizeof(out) }, { (void *)data, size } };

	if (writev(fd, iov, size ? 2 : 1) < 0)
		return;
}

static void fill_attr(struct fuse_attr *a, uint64_t node)
{
	a->ino = node;
	a->mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0644;
	a->nlink = 1;
	a->size = node == 1 ? 0 : 5;
	a->uid = getuid();
	a->gid = getgid();
	a->blksize = 4096;
}

static void fuse_reply(int fd, const struct fuse_in_header *in, const void *body, int hang)
{
	struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION,
				      .minor = 26,
				      .max_write = 4096 };
	struct fuse_attr_out attr = { .attr_valid = 1 };
	struct fuse_entry_out entry = { .nodeid = 2, .entry_valid = 1, .attr_valid = 1 };
	struct fuse_open_out opened = { .open_flags = FOPEN_DIRECT_IO };

	switch (in->opcode) {
	case FUSE_INIT:
		fuse_answer(fd, in, 0, &init, sizeof(init));
		break;
	case FUSE_GETATTR:
		fill_attr(&attr.attr, in->nodeid);
		fuse_answer(fd, in, 0, &attr, sizeof(attr));
		break;
	case FUSE_LOOKUP:
		fill_attr(&entry.attr, 2);
		fuse_answer(fd, in, strcmp(body, "f") ? -ENOENT : 0, &entry,
			    strcmp(body, "f") ? 0 : sizeof(entry));
		break;
	case FUSE_OPEN:
		fuse_answer(fd, in, 0, &opened, sizeof(opened));
		break;
	case FUSE_READ:
		if (!hang)
			fuse_answer(fd, in, 0, "hello",
				    ((const struct fuse_read_in *)body)->offset ? 0 : 5);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	default:
		fuse_answer(fd, in, -ENOSYS, NULL, 0);
	}
}

static void serve_fuse(int fd, int hang)
{
	static char buf[FUSE_MIN_READ_BUFFER + 4096];

	while (read(fd, buf, sizeof(buf)) > 0)
		fuse_reply(fd, (struct fuse_in_header *)buf, buf + sizeof(struct fuse_in_header),
			   hang);
	_exit(0);
}

static void write_mib(unsigned mib)
{
	static char block[1 << 20];
	char path[64];
	int fd;

	memset(block, 'x', sizeof(block));
	snprintf(path, sizeof(path), "big-%d", getpid());
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	for (unsigned i = 0; fd >= 0 && i < mib; i++) {
		if (write(fd, block, sizeof(block)) >= 0)
			continue;
		add("%s", strerror(errno));
		break;
	}
	add(fd < 0 ? "can't open" : " written");
	close(fd);
}

static void leave_orphan(void)
{
	if (fork() != 0)
		return;
	setsid();
	if (fork() != 0)
		_exit(0);
	for (;;)
		pause();
}

static void run_worker(void)
{
	char text[4096];
	int fds[16];
	size_t n_fds;
	ssize_t n;

	while ((n = receive_with_fds(3, text, sizeof(text) - 1, fds, &n_fds)) > 0) {
		text[n] = '\0';
		reply[0] = '\0';
		if (strcmp(text, "proof") == 0)
			add_proof();
		else if (strncmp(text, "chdir ", 6) == 0)
			add("%d", chdir(text + 6));
		else if (strncmp(text, "write ", 6) == 0)
			write_mib((unsigned)atoi(text + 6));
		else if (strcmp(text, "ignore-term") == 0)
			signal(SIGTERM, SIG_IGN);
		else if (strcmp(text, "orphan") == 0)
			leave_orphan();
		else if (strncmp(text, "exit ", 5) == 0)
			_exit(atoi(text + 5));
		send_with_fds(3, reply[0] ? reply : "ok", reply[0] ? strlen(reply) : 2, NULL, 0);
		if (strncmp(text, "fuse", 4) == 0 && n_fds)
			serve_fuse(fds[0], strcmp(text, "fuse hang") == 0);
	}
	/* the real ones go on serving without stagingd, and so does this */
	for (;;)
		pause();
}

/* ---- stagingd ---- */

static struct {
	char text[32768];
	int workers[MAX_IDS]; /* our ends */
	int fuse[16];
	size_t n_fuse;
	bool stays, deaf;
} d;

static void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *fmt, ...)
{
	size_t n = strlen(d.text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(d.text + n, sizeof(d.text) - n, fmt, ap);
	va_end(ap);
}

/* One packet of the keeper. A reply is returned (1), an event noted (0). */
static int from_keeper(struct keeper_msg *m)
{
	int fds[16];
	size_t n;

	if (receive_with_fds(KEEPER_FD_SOCKET, m, sizeof(*m), fds, &n) != sizeof(*m))
		exit(0);
	if (m->verb == KEEPER_REPLY) {
		d.n_fuse = n;
		memcpy(d.fuse, fds, n * sizeof(*fds));
		return 1;
	}
	if (m->verb == KEEPER_EXITED)
		note("exited %u %lld\n", m->id, (long long)m->arg0);
	else if (m->verb == KEEPER_MEMORY)
		note("memory %lld %lld\n", (long long)m->arg0, (long long)m->arg1);
	else if (d.stays)
		note("cancel\n");
	else
		exit(0);
	return 0;
}

static void ask_keeper_of(const char *name, uint32_t verb, uint32_t id, int64_t arg0, int64_t arg1,
			  int fd)
{
	struct keeper_msg m = { .verb = verb, .id = id, .arg0 = arg0, .arg1 = arg1 };

	snprintf(m.name, sizeof(m.name), "%s", name);
	send_with_fds(KEEPER_FD_SOCKET, &m, sizeof(m), &fd, fd >= 0);
	if (verb == KEEPER_END || verb == KEEPER_COUNT || verb == KEEPER_SERVES) {
		add("ok");
		return;
	}
	while (!from_keeper(&m))
		;
	add("%lld %lld fds=%zu", (long long)m.arg0, (long long)m.arg1, d.n_fuse);
}

static void ask_keeper(uint32_t verb, uint32_t id, int64_t arg0, int64_t arg1, int fd)
{
	ask_keeper_of("", verb, id, arg0, arg1, fd);
}

/* "NAME PATH [ro]": has PATH mounted on the entry of that name. */
static void command_place(const char *text)
{
	char name[64], path[4000], how[8];
	int fd, n = sscanf(text, "%63s %3999s %7s", name, path, how);

	if (n < 2)
		return;
	fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	ask_keeper_of(name, KEEPER_PLACE, 103, n == 3, 0, fd);
	close(fd);
}

static void command_spawn(unsigned id, long long class)
{
	int pair[2];

	if (id >= MAX_IDS || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return;
	ask_keeper(KEEPER_SPAWN, id, class, 0, pair[1]);
	close(pair[1]);
	d.workers[id] = pair[0];
}

/* Passes a text, and the descriptors of the last mount, to a worker. */
static void command_worker(unsigned id, const char *text)
{
	ssize_t n;

	if (id >= MAX_IDS)
		return;
	send_with_fds(d.workers[id], text, strlen(text), d.fuse,
		      strncmp(text, "fuse", 4) == 0 ? d.n_fuse : 0);
	n = recv(d.workers[id], reply, sizeof(reply) - 1, 0);
	reply[n < 0 ? 0 : n] = '\0';
	if (strncmp(text, "fuse", 4) != 0)
		return;
	for (size_t i = 0; i < d.n_fuse; i++)
		close(d.fuse[i]);
	d.n_fuse = 0;
}

/* Lines of 1000 bytes to the log, which is a pipe that doesn't block. */
static void flood(long long n_lines)
{
	struct pollfd fd = { STDERR_FILENO, POLLOUT, 0 };
	char line[1000];

	memset(line, 'f', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	while (n_lines > 0)
		if (write(STDERR_FILENO, line, sizeof(line)) == (ssize_t)sizeof(line))
			n_lines--;
		else
			poll(&fd, 1, 1000);
}

/* Asks for mounts of 16 descriptors, and reads nothing from the keeper from then on. A child keeps
 * the socket, with all descriptors in it, if the keeper kills us. Returns when the keeper has read
 * all requests, or none for half a second. */
static void hoard(long long n_mounts)
{
	struct pollfd fd = { KEEPER_FD_SOCKET, POLLOUT, 0 };
	int left = 0, before = -1;

	d.deaf = true;
	if (fork() == 0) {
		for (int other = KEEPER_FD_SOCKET + 1; other < 64; other++)
			close(other);
		for (;;)
			pause();
	}
	for (long long i = 0; i < 2 * n_mounts; i++) {
		const struct keeper_msg m = { .verb = i % 2 ? KEEPER_UNMOUNT : KEEPER_MOUNT,
					      .arg1 = 16 };

		if (poll(&fd, 1, 500) != 1)
			break;
		send_with_fds(KEEPER_FD_SOCKET, &m, sizeof(m), NULL, 0);
	}
	while (ioctl(KEEPER_FD_SOCKET, SIOCOUTQ, &left) == 0 && left && left != before) {
		before = left;
		usleep(500000);
	}
}

static void obey(const char *text)
{
	long long a = 0, b = 0;
	unsigned id = 0;
	int n = 0;

	reply[0] = '\0';
	if (strcmp(text, "proof") == 0)
		add_proof();
	else if (strcmp(text, "events") == 0)
		add("%s", d.text);
	else if (sscanf(text, "spawn %u %lld", &id, &a) == 2)
		command_spawn(id, a);
	else if (sscanf(text, "kill %u %lld", &id, &a) == 2)
		ask_keeper(KEEPER_KILL, id, a, 0, -1);
	else if (sscanf(text, "count %u %lld", &id, &a) == 2)
		ask_keeper(KEEPER_COUNT, id, a, 0, -1);
	else if (sscanf(text, "mount %lld %lld", &a, &b) == 2)
		ask_keeper(KEEPER_MOUNT, 100, a, b, -1);
	else if (sscanf(text, "unmount %lld", &a) == 1)
		ask_keeper(KEEPER_UNMOUNT, 101, a, 0, -1);
	else if (strncmp(text, "place ", 6) == 0)
		command_place(text + 6);
	else if (strncmp(text, "unplace ", 8) == 0)
		ask_keeper_of(text + 8, KEEPER_UNPLACE, 104, 0, 0, -1);
	else if (sscanf(text, "tier %lld %lld", &a, &b) == 2)
		ask_keeper(KEEPER_TIER, 102, a, b, -1);
	else if (sscanf(text, "tier %lld", &a) == 1)
		ask_keeper(KEEPER_TIER, 102, a, 0, -1);
	else if (sscanf(text, "tiers %lld %u", &a, &id) == 2)
		while (id-- > 0)
			send_with_fds(KEEPER_FD_SOCKET,
				      &(struct keeper_msg){ .verb = KEEPER_TIER, .arg0 = a },
				      sizeof(struct keeper_msg), NULL, 0);
	else if (strcmp(text, "end") == 0)
		ask_keeper(KEEPER_END, 0, 0, 0, -1);
	else if (strcmp(text, "verb") == 0)
		send_with_fds(KEEPER_FD_SOCKET, &(struct keeper_msg){ .verb = 999 },
			      sizeof(struct keeper_msg), NULL, 0);
	else if (strcmp(text, "short") == 0)
		send_with_fds(KEEPER_FD_SOCKET, "abc", 3, NULL, 0);
	else if (strcmp(text, "stay") == 0)
		d.stays = true; /* what ends the job waits a second for it */
	else if (strcmp(text, "say") == 0)
		fprintf(stderr, "a line\x1b[31m of the user's\n");
	else if (sscanf(text, "flood %lld", &a) == 1)
		flood(a);
	else if (sscanf(text, "hoard %lld", &a) == 1)
		hoard(a);
	else if (sscanf(text, "worker %u %n", &id, &n) == 1 && n)
		command_worker(id, text + n);
	else
		add("what?");
}

static void run_daemon(void)
{
	struct pollfd fds[] = { { KEEPER_FD_SOCKET, POLLIN, 0 },
				{ KEEPER_FD_LISTEN, POLLIN, 0 },
				{ -1, POLLIN, 0 } };
	struct keeper_msg m;
	char text[4096];
	ssize_t n;

	listen(KEEPER_FD_LISTEN, 8);
	for (;;) {
		fds[0].fd = d.deaf ? -1 : KEEPER_FD_SOCKET;
		if (poll(fds, 3, -1) < 0)
			continue;
		if (fds[0].revents)
			from_keeper(&m);
		if (fds[1].revents && fds[2].fd < 0)
			fds[2].fd = accept4(KEEPER_FD_LISTEN, NULL, NULL, SOCK_CLOEXEC);
		if (fds[2].fd < 0 || !fds[2].revents)
			continue;
		n = recv(fds[2].fd, text, sizeof(text) - 1, 0);
		if (n <= 0) {
			close(fds[2].fd);
			fds[2].fd = -1;
			continue;
		}
		text[n] = '\0';
		obey(text);
		if (!reply[0])
			add("ok"); /* an empty packet would look like the end */
		send_with_fds(fds[2].fd, reply, strlen(reply), NULL, 0);
	}
}

/* ---- stage-manager ---- */

/* Gives the test its socket to the keeper: in a run in place of what the plugin has put there. */
static _Noreturn void give_keeper_away(bool run)
{
	int fd = MANAGER_FD_KEEPER;

	send_with_fds(run ? MANAGER_FD_SPEC : STDERR_FILENO, "keeper", 6, &fd, 1);
	close(fd);
	for (;;)
		pause();
}

/* The real stage-helper, which lies beside us, looks up what root asks for itself. */
static _Noreturn void run_helper(char **argv)
{
	char path[256];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof(".real"));

	if (n > 0) {
		strcpy(path + n, ".real");
		execv(path, argv);
	}
	_exit(1);
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	if (strcmp(argv[0], "stage-manager") == 0)
		give_keeper_away(argc > 1 && strcmp(argv[1], "run") == 0);
	if (strcmp(argv[0], "stage-helper") == 0)
		run_helper(argv);
	else if (strcmp(argv[0], "stage-worker") == 0)
		run_worker();
	else
		run_daemon();
	return 0;
}
