/*
 * An operation on a name in a directory that users may list, or on a mount of a user, can wait for
 * ever, and no signal ends this wait. The reason is that the kernel holds a directory's lock while
 * it lists the directory into memory that a FUSE server backs. So a child process does such
 * operations, and root does not wait for it for long. The child has descriptors of the directories
 * that it works in, but no lock, socket or mount of root. It may complete its operation after root
 * has continued, so that a directory appears or disappears late. The manager or the reaper, which
 * repeat the operation, must expect both states. Another child keeps the socket to the manager open
 * after root's end, if the socket still contains packets.
 */
#include "daemon/keeper/keeper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/protocol/packet.h"
#include "common/util/cleanup.h"
#include "common/util/fd.h"

static bool ends_with(pid_t keeper)
{
	return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == keeper;
}

static void run(struct keeper *k, struct call *c, privop_fn fn, int sock)
{
	/* clang-format off */
	const struct process kept = { .program = -1, .output = -1, .n_fds = 2,
				      .fds = { c->dir, c->slot ? c->slot->fd : -1 },
				      .groups = k->groups, .n_groups = PRIVOP_N_GROUPS };
	/* clang-format on */

	alarm(CHILD_S);
	dup2(sock, 0);
	for (int fd = 1; fd < 3; fd++) /* the plugin waits until its pipe is closed */
		close(fd);
	process_close_others(&kept, 0);
	c->a->r = fn(k, c);
	(void)packet_send(0, c->a, sizeof(*c->a), c->out, c->n_out, MSG_DONTWAIT);
}

pid_t child_start(struct keeper *k, struct call *c, privop_fn fn)
{
	const pid_t keeper = getpid();
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		if (ends_with(keeper))
			run(k, c, fn, pair[1]);
		_exit(0);
	}
	close(pair[1]); /* before a packet can be sent through the socket */
	if (pid < 0)
		close(pair[0]);
	else
		c->out[c->n_out++] = pair[0];
	if (pid > 0 && c->slot)
		fd_closep(&c->slot->fd);
	return pid < 0 ? -EAGAIN : pid;
}

pid_t *child_find(struct keeper *k, pid_t pid)
{
	for (size_t i = 0; i < ARRAY_SIZE(k->children); i++)
		if (k->children[i] == pid)
			return &k->children[i];
	return NULL;
}

int child_do(struct keeper *k, struct call *c, privop_fn fn)
{
	const pid_t pid = child_start(k, c, fn);
	_cleanup_(fd_closep) int sock = pid < 0 ? -1 : c->out[0];
	struct pollfd p = { sock, POLLIN, 0 };

	if (pid < 0)
		return pid;
	c->n_out = PRIVOP_MAX_FDS;
	if (poll(&p, 1, CHILD_S * 1000) == 1 &&
	    packet_receive(sock, c->a, sizeof(*c->a), c->out, &c->n_out, MSG_DONTWAIT) == 1) {
		/* The child's end releases a slot or a mount namespace, and may wait for a server.
		 * So root waits for it 50 ms at most. */
		for (int i = 0; i < 1000 && waitpid(pid, NULL, WNOHANG) == 0; i++)
			usleep(50);
		return c->a->r;
	}
	c->n_out = 0;
	return -ETIMEDOUT;
}

/* A packet that is not received is freed with the last copy of the socket, and its descriptors are
 * closed then. This may wait for a FUSE server. If no process can be created, root's own end waits
 * for it. The kernel closes the descriptors that were opened last first, so our locks are already
 * free. */
int child_hold(int sock, int r)
{
	const pid_t keeper = getpid();
	char byte;

	shutdown(sock, SHUT_RDWR);
	if (recv(sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0 || fork() != 0)
		return r;
	dup2(sock, 0);
	fd_close_from(1);
	if (ends_with(keeper))
		pause();
	_exit(0);
}
