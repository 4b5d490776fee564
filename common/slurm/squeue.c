/*
 * All states are asked for: which ones squeue shows by itself is not the same everywhere, and a job
 * that is suspended must not be taken for one that is over. All partitions are asked for (-a; -j
 * asks for them by itself): squeue shows a user no job in a hidden one. Both outputs are files in
 * memory, so that squeue never waits for us: the list, and what it complains of.
 *
 * It runs outside of the job's cgroups as we do, so a copy of it is executed that its user can't
 * trace.
 */
#include "common/slurm/squeue.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/exec-copy.h"
#include "common/util/fd.h"
#include "common/util/parse.h"
#include "common/util/path.h"

#define NAME "squeue"
#define NO_PROGRAM 127
#define UNKNOWN_JOB                                                                                \
	"Invalid job id"   /* what squeue complains of when it is asked for one job alone */
#define MAX_SIZE (1 << 20) /* of the list: one user's jobs on one node */

static bool is_end(const char *state)
{
	static const char *const ends[] = { "CG", "CD", "CA", "F",   "TO", "NF",
					    "PR", "BF", "DL", "OOM", "RV" };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (!strcmp(state, ends[i]))
			return true;
	return false;
}

static bool is_waiting(const char *state)
{
	static const char *const waiting[] = { "PD", "RH", "SE", "RD" };

	for (size_t i = 0; i < ARRAY_SIZE(waiting); i++)
		if (!strcmp(state, waiting[i]))
			return true;
	return false;
}

static enum squeue_said judge(const char *state)
{
	if (is_end(state))
		return SQUEUE_ENDED;
	return is_waiting(state) ? SQUEUE_WAITS : SQUEUE_LIVES;
}

/* One line without its end. 0, or -EPROTO. */
static int read_line(const char *line, size_t size, uint32_t *idp,
		     char state[static SQUEUE_STATE_SIZE])
{
	const char *space = memchr(line, ' ', size);
	const size_t n = space ? (size_t)(space - line) : 0, rest = space ? size - n - 1 : 0;
	char id[16];

	if (n == 0 || n >= sizeof(id) || rest == 0 || rest >= SQUEUE_STATE_SIZE)
		return -EPROTO;
	memcpy(id, line, n);
	id[n] = '\0';
	for (size_t i = 0; i < rest; i++) {
		if (space[1 + i] < 'A' || space[1 + i] > 'Z')
			return -EPROTO;
		state[i] = space[1 + i];
	}
	state[rest] = '\0';
	return strlen(id) != n || parse_uint32(id, idp) < 0 ? -EPROTO : 0;
}

enum squeue_said squeue_read(const char *text, size_t size, uint32_t job_id,
			     char state[static SQUEUE_STATE_SIZE])
{
	enum squeue_said said = SQUEUE_NOT_LISTED;
	char other[SQUEUE_STATE_SIZE];
	const char *end;
	uint32_t id;

	for (; size > 0; size -= (size_t)(end + 1 - text), text = end + 1) {
		end = memchr(text, '\n', size);
		if (!end || read_line(text, (size_t)(end - text), &id, other) < 0)
			return SQUEUE_NOT_UNDERSTOOD;
		/* Where it stands twice, life comes first. */
		if (id != job_id || judge(other) > said)
			continue;
		strcpy(state, other);
		said = judge(other);
	}
	return said;
}

/* Between fork and exec; does not return. */
static void become_squeue(const struct squeue_question *q, int out, int complaints, pid_t parent)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), r;
	char program[PATH_MAX] = NAME, uid[16], job[16];
	char *const envp[] = { (char *)"PATH=" EXEC_COPY_PATH, (char *)"LANG=C.UTF-8", NULL };
	const char *of_job[16] = { NAME, "-h", "-t", "all", "-o", "%A %t" };
	size_t n = 6;
	/* clang-format off */
	char *const of_user[] = { (char *)NAME, (char *)"-h", (char *)"-a", (char *)"-t",
				  (char *)"all", (char *)"-u", uid, (char *)"-w", (char *)q->node,
				  (char *)"-o", (char *)"%A %t", NULL };
	/* clang-format on */

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(complaints, 2) < 0)
		_exit(126);
	fd_close_from(3);
	if (q->sbcast[0] == '/')
		snprintf(program, sizeof(program), "%.*s" NAME,
			 (int)(path_base(q->sbcast) - q->sbcast), q->sbcast);
	snprintf(uid, sizeof(uid), "%u", q->uid);
	snprintf(job, sizeof(job), "%u", q->job_id);
	if (q->in_doubt) {
		of_job[n++] = "-u";
		of_job[n++] = uid;
	}
	if (q->node) {
		of_job[n++] = "-w";
		of_job[n++] = q->node;
	}
	of_job[n++] = "-j";
	of_job[n++] = job;
	r = exec_copy(program, q->anywhere ? (char *const *)of_job : of_user, envp, 3);
	if (r == -ENOEXEC)
		dprintf(2,
			"%s is a script, which the job's user could trace: put the program itself "
			"there\n",
			program);
	else
		dprintf(2, "%s: %s\n", program, strerror(-r));
	_exit(NO_PROGRAM);
}

/* The last line of what it complains of tells most. */
static int set_complaint(int fd, int status, struct error *err)
{
	_cleanup_(freep) char *text = NULL;
	const char *line;
	size_t size;

	if (lseek(fd, 0, SEEK_SET) == 0 && fd_read_file(fd, MAX_SIZE, &text, &size) == 0) {
		while (size > 0 && text[size - 1] == '\n')
			text[--size] = '\0';
		line = strrchr(text, '\n');
		if (size > 0)
			return error_set(err, EIO, "%s", line ? line + 1 : text);
	}
	return error_set(err, EIO, NAME " ended with %s %d",
			 WIFEXITED(status) ? "status" : "signal",
			 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

static int set_verdict(const struct squeue_question *q, int fd, struct error *err)
{
	_cleanup_(freep) char *text = NULL;
	char state[SQUEUE_STATE_SIZE];
	size_t size;

	if (lseek(fd, 0, SEEK_SET) < 0 || fd_read_file(fd, MAX_SIZE, &text, &size) < 0)
		return error_set(err, EIO, "what " NAME " says can't be read");
	switch (squeue_read(text, size, q->job_id, state)) {
	case SQUEUE_LIVES:
		return 0;
	case SQUEUE_WAITS:
		if (!q->anywhere || q->in_doubt)
			return 0;
		return error_set(err, ESRCH, NAME " has it as %s: it waits to run again", state);
	case SQUEUE_ENDED:
		if (q->anywhere && strcmp(state, "CG") == 0) {
			(void)error_set(err, EINPROGRESS, NAME " has it as CG");
			return 0;
		}
		return error_set(err, ESRCH, NAME " has it as %s", state);
	case SQUEUE_NOT_LISTED:
		return error_set(err, q->in_doubt ? EIO : ESRCH, NAME " does not list it%s",
				 q->node ? " on this node" : "");
	case SQUEUE_NOT_UNDERSTOOD:
		break;
	}
	return error_set(err, EIO, "what " NAME " says is not understood");
}

int squeue_ask(const struct squeue_question *q, struct error *err)
{
	_cleanup_(fd_closep) int out = memfd_create("list", MFD_CLOEXEC);
	_cleanup_(fd_closep) int complaints = memfd_create("complaints", MFD_CLOEXEC);
	const pid_t parent = getppid(), self = getpid();
	int status = 0, r;
	pid_t pid;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	if (out < 0 || complaints < 0)
		return error_set(err, EIO, "no file in memory");
	pid = fork();
	if (pid == 0)
		become_squeue(q, out, complaints, self);
	if (pid < 0)
		return error_errno(err, errno, "start " NAME);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return error_set(err, EIO, "wait for " NAME);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		r = set_complaint(complaints, status, err);
		if (q->anywhere && strstr(err->text, UNKNOWN_JOB))
			return error_set(err, q->in_doubt ? EIO : ESRCH, NAME " does not know it");
		return r;
	}
	return set_verdict(q, out, err);
}
