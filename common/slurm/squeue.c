/*
 * All states are requested, because the states that squeue shows by default differ, and a suspended
 * job must not count as over. All partitions are requested (-a), because squeue does not show a
 * user's job in a hidden partition. squeue runs outside the job's cgroups, like this process, so a
 * copy of it is executed that its user cannot trace. stage-slurm is tried first. It has the
 * arguments and the output of squeue.
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
#include <sys/wait.h>
#include <unistd.h>

#include "common/slurm/stage-slurm.h"
#include "common/util/child-bind.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/exec-copy.h"
#include "common/util/fd.h"
#include "common/util/parse.h"
#include "common/util/path.h"

#define NAME "squeue"
#define NO_PROGRAM 127
#define UNKNOWN_JOB                                                                                \
	"Invalid job id"   /* squeue's error message if it is asked about a single, unknown job */
#define MAX_SIZE (1 << 20) /* of the output: one user's jobs on one node */

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

/* Parses one line without its newline. Returns 0 or -EPROTO. */
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
		/* If the job is listed twice, the state that is nearest to running counts. */
		if (id != job_id || judge(other) > said)
			continue;
		strcpy(state, other);
		said = judge(other);
	}
	return said;
}

/* stdout and stderr of the program are files in memory, so it never waits for a reader. */
struct answer {
	const char *program; /* name of the program that answers */
	int list, complaints, status;
};

/* Returns the path of the program. */
static const char *get_path(const struct squeue_question *q, const char *program,
			    char path[static PATH_MAX])
{
	if (strcmp(program, NAME))
		return STAGE_SLURM_PATH;
	if (q->sbcast[0] != '/')
		return NAME;
	snprintf(path, PATH_MAX, "%.*s" NAME, (int)(path_base(q->sbcast) - q->sbcast), q->sbcast);
	return path;
}

/* Runs in the child between fork and exec. Does not return. */
static void become_program(const struct squeue_question *q, const struct answer *a, pid_t parent)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), r;
	char buf[PATH_MAX], uid[16], job[16];
	const char *path = get_path(q, a->program, buf);
	char *const envp[] = { (char *)"PATH=" EXEC_COPY_PATH, (char *)"LANG=C.UTF-8", NULL };
	const char *argv[16] = { a->program, "-h", "-a", "-t", "all" };
	size_t n = 5;

	if (!child_bind_to(parent, SIGKILL))
		_exit(126); /* 0 would say that squeue lists no such job */
	if (null < 0 || dup2(null, 0) < 0 || dup2(a->list, 1) < 0 || dup2(a->complaints, 2) < 0)
		_exit(126);
	fd_close_from(3);
	snprintf(uid, sizeof(uid), "%u", q->uid);
	snprintf(job, sizeof(job), "%u", q->job_id);
	if (!q->anywhere || q->in_doubt) {
		argv[n++] = "-u";
		argv[n++] = uid;
	}
	if (q->node) {
		argv[n++] = "-w";
		argv[n++] = q->node;
	}
	argv[n++] = "-o";
	argv[n++] = "%A %t";
	if (q->anywhere) {
		argv[n++] = "-j";
		argv[n++] = job;
	}
	r = exec_copy(path, (char *const *)argv, envp, 3);
	if (r == -ENOEXEC)
		dprintf(2,
			"%s is a script, which the job's user could trace: put the program itself "
			"there\n",
			path);
	else
		dprintf(2, "%s: %s\n", path, strerror(-r));
	_exit(NO_PROGRAM);
}

static int run_program(const struct squeue_question *q, struct answer *a, struct error *err)
{
	const pid_t self = getpid();
	pid_t pid;

	pid = fork();
	if (pid == 0)
		become_program(q, a, self);
	if (pid < 0)
		return error_errno(err, errno, "start %s", a->program);
	while (waitpid(pid, &a->status, 0) < 0)
		if (errno != EINTR)
			return error_set(err, EIO, "wait for %s", a->program);
	return 0;
}

static bool has_ended_with(const struct answer *a, int status)
{
	return WIFEXITED(a->status) && WEXITSTATUS(a->status) == status;
}

/* If the site names the directory of sbcast, its Slurm is there, and the libslurm that the loader
 * finds may belong to another Slurm. The same applies if the directory is uncertain. */
static bool may_ask_stage_slurm(const struct squeue_question *q)
{
	return q->sbcast[0] && q->sbcast[0] != '/' && !q->in_doubt;
}

static int get_answer(const struct squeue_question *q, struct answer *a, struct error *err)
{
	int r;

	if (may_ask_stage_slurm(q)) {
		a->program = STAGE_SLURM_NAME;
		r = run_program(q, a, err);
		if (r < 0 || has_ended_with(a, STAGE_SLURM_OK) ||
		    has_ended_with(a, STAGE_SLURM_REFUSED))
			return r;
		if (ftruncate(a->list, 0) < 0 || ftruncate(a->complaints, 0) < 0 ||
		    lseek(a->list, 0, SEEK_SET) < 0 || lseek(a->complaints, 0, SEEK_SET) < 0)
			return error_errno(err, errno, "a file in memory");
	}
	a->program = NAME;
	return run_program(q, a, err);
}

/* Sets err to the last line of stderr, which is the most specific one. */
static int set_complaint(const struct answer *a, struct error *err)
{
	_cleanup_(freep) char *text = NULL;
	const char *line;
	size_t size;

	if (lseek(a->complaints, 0, SEEK_SET) == 0 &&
	    fd_read_file(a->complaints, MAX_SIZE, &text, &size) == 0) {
		while (size > 0 && text[size - 1] == '\n')
			text[--size] = '\0';
		line = strrchr(text, '\n');
		if (size > 0)
			return error_set(err, EIO, "%s", line ? line + 1 : text);
	}
	return error_set(err, EIO, "%s ended with %s %d", a->program,
			 WIFEXITED(a->status) ? "status" : "signal",
			 WIFEXITED(a->status) ? WEXITSTATUS(a->status) : WTERMSIG(a->status));
}

static int set_verdict(const struct squeue_question *q, const struct answer *a, struct error *err)
{
	_cleanup_(freep) char *text = NULL;
	char state[SQUEUE_STATE_SIZE];
	size_t size;

	if (lseek(a->list, 0, SEEK_SET) < 0 || fd_read_file(a->list, MAX_SIZE, &text, &size) < 0)
		return error_set(err, EIO, "the output of %s can't be read", a->program);
	switch (squeue_read(text, size, q->job_id, state)) {
	case SQUEUE_LIVES:
		return 0;
	case SQUEUE_WAITS:
		if (!q->anywhere || q->in_doubt)
			return 0;
		return error_set(err, ESRCH, "%s has it as %s: it waits to run again", a->program,
				 state);
	case SQUEUE_ENDED:
		if (q->anywhere && strcmp(state, "CG") == 0) {
			(void)error_set(err, EINPROGRESS, "%s has it as CG", a->program);
			return 0;
		}
		return error_set(err, ESRCH, "%s has it as %s", a->program, state);
	case SQUEUE_NOT_LISTED:
		return error_set(err, q->in_doubt ? EIO : ESRCH, "%s does not list it%s",
				 a->program, q->node ? " on this node" : "");
	case SQUEUE_NOT_UNDERSTOOD:
		break;
	}
	return error_set(err, EIO, "the output of %s is not understood", a->program);
}

int squeue_ask(const struct squeue_question *q, struct error *err)
{
	_cleanup_(fd_closep) int list = memfd_create("list", MFD_CLOEXEC);
	_cleanup_(fd_closep) int complaints = memfd_create("complaints", MFD_CLOEXEC);
	struct answer a = { .list = list, .complaints = complaints };
	const pid_t parent = getppid();
	int r;

	if (!child_bind_to(parent, SIGKILL))
		_exit(0);
	if (list < 0 || complaints < 0)
		return error_set(err, EIO, "no file in memory");
	r = get_answer(q, &a, err);
	if (r < 0)
		return r;
	if (has_ended_with(&a, 0))
		return set_verdict(q, &a, err);
	r = set_complaint(&a, err);
	if (q->anywhere && strstr(err->text, UNKNOWN_JOB))
		return error_set(err, q->in_doubt ? EIO : ESRCH, "%s does not know it", a.program);
	return r;
}
