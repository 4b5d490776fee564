/*
 * Waiting is one request, which the daemon answers when the datasets are ready, so nothing is
 * polled. With --all-nodes, every node of the job does this, and the first one that fails ends it.
 * The plugin uses --hold for a batch script or a task that waits. It prints nothing at first, and
 * later few lines, because hundreds of tasks share one terminal. Of the tasks of a node, only one
 * prints lines.
 */
#include "client/cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/bring-keys.h"
#include "client/output.h"
#include "client/progress-bar.h"
#include "client/rpc.h"
#include "client/mount-visible.h"
#include "client/snapshot.h"
#include "client/srun.h"
#include "client/step-id.h"
#include "client/summary.h"
#include "client/job-time-left.h"
#include "client/warnings.h"
#include "common/protocol/proto.h"
#include "common/protocol/rundir.h"
#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "common/util/error.h"
#include "common/util/parse.h"
#include "common/util/path.h"

#define HOLD_SILENT_MS 5000
#define HOLD_SILENT_TERMINAL_MS 1000 /* if stderr is a terminal */
#define HOLD_EVERY_MS 60000
#define HOLD_TICK_MS 5000
#define LATE_AFTER_MS 5000 /* the rate of the first moments says little */
#define LATE_MAX_QUESTIONS 3
#define HOLD_PATIENCE_MS 5000
#define PATH_OF "STAGE_DATA_PATH_" /* prefix of the variables in the environment file */

struct wait {
	char **names;
	size_t n_names;
	uint64_t timeout_ms;
	bool any, all_nodes, quiet, hold, node_report, none_ok;
	bool is_later_task; /* not the first task of its node */
	bool mute;	    /* a held one of these */
	const struct rpc *rpc;
	struct snapshot_list list;
	struct warnings warnings;
	struct progress *progress;
	char *rest; /* see srun.h */
	uint64_t next_line_ms;
	uint64_t begun_ms;
	unsigned n_questions; /* to Slurm, when the job ends */
	uint64_t job_end_ms;  /* 0: not asked for yet; UINT64_MAX: unknown, or it was told */
};

enum { OPT_ANY = 256, OPT_ALL_NODES, OPT_HOLD, OPT_NODE_REPORT, OPT_NONE_OK };

static const struct option options[] = {
	{ "timeout", required_argument, NULL, 't' },
	{ "any", no_argument, NULL, OPT_ANY },
	{ "all-nodes", no_argument, NULL, OPT_ALL_NODES },
	{ "quiet", no_argument, NULL, 'q' },
	{ "hold", no_argument, NULL, OPT_HOLD },
	{ "node-report", no_argument, NULL, OPT_NODE_REPORT },
	{ "none-ok", no_argument, NULL, OPT_NONE_OK },
	{ 0 },
};

static int parse(struct wait *w, int argc, char **argv)
{
	const char *local_id = getenv("SLURM_LOCALID");
	int c;

	while ((c = cmd_next_option(argc, argv, "qt:", options)) != -1) {
		switch (c) {
		case 't':
			if (cmd_get_timeout(argv[0], optarg, &w->timeout_ms) < 0)
				return STAGE_EXIT_USAGE;
			break;
		case 'q':
			w->quiet = true;
			break;
		case OPT_ANY:
			w->any = true;
			break;
		case OPT_ALL_NODES:
			w->all_nodes = true;
			break;
		case OPT_HOLD:
			w->hold = true;
			break;
		case OPT_NODE_REPORT:
			w->node_report = true;
			break;
		case OPT_NONE_OK:
			w->none_ok = true;
			break;
		default:
			return STAGE_EXIT_USAGE;
		}
	}
	w->names = argv + optind;
	w->n_names = (size_t)(argc - optind);
	w->is_later_task = local_id && strcmp(local_id, "0");
	w->mute = w->hold && w->is_later_task;
	return cmd_check_names(argv[0], w->names, w->n_names) ? 0 : STAGE_EXIT_USAGE;
}

static struct kv *new_request(const struct wait *w)
{
	struct kv *kv = rpc_new_request(PROTO_OP_WAIT, w->names, w->n_names);

	if (kv) {
		kv_set(kv, "any", w->any ? "1" : "0");
		kv_set(kv, "keys", "1");
		kv_set(kv, "progress", (w->quiet || w->mute) && !w->node_report ? "0" : "1");
	}
	return kv;
}

static void on_message(void *arg, const char *op, struct kv **kvp)
{
	const struct snapshot *changed;
	struct wait *w = arg;

	if (!strcmp(op, PROTO_OP_NEEDKEYS) && w->rpc)
		bring_keys(w->rpc);
	if (!strcmp(op, PROTO_OP_WARNING))
		(void)warnings_add(&w->warnings, kvp);
	if (strcmp(op, PROTO_OP_DATASET) || snapshot_list_update(&w->list, kvp, &changed) < 0)
		return;
	if (w->progress)
		progress_update(w->progress, &w->list, changed);
}

/* Returns whether this process asks Slurm. Only one does for each job, or for each step whose tasks
 * are held. */
static bool asks_slurm(void)
{
	const char *node_id = getenv("SLURM_NODEID");

	return !node_id || !strcmp(node_id, "0");
}

/* Sets job_end_ms to the time when the job ends. The wait handles nothing else until Slurm has
 * answered. If Slurm is slow, job_end_ms becomes 0, and a later tick asks again. */
static void ask_when_it_ends(struct wait *w, uint64_t now_ms)
{
	uint64_t left_ms;
	int r = asks_slurm() ? job_time_left_ask(&left_ms) : -ENOENT;

	w->job_end_ms = 0;
	if (r == 0)
		w->job_end_ms = now_ms + left_ms;
	else if (r != -ETIMEDOUT || ++w->n_questions == LATE_MAX_QUESTIONS)
		w->job_end_ms = UINT64_MAX;
}

static bool is_late(const struct wait *w, uint64_t ready_ms)
{
	return w->job_end_ms && ready_ms > w->job_end_ms;
}

/* Warns, while the user can still submit the job with more time, that the job ends before its data
 * is ready. An earlier answer of Slurm may be wrong by now: the time limit can be changed, and a
 * job that was suspended ends later. So Slurm is asked again before the warning. */
static void tell_if_late(struct wait *w)
{
	char need[PARSE_DURATION_TEXT], left[PARSE_DURATION_TEXT];
	const struct snapshot *s = snapshot_list_get_slowest(&w->list, &(size_t){ 0 });
	uint64_t now_ms = clock_ms(), left_ms;

	if (!s || !s->eta_ms || w->job_end_ms == UINT64_MAX || now_ms < w->begun_ms + LATE_AFTER_MS)
		return;
	if (!w->job_end_ms || is_late(w, now_ms + s->eta_ms))
		ask_when_it_ends(w, now_ms);
	if (!is_late(w, now_ms + s->eta_ms))
		return;
	left_ms = w->job_end_ms > now_ms ? w->job_end_ms - now_ms : 0;
	output_held("warning: staging %s needs %s more, the job has %s left; ask for more --time",
		    s->name, duration_to_string(s->eta_ms, need),
		    duration_to_string(left_ms, left));
	w->job_end_ms = UINT64_MAX;
}

static uint64_t on_hold_tick(void *arg)
{
	struct wait *w = arg;
	char text[512];

	tell_if_late(w);
	if (clock_ms() < w->next_line_ms)
		return HOLD_TICK_MS;
	w->next_line_ms = clock_ms() + HOLD_EVERY_MS;
	progress_hold_text(&w->list, text, sizeof(text));
	output_held("%s", text[0] ? text : "waiting for the datasets of this job");
	return HOLD_TICK_MS;
}

static uint64_t on_progress_tick(void *arg)
{
	struct wait *w = arg;

	return progress_tick(w->progress, &w->list);
}

/* Asks each node with one step. The step gets this command's arguments, except those for this
 * process only. A component of a heterogeneous job that asked for no dataset has nothing to wait
 * for. */
static int wait_all_nodes(struct wait *w, const struct rpc_handler *h, struct error *err)
{
	struct srun_request request = { .verb = "wait",
					.none_ok = w->none_ok || getenv("SLURM_HET_SIZE"),
					.restp = &w->rest };
	_cleanup_(freep) char **args = calloc(w->n_names + 4, sizeof(*args));
	char any[] = "--any", hold[] = "--hold", quiet[] = "--quiet";

	if (!args) {
		error_set(err, ENOMEM, "out of memory");
		return STAGE_EXIT_FAILED;
	}
	if (w->hold)
		args[request.n_args++] = hold;
	if (w->any)
		args[request.n_args++] = any;
	if (w->quiet || !warnings_are_told_here())
		args[request.n_args++] = quiet;
	for (size_t i = 0; i < w->n_names; i++)
		args[request.n_args++] = w->names[i];
	request.args = args;
	return srun_each_node(&request, h, err);
}

/* Returns whether all datasets are ready, when stagingd has died. Its environment file names all
 * datasets of the job. The path of a dataset exists as soon as the dataset is ready. Only names are
 * looked up; an image server is not asked, because it may hang. */
static bool are_all_ready(const char *socket)
{
	_cleanup_(file_closep) FILE *f = NULL;
	_cleanup_(freep) char *line = NULL;
	char path[PATH_MAX];
	size_t size = 0;
	unsigned n = 0;
	struct statx st;
	const char *at;

	if (snprintf(path, sizeof(path), "%.*s" RUNDIR_ENV, (int)(path_base(socket) - socket),
		     socket) >= (int)sizeof(path))
		return false;
	f = fopen(path, "re");
	while (f && getline(&line, &size, f) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, PATH_OF, strlen(PATH_OF)) || !strchr(line, '='))
			continue;
		at = strchr(line, '=') + 1;
		if (statx(AT_FDCWD, at, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, 0, &st) < 0 ||
		    mount_visible_waits(at))
			return false;
		n++;
	}
	return n > 0;
}

/* Lets a held task continue without stagingd if all datasets are ready. */
static int hold_alone(const struct wait *w, int code)
{
	char path[256];

	if (!w->hold || code != STAGE_EXIT_NO_STAGING ||
	    rpc_find_socket(path, sizeof(path), NULL) < 0 || !are_all_ready(path))
		return code;
	if (!w->mute && !w->quiet)
		fprintf(stderr, "stage-data: stagingd of this job does not answer, and nothing "
				"more is staged on this node; "
				"all datasets are ready, so the task begins\n");
	return STAGE_EXIT_OK;
}

static bool has_warning(const struct snapshot_list *l)
{
	for (size_t i = 0; i < l->n_items; i++)
		if (l->items[i].warning[0])
			return true;
	return false;
}

static int wait_here(struct wait *w, const struct rpc_handler *h, struct error *err)
{
	_cleanup_(rpc_closep) struct rpc *rpc = NULL;
	_cleanup_(kv_freep) struct kv *request = new_request(w);
	int code;

	if ((w->hold ? rpc_open_early(&rpc, HOLD_PATIENCE_MS, err) : rpc_open(&rpc, err)) < 0)
		return hold_alone(w, (int)error_to_exit(err));
	w->rpc = rpc;
	code = rpc_call(rpc, request, h, err);
	if (code == STAGE_EXIT_NO_STAGING)
		return hold_alone(w, code);
	if (code == STAGE_EXIT_OK && !w->quiet && warnings_are_told_here() && has_warning(&w->list))
		warnings_ask(rpc, w->names, w->n_names, on_message, w);
	return code == STAGE_EXIT_OK ? mount_visible_check(&w->list, err) : code;
}

/* Prints the paths in the order of the list. Each path is printed once, because it is the same on
 * all nodes. With --any, nodes may have different datasets. */
static int print_paths(const struct wait *w)
{
	_cleanup_(freep) struct summary *all = NULL;
	size_t n = 0;

	if (summary_of_all(&all, &n, &w->list) < 0) {
		output_error("out of memory");
		return STAGE_EXIT_FAILED;
	}
	for (size_t i = 0; i < n; i++) {
		if (!all[i].n_states[STAGE_READY])
			continue;
		output_text(stdout, all[i].fastest->path);
		putchar('\n');
	}
	return STAGE_EXIT_OK;
}

/* Names the unfinished datasets: "timed out, still to come: …". */
static void explain_timeout(const struct wait *w, struct error *err)
{
	char text[512];

	progress_hold_text(&w->list, text, sizeof(text));
	if (text[0])
		error_exit(err, STAGE_EXIT_TIMEOUT, ETIMEDOUT, "timed out, still to come: %s",
			   text);
}

/* Prints the reason why a held script or task does not begin; its user has not run stagectl. With
 * several nodes, the text names those that failed. */
static void tell_failure(const struct wait *w, int code, const struct error *err)
{
	const char *what = step_id_is_of_srun(getenv("SLURM_STEP_ID")) ? "task" : "script";
	const char *node = w->all_nodes ? NULL : getenv("SLURMD_NODENAME");

	if (!w->hold || code == STAGE_EXIT_INTERRUPTED) {
		output_error("%s", err->text);
		srun_say_rest(w->rest, output_error);
		return;
	}
	output_held("staging failed%s%s, so the %s was not started: %s", node ? " on " : "",
		    node ?: "", what, err->text);
	srun_say_rest(w->rest, output_held);
}

static int cmd_wait_run(int argc, char **argv)
{
	struct wait w = { .begun_ms = clock_ms() };
	struct rpc_handler h = { .on_message = on_message, .arg = &w };
	_cleanup_(kv_freep) struct kv *request = NULL;
	struct error err = ERROR_INIT;
	int code;

	code = parse(&w, argc, argv);
	if (code)
		return code;
	if (w.node_report) {
		request = new_request(&w);
		return srun_report(request, w.hold ? HOLD_PATIENCE_MS : 0, !w.quiet);
	}
	h.timeout_ms = w.timeout_ms;
	if (w.hold && !w.quiet && !w.mute) {
		h.on_tick = on_hold_tick;
		h.first_tick_ms = isatty(STDERR_FILENO) ? HOLD_SILENT_TERMINAL_MS : HOLD_SILENT_MS;
	}
	if (!w.hold && !w.quiet)
		progress_new(&w.progress, stderr, PROGRESS_AUTO);
	if (w.progress)
		progress_set_nodes(w.progress,
				   w.all_nodes && srun_is_needed() ? srun_get_n_nodes() ?: 1 : 0);
	if (w.progress && !w.is_later_task) {
		h.on_tick = on_progress_tick;
		h.first_tick_ms = PROGRESS_TICK_MS;
	}
	if (w.all_nodes && srun_is_needed())
		code = wait_all_nodes(&w, &h, &err);
	else
		code = wait_here(&w, &h, &err);
	if (w.progress)
		progress_end(w.progress, &w.list);
	progress_free(w.progress);
	if (code == STAGE_EXIT_NO_STAGING && w.none_ok && srun_get_n_nodes() <= 1)
		code = STAGE_EXIT_OK;
	if (code == STAGE_EXIT_TIMEOUT)
		explain_timeout(&w, &err);
	if (code && !w.mute)
		tell_failure(&w, code, &err);
	free(w.rest);
	/* Print them for any exit status: a later wait does not get these warnings again. */
	if (warnings_are_told_here())
		warnings_print(stderr, &w.warnings, &w.list, w.hold ? "stage-data" : "stagectl");
	if (!w.hold && (code == STAGE_EXIT_OK || w.any) && print_paths(&w) != STAGE_EXIT_OK)
		code = STAGE_EXIT_FAILED;
	warnings_deinit(&w.warnings);
	snapshot_list_deinit(&w.list);
	return code;
}

const struct cmd cmd_wait = {
	.name = "wait",
	.args = "[NAME...] [--timeout DURATION] [--any] [--all-nodes] [-q]",
	.summary = "wait until datasets are ready, and print their paths",
	.help = "Blocks until the datasets named (without names: all of this job) are ready on "
		"this\n"
		"node, then prints their paths, one on each line. Progress goes to stderr: a "
		"progress bar\n"
		"on a terminal, otherwise a line every 10 % and every minute. Each warning is "
		"printed once\n"
		"in a job.\n"
		"\n"
		"  --timeout DURATION   give up after this time (90, 5m, 1h30m), exit status 124\n"
		"  --any                wait until one of the datasets is ready\n"
		"  --all-nodes          wait until all are ready on every node of the job. The "
		"first node\n"
		"                       that fails ends the wait; the message has its name and the "
		"reason\n"
		"  -q, --quiet          no progress and no warnings\n"
		"\n"
		"Examples:\n"
		"  stagectl wait && srun python train.py\n"
		"  DATA=$(stagectl wait -q imagenet) || exit\n"
		"  stagectl wait --all-nodes --timeout 20m\n"
		"\n"
		"Exit status: 0 ready; 1 staging failed; 4 no such dataset; 5 no staging here;\n"
		"6 refused by the site; 7 no space or memory; 124 timed out; 130 interrupted.\n",
	.run = cmd_wait_run,
};
