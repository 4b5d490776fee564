/*
 * A privileged operation is one packet to the keeper and one packet back. A packet that the keeper
 * sends without a request may arrive between the two. It is stored until the manager's loop reads
 * it.
 */
#include "daemon/manager/privops.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/protocol/packet.h"
#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "common/util/log.h"

#define MAX_CHILDREN 1024
#define STOPPED_MS 300 /* interval of checks; a child that its user has stopped is killed */

/* A child that was started and whose exit status was not taken yet. */
struct child {
	pid_t pid;
	bool ended;
	int status;
};

/* The children in the order of their start, without orphans that the keeper inherits. */
static struct {
	bool over;
	struct child children[MAX_CHILDREN];
	size_t n_children;
} heard;

void (*privops_meanwhile)(void);

static int none[1]; /* the buffer if no descriptors are expected */

int privops_get_fd(void)
{
	return MANAGER_FD_KEEPER;
}

/* A pid may be used again before the status of its first process is taken, so the first entry that
 * has not ended is meant. */
static void keep_exit(pid_t pid, int status)
{
	for (size_t i = 0; i < heard.n_children; i++) {
		struct child *child = &heard.children[i];

		if (child->pid != pid || child->ended)
			continue;
		child->ended = true;
		child->status = status;
		return;
	}
}

static bool keep_event(const struct privop *a)
{
	if (a->kind == PRIVOP_OVER)
		heard.over = true;
	else if (a->kind == PRIVOP_EXITED)
		keep_exit((pid_t)a->n[0], (int)a->n[1]);
	else
		return false;
	return true;
}

static _Noreturn void end_without_keeper(void)
{
	static const char text[] =
		"stage-keeper: the part that is root has ended, or could not answer\n";

	(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
	_exit(1);
}

void privops_hear(void)
{
	static struct privop a;
	size_t n_fds = 0;
	int r;

	while ((r = packet_receive(MANAGER_FD_KEEPER, &a, sizeof(a), none, &n_fds, MSG_DONTWAIT)) ==
	       1)
		keep_event(&a);
	if (r != -EAGAIN)
		end_without_keeper();
}

static int ask_keeper(struct privop *a, int *out, size_t *n_outp)
{
	const uint32_t kind = a->kind;
	size_t room = *n_outp;
	int r = packet_send(MANAGER_FD_KEEPER, a, sizeof(*a), NULL, 0, 0);

	if (r < 0)
		end_without_keeper();
	do {
		*n_outp = room;
		r = packet_receive(MANAGER_FD_KEEPER, a, sizeof(*a), out, n_outp, 0);
		if (r == 1 && a->kind == kind)
			return a->r;
	} while (r == -EAGAIN || (r == 1 && keep_event(a)));
	end_without_keeper();
}

int (*privops_transport)(struct privop *a, int *out, size_t *n_outp) = ask_keeper;

int privops_do(struct privop *a, int *out, size_t *n_outp)
{
	const uint32_t kind = a->kind;
	size_t no_room = 0;
	int r = privops_transport(a, out ?: none, n_outp ?: &no_room);

	/* If the log itself times out, which a network file system may cause, this is not
	 * logged. */
	if (r == -ETIMEDOUT && kind != PRIVOP_LOG)
		log_warning(
			"operation %u on a directory or mount took over 5 s; root no longer waits "
			"(another process keeps it locked)",
			kind);
	return r;
}

int privops_do_name(enum privop_kind kind, uint32_t dir, enum privop_name name, int64_t n0,
		    int64_t n1, int64_t n2)
{
	struct privop a = { .kind = kind, .dir = dir, .name = name, .n = { n0, n1, n2 } };

	return privops_do(&a, NULL, NULL);
}

int privops_do_numbers(enum privop_kind kind, int64_t n0, int64_t n1, int64_t n2)
{
	struct privop a = { .kind = kind, .n = { n0, n1, n2 } };

	return privops_do(&a, NULL, NULL);
}

int privops_rename(uint32_t dir, enum privop_name name, uint32_t dir2, enum privop_name name2,
		   int64_t n0, int64_t n1)
{
	struct privop a = { .kind = PRIVOP_RENAME,
			    .dir = dir,
			    .name = name,
			    .dir2 = dir2,
			    .name2 = name2,
			    .n = { n0, n1 } };

	return privops_do(&a, NULL, NULL);
}

static int open_by(struct privop *a)
{
	size_t n = 1;
	int fd = -1, r = privops_do(a, &fd, &n);

	if (r < 0)
		return r;
	return n ? fd : -EPROTO;
}

int privops_open(enum privop_kind kind, uint32_t dir, uint32_t name)
{
	struct privop a = { .kind = kind, .dir = dir, .name = name };

	return open_by(&a);
}

int privops_write(uint32_t dir, enum privop_file file, const void *data, size_t size)
{
	struct privop a;
	size_t done = 0;
	int r;

	do {
		const size_t n = size - done < sizeof(a.text) ? size - done : sizeof(a.text);

		a = (struct privop){ .kind = PRIVOP_WRITE,
				     .dir = dir,
				     .name = file,
				     .n = { (int64_t)n, done > 0 } };
		memcpy(a.text, (const char *)data + done, n);
		r = privops_do(&a, NULL, NULL);
		done += n;
	} while (r == 0 && done < size);
	return r;
}

static int fill_path(struct privop *a, enum privop_kind kind, const char *path, int64_t n0)
{
	*a = (struct privop){ .kind = kind, .n = { n0 } };
	return snprintf(a->text, sizeof(a->text), "%s", path) >= PATH_MAX ? -ENAMETOOLONG : 0;
}

int privops_do_path(enum privop_kind kind, const char *path, int64_t n0)
{
	struct privop a;
	int r = fill_path(&a, kind, path, n0);

	return r < 0 ? r : privops_do(&a, NULL, NULL);
}

void privops_log(const char *text)
{
	struct privop a = { .kind = PRIVOP_LOG };

	snprintf(a.text, sizeof(a.text), "%s", text);
	(void)privops_do(&a, NULL, NULL);
}

void privops_answer(const char *text)
{
	struct privop a = { .kind = PRIVOP_ANSWER };

	snprintf(a.text, sizeof(a.text), "%s", text);
	(void)privops_do(&a, NULL, NULL);
}

pid_t privops_spawn(const struct privops_spawn *s, uint64_t *startp)
{
	struct privop a = { .kind = PRIVOP_SPAWN,
			    .name = s->program,
			    .uid = s->uid,
			    .gid = s->gid,
			    .n = { s->flags, s->nice } };
	_cleanup_(fd_closep) int sock = -1;
	size_t n = 0, n_fds = s->n_fds, n_socks = 1;
	int fds[5], r, sent;

	if (heard.n_children == MAX_CHILDREN)
		return -EAGAIN;
	for (const char *const *word = s->argv ? s->argv + 1 : NULL; word && *word; word++) {
		if (n + strlen(*word) + 1 > sizeof(a.text))
			return -E2BIG;
		n += (size_t)sprintf(a.text + n, "%s", *word) + 1;
		a.n[2]++;
	}
	memcpy(fds, s->fds, n_fds * sizeof(*fds));
	if (s->output >= 0) {
		a.n[0] |= PRIVOP_SPAWN_OUTPUT;
		fds[n_fds++] = s->output;
	}
	r = privops_do(&a, &sock, &n_socks);
	if (r <= 0)
		return r;
	heard.children[heard.n_children++] = (struct child){ .pid = r };
	if (startp)
		*startp = (uint64_t)a.n[1];
	sent = n_fds ? packet_send(sock, "f", 1, fds, n_fds, MSG_DONTWAIT) : 0;
	if (sent < 0) {
		heard.n_children--; /* no caller will take its status */
		(void)privops_go(false);
	}
	return sent < 0 ? sent : r;
}

int privops_go(bool go)
{
	return privops_do_numbers(PRIVOP_GO, go, 0, 0);
}

bool privops_is_over(void)
{
	return heard.over;
}

/* Takes the status of a child that has ended. pid 0: of any child. */
static bool take_exit(pid_t pid, struct child *childp)
{
	struct child *const children = heard.children;

	for (size_t i = 0; i < heard.n_children; i++) {
		if (!children[i].ended || (pid && children[i].pid != pid))
			continue;
		*childp = children[i];
		heard.n_children--;
		memmove(children + i, children + i + 1, (heard.n_children - i) * sizeof(*children));
		return true;
	}
	return false;
}

bool privops_next_exit(pid_t *pidp, int *statusp)
{
	struct child child;

	if (!take_exit(0, &child))
		return false;
	*pidp = child.pid;
	*statusp = child.status;
	return true;
}

int privops_wait(pid_t pid, uint64_t deadline_ms)
{
	int r, n_gone = 0;

	while (n_gone < 2) {
		struct pollfd p = { MANAGER_FD_KEEPER, POLLIN, 0 };
		uint64_t now = clock_ms();
		struct child child;

		if (take_exit(pid, &child))
			return WIFEXITED(child.status) ? -WEXITSTATUS(child.status) : -EINTR;
		if (now >= deadline_ms)
			break;
		if (privops_meanwhile)
			privops_meanwhile();
		now = deadline_ms - now;
		if (poll(&p, 1, now < STOPPED_MS ? (int)now : STOPPED_MS) > 0) {
			privops_hear();
			continue;
		}
		r = privops_do_numbers(PRIVOP_LOOK, pid, 0, 0);
		if (r > 0)
			(void)privops_do_numbers(PRIVOP_KILL, pid, 0, SIGKILL);
		/* The process is gone, but the keeper could not report its end. A report would have
		 * come before the answer to the second look. */
		n_gone += r == -ESRCH;
	}
	(void)privops_do_numbers(PRIVOP_KILL, pid, 0, SIGKILL);
	return n_gone < 2 ? -ETIMEDOUT : -EINTR;
}
