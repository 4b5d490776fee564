#include "client/submit-script.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cmd.h"
#include "client/submit-copy.h"
#include "common/config/conf.h"
#include "common/protocol/keys.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/parse.h"
#include "common/util/strutil.h"

#define MAX_ANSWER 4096

/* ---- the script ---- */

/*
 * When a copy fails, Slurm cancels the jobs that wait for it and reports only
 * DependencyNeverSatisfied. So the script sets the reason as the comment of these jobs, which
 * scontrol and sacct show.
 *
 * When a job ends early, Slurm sends SIGTERM to the shell only, and kills the rest after KillWait.
 * So the shell waits for the mover in a way that signals interrupt. For the controller, a requeued
 * job starts again, and the jobs that depend on it continue to wait. $TMPDIR belongs to the node on
 * which the user ran sbatch. Texts are printed by printf, because echo of some shells changes
 * backslashes, which names may have.
 */
static const char head[] =
	"#!/bin/sh\n"
	"# A mover: brings sources that compute nodes can't see. See stagectl(1), submit.\n"
	"pid= ended=\n"
	"trap 'ended=1; [ -z \"$pid\" ] || kill \"$pid\"' TERM\n"
	"said=$(mktemp /tmp/stage-mover.XXXXXX) && exec 4>\"$said\" 5<\"$said\" && rm \"$said\" || "
	"exit 1\n"
	"fail() {\n"
	"	printf 'stage-mover: %s\\n' \"$1\"\n"
	"	for job in $(squeue -h -a -u \"$(id -u)\" -t PD -o '%A %E' |\n"
	"	             sed -n \"s/^\\([0-9]*\\) "
	".*[:,?]$SLURM_JOB_ID\\([^0-9].*\\)*\\$/\\1/p\"); do\n"
	"		scontrol update \"JobId=$job\" \"Comment=mover job $SLURM_JOB_ID: $1\"\n"
	"	done\n"
	"	exit 1\n"
	"}\n"
	"fail_ended() {\n"
	"	job=$(scontrol show job \"$SLURM_JOB_ID\")\n"
	"	case $job in\n"
	"	*\" Restarts=${SLURM_RESTART_COUNT:-0} \"*) ;;\n"
	"	*\" Restarts=\"*) echo 'stage-mover: requeued, continues when it starts again'; "
	"exit "
	"1 ;;\n"
	"	esac\n"
	"	case $job in\n"
	"	*Reason=TimeLimit*) fail 'ran out of time; submit the job again, and the next "
	"mover continues' ;;\n"
	"	*) fail 'cancelled; submit the job again, and the next mover continues' ;;\n"
	"	esac\n"
	"}\n"
	"move() {\n"
	"	\"$mover\" move \"$@\" 2>&4 &\n"
	"	pid=$!\n"
	"	[ -z \"$ended\" ] || kill \"$pid\"\n"
	"	while wait \"$pid\"; status=$?; [ $status -gt 128 ] && kill -0 \"$pid\" "
	"2>/dev/null; do :; done\n"
	"	pid=\n"
	"	why=$(cat <&5)\n"
	"	[ -z \"$ended\" ] || fail_ended\n"
	"	[ $status -le 128 ] || why=\"killed by signal $((status - 128))\"\n"
	"	[ $status = 0 ] || fail \"$(printf '%s\\n' \"${why:-failed}\" | tail -n 1 | sed "
	"'s/^stage-mover: //')\"\n"
	"	[ -z \"$why\" ] || printf '%s\\n' \"$why\"\n"
	"}\n";

static void write_quoted(FILE *f, const char *text)
{
	fputc('\'', f);
	for (; *text; text++)
		if (*text == '\'')
			fputs("'\\''", f);
		else
			fputc(*text, f);
	fputc('\'', f);
}

static void write_copy(FILE *f, const struct submit_copy *c)
{
	fputs("move --source=", f);
	write_quoted(f, c->source);
	if (c->follow) {
		fputs(" --follow --match=", f);
		write_quoted(f, c->rule->match);
	}
	fputs(c->literal ? " --literal --dir=" : " --dir=", f);
	write_quoted(f, c->dir);
	fprintf(f, " --readers=%u --max-bytes=%llu --max-rate=%llu\n",
		(unsigned)c->rule->max_readers, (unsigned long long)c->rule->max_bytes,
		(unsigned long long)c->rule->max_rate);
}

/* Makes the script in a file without a name, positioned at its beginning. Returns an fd or
 * -errno. */
static int make_script(const struct submit_copy *const *copies, size_t n)
{
	_cleanup_(fd_closep) int fd = memfd_create("mover", MFD_CLOEXEC);
	_cleanup_(freep) char *text = NULL;
	char program[4096];
	size_t size;
	FILE *f;
	int r;

	if (fd < 0)
		return -errno;
	r = cmd_get_helper(program, sizeof(program), "stage-mover");
	f = r == 0 ? open_memstream(&text, &size) : NULL;
	if (!f)
		return r < 0 ? r : -ENOMEM;
	fputs("#!/bin/sh\nmover=", f);
	write_quoted(f, program);
	fputs(strchr(head, '\n'), f);
	for (size_t i = 0; i < n; i++)
		write_copy(f, copies[i]);
	if (ferror(f) | fclose(f))
		return -ENOMEM;
	r = fd_write_all(fd, text, size);
	if (r < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return r < 0 ? r : -errno;
	return steal_fd(&fd);
}

/* ---- sbatch ---- */

/* Returns whether the mover inherits the variable. Settings of Slurm and ours are for the user's
 * job. */
static bool keeps_variable(const char *v)
{
	static const char *const kept[] = { "SBATCH_ACCOUNT=", "SLURM_CONF=", "SLURM_JWT=" };
	static const char *const dropped[] = { "SBATCH_", "SLURM_", "STAGE_", "SRUN_", "SALLOC_",
					       "SPANK_",
					       /* the mover needs no keys, and the controller would
					        * store them */
					       KEYS_ENV_ACCESS "=", KEYS_ENV_SECRET "=",
					       KEYS_ENV_TOKEN "=" };

	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		if (!strncmp(v, kept[i], strlen(kept[i])))
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(dropped); i++)
		if (!strncmp(v, dropped[i], strlen(dropped[i])))
			return false;
	return true;
}

static char **get_environment(void)
{
	size_t n = 0, k = 0;
	char **env;

	while (environ[n])
		n++;
	env = calloc(n + 1, sizeof(*env));
	for (size_t i = 0; env && i < n; i++)
		if (keeps_variable(environ[i]))
			env[k++] = environ[i];
	return env;
}

static void exec_sbatch(char *const *argv, char *const *env, int in, int out)
{
	if (dup2(in, 0) < 0 || dup2(out, 1) < 0)
		_exit(126);
	execvpe(argv[0], argv, env);
	_exit(127);
}

/* Returns the exit status of sbatch and its stdout, or -errno. */
static int run_sbatch(char *const *argv, int in, char **answerp)
{
	_cleanup_(freep) char **env = get_environment();
	_cleanup_(fd_closep) int from = -1;
	int fds[2], status = -1, r;
	size_t size;
	pid_t pid;

	if (!env)
		return -ENOMEM;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	from = fds[0];
	pid = fork();
	if (pid == 0)
		exec_sbatch(argv, env, in, fds[1]);
	close(fds[1]);
	if (pid < 0)
		return -EAGAIN;
	r = fd_read_file(from, MAX_ANSWER, answerp, &size);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r < 0)
		return r;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct request {
	char *name, *partition, *time, *output, *account;
};

static void request_deinit(struct request *q)
{
	free(q->name);
	free(q->partition);
	free(q->time);
	free(q->output);
	free(q->account);
}

static char *make_name(const struct submit_copy *const *copies, size_t n)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	fputs("--job-name=" SUBMIT_JOB_NAME, f);
	for (size_t i = 0; i < n; i++)
		fprintf(f, "%s%s", i ? "-" : "", copies[i]->key);
	if (ferror(f) | fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}

static int make_request(struct request *q, const struct submit_copy *const *copies, size_t n,
			const char *account)
{
	uint64_t ms = 0;

	for (size_t i = 0; i < n; i++)
		if (copies[i]->rule->mover_time_ms > ms)
			ms = copies[i]->rule->mover_time_ms;
	q->name = make_name(copies, n);
	q->partition = strutil_printf("--partition=%s", copies[0]->rule->mover_partition);
	q->time = strutil_printf("--time=%llu", (unsigned long long)((ms + 59999) / 60000));
	q->output = strutil_printf("--output=%s/mover-%%j.log", copies[0]->base);
	if (!q->name || !q->partition || !q->time || !q->output)
		return -ENOMEM;
	if (account)
		q->account = strutil_printf("--account=%s", account);
	return account && !q->account ? -ENOMEM : 0;
}

static int submit(const struct request *q, int script, uint32_t *idp, struct error *err)
{
	char *argv[] = {
		(char *)"sbatch",
		(char *)"--parsable",
		(char *)"--nodes=1",
		(char *)"--ntasks=1",
		(char *)"--requeue",
		(char *)"--open-mode=append",
		(char *)"--chdir=/",
		q->name,
		q->partition,
		q->time,
		q->output,
		q->account,
		NULL,
	};
	_cleanup_(freep) char *answer = NULL;
	int r = run_sbatch(argv, script, &answer);

	if (r == 127)
		return error_set(err, ENOENT, "there is no sbatch here");
	if (r < 0)
		return error_errno(err, -r, "sbatch");
	if (r > 0)
		return error_set(err, EIO,
				 "sbatch has not taken the mover job, and so not the job "
				 "either");
	answer[strcspn(answer, ";\n")] = '\0';
	if (parse_uint32(answer, idp) < 0 || *idp == 0)
		return error_set(err, EIO, "sbatch does not tell the number of the mover job");
	return 0;
}

int submit_script_run(const struct submit_copy *const *copies, size_t n, const char *account,
		      uint32_t *idp, struct error *err)
{
	_cleanup_(request_deinit) struct request q = { 0 };
	_cleanup_(fd_closep) int script = -1;

	script = make_script(copies, n);
	if (script < 0)
		return error_errno(err, -script, "write the mover's script");
	if (make_request(&q, copies, n, account) < 0)
		return error_set(err, ENOMEM, "out of memory");
	return submit(&q, script, idp, err);
}
