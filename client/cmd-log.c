/*
 * A line is "TIME job=N ds=NAME text". With --all-nodes, the node's name comes after the time, and
 * the lines of all nodes are in the order of time. Those of a node arrive in that order, so that a
 * stable sort keeps them together if their times are the same.
 */
#include "client/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/output.h"
#include "client/rpc.h"
#include "client/srun.h"
#include "common/protocol/proto.h"
#include "common/util/error.h"
#include "common/util/strutil.h"

struct log_line {
	char *text;
	size_t n; /* order of arrival */
};

struct log {
	char **names;
	size_t n_names;
	bool all_nodes, node_report;
	struct log_line *lines;
	size_t n_lines;
	bool lost;  /* a line was lost because there was no memory */
	char *rest; /* see srun.h */
};

enum { OPT_ALL_NODES = 256, OPT_NODE_REPORT };

static const struct option options[] = {
	{ "all-nodes", no_argument, NULL, OPT_ALL_NODES },
	{ "node-report", no_argument, NULL, OPT_NODE_REPORT },
	{ 0 },
};

static int parse(struct log *l, int argc, char **argv)
{
	int c;

	while ((c = cmd_next_option(argc, argv, "", options)) != -1) {
		if (c == OPT_ALL_NODES)
			l->all_nodes = true;
		else if (c == OPT_NODE_REPORT)
			l->node_report = true;
		else
			return STAGE_EXIT_USAGE;
	}
	l->names = argv + optind;
	l->n_names = (size_t)(argc - optind);
	return cmd_check_names(argv[0], l->names, l->n_names) ? 0 : STAGE_EXIT_USAGE;
}

static void on_message(void *arg, const char *op, struct kv **kvp)
{
	struct log *l = arg;
	const char *text = kv_get_or_empty(*kvp, "text"), *node = kv_get_or_empty(*kvp, "node");
	size_t n_time = strcspn(text, " ");
	struct log_line *lines;

	if (strcmp(op, PROTO_OP_LINE))
		return;
	if (!*node) {
		output_text(stdout, text);
		putchar('\n');
		return;
	}
	lines = reallocarray(l->lines, l->n_lines + 1, sizeof(*lines));
	if (lines) {
		l->lines = lines;
		lines[l->n_lines] = (struct log_line){ strutil_printf("%.*s %s%s", (int)n_time,
								      text, node, text + n_time),
						       l->n_lines };
	}
	if (lines && lines[l->n_lines].text)
		l->n_lines++;
	else
		l->lost = true;
}

/* Compares the times as text, because all have the same length. */
static int by_time(const void *a, const void *b)
{
	const struct log_line *x = a, *y = b;
	size_t n = strcspn(x->text, " ");
	int r = strncmp(x->text, y->text, n);

	return r ? r : (x->n > y->n) - (x->n < y->n);
}

static void print_lines(struct log *l)
{
	if (l->n_lines)
		qsort(l->lines, l->n_lines, sizeof(*l->lines), by_time);
	for (size_t i = 0; i < l->n_lines; i++) {
		output_text(stdout, l->lines[i].text);
		putchar('\n');
		free(l->lines[i].text);
	}
	free(l->lines);
	if (l->lost)
		output_error("out of memory, lines are missing");
}

static int ask_all_nodes(struct log *l, const struct rpc_handler *h, struct error *err)
{
	const struct srun_request request = { .verb = "log",
					      .args = l->names,
					      .n_args = l->n_names,
					      .keep_going = true,
					      .none_ok = getenv("SLURM_HET_SIZE"),
					      .restp = &l->rest };

	return srun_each_node(&request, h, err);
}

static int ask_here(const struct log *l, const struct rpc_handler *h, struct error *err)
{
	_cleanup_(rpc_closep) struct rpc *rpc = NULL;
	_cleanup_(kv_freep) struct kv *request = NULL;

	if (rpc_open(&rpc, err) < 0)
		return (int)error_to_exit(err);
	request = rpc_new_request(PROTO_OP_LOG, l->names, l->n_names);
	return rpc_call(rpc, request, h, err);
}

static int cmd_log_run(int argc, char **argv)
{
	struct log l = { 0 };
	const struct rpc_handler h = { .on_message = on_message, .arg = &l };
	_cleanup_(kv_freep) struct kv *request = NULL;
	struct error err = ERROR_INIT;
	int code = parse(&l, argc, argv);

	if (code)
		return code;
	if (l.node_report) {
		request = rpc_new_request(PROTO_OP_LOG, l.names, l.n_names);
		return srun_report(request, 0, false);
	}
	if (l.all_nodes && srun_is_needed())
		code = ask_all_nodes(&l, &h, &err);
	else
		code = ask_here(&l, &h, &err);
	print_lines(&l);
	if (code) {
		output_fail(&err);
		srun_say_rest(l.rest, output_error);
	}
	free(l.rest);
	return code;
}

const struct cmd cmd_log = {
	.name = "log",
	.args = "[NAME...] [--all-nodes]",
	.summary = "print what happened, from this job's daemon on this node",
	.help = "Prints the last lines that stagingd and its workers logged for this job, or for "
		"the\n"
		"datasets named. Each line begins with its time (UTC).\n"
		"\n"
		"  --all-nodes   the lines of all nodes of the job; the node follows the time\n"
		"\n"
		"Examples:\n"
		"  stagectl log imagenet\n"
		"  SLURM_JOB_ID=4711 stagectl log --all-nodes\n",
	.run = cmd_log_run,
};
