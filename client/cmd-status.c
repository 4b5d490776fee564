#include "client/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/json.h"
#include "client/mover-look.h"
#include "client/not-begun.h"
#include "client/output.h"
#include "client/rpc.h"
#include "client/snapshot.h"
#include "client/srun.h"
#include "client/summary.h"
#include "client/table.h"
#include "common/protocol/proto.h"
#include "common/util/error.h"
#include "common/util/parse.h"
#include "stage-build.h"

#define REDRAW_MS 200

struct status {
	char **names;
	size_t n_names;
	bool json, watch, all_nodes, rows, node_report;
	bool redraws; /* --watch on a terminal */
	bool changed; /* since it was drawn last */
	struct snapshot_list list;
	char *rest; /* see srun.h */
};

enum { OPT_ALL_NODES = 256, OPT_NODES, OPT_NODE_REPORT };

static const struct option options[] = {
	{ "json", no_argument, NULL, 'j' },
	{ "watch", no_argument, NULL, 'w' },
	{ "all-nodes", no_argument, NULL, OPT_ALL_NODES },
	{ "nodes", no_argument, NULL, OPT_NODES },
	{ "node-report", no_argument, NULL, OPT_NODE_REPORT },
	{ 0 },
};

static int parse(struct status *s, int argc, char **argv)
{
	int c;

	while ((c = cmd_next_option(argc, argv, "jw", options)) != -1) {
		switch (c) {
		case 'j':
			s->json = true;
			break;
		case 'w':
			s->watch = true;
			break;
		case OPT_ALL_NODES:
			s->all_nodes = true;
			break;
		case OPT_NODES:
			s->rows = s->all_nodes = true;
			break;
		case OPT_NODE_REPORT:
			s->node_report = true;
			break;
		default:
			return STAGE_EXIT_USAGE;
		}
	}
	s->redraws = s->watch && !s->json && output_has_cursor();
	s->names = argv + optind;
	s->n_names = (size_t)(argc - optind);
	return cmd_check_names(argv[0], s->names, s->n_names) ? 0 : STAGE_EXIT_USAGE;
}

static struct kv *new_request(const struct status *s)
{
	struct kv *kv = rpc_new_request(PROTO_OP_STATUS, s->names, s->n_names);

	if (kv)
		kv_set(kv, "watch", s->watch ? "1" : "0");
	return kv;
}

static void on_message(void *arg, const char *op, struct kv **kvp)
{
	const struct snapshot *snapshot;
	struct status *s = arg;
	struct json j;

	if (strcmp(op, PROTO_OP_DATASET) || snapshot_list_update(&s->list, kvp, &snapshot) < 0)
		return;
	s->changed = true;
	if (!s->watch || s->redraws)
		return;
	json_init(&j, stdout);
	json_open_object(&j, NULL);
	snapshot_to_json(snapshot, &j);
	json_close_object(&j);
	putchar('\n');
	fflush(stdout);
}

/* code: of the question; not 0: a node has not answered. */
static const char *get_overall(const struct snapshot_list *l, int code)
{
	switch (snapshot_list_get_exit(l)) {
	case STAGE_EXIT_OK:
		return code ? "unknown" : "ready";
	case STAGE_EXIT_NOT_READY:
		return code ? "unknown" : "staging";
	default:
		return "failed";
	}
}

static void print_json(const struct status *s, int code)
{
	struct json j;

	json_init(&j, stdout);
	json_open_object(&j, NULL);
	json_put_text(&j, "version", STAGE_VERSION);
	json_put_text(&j, "state", get_overall(&s->list, code));
	json_open_array(&j, "datasets");
	for (size_t i = 0; i < s->list.n_items; i++) {
		json_open_object(&j, NULL);
		snapshot_to_json(&s->list.items[i], &j);
		json_close_object(&j);
	}
	json_close_array(&j);
	json_close_object(&j);
	putchar('\n');
}

/* clang-format off */
static const struct table_column columns[] = {
	{ "NODE",   false },
	{ "NAME",   false },
	{ "STATE",  false },
	{ "METHOD", false },
	{ "TIER",   false },
	{ "SIZE",   true },
	{ "DONE",   true },
	{ "RATE",   true },
	{ "ETA",    true },
	{ "PATH",   false },
};
/* clang-format on */

/* Adds the text up to the end of its line. */
static int add_warning(struct table *t, const char *line)
{
	_cleanup_(freep) char *text = strndup(line, strcspn(line, "\n"));

	return text ? table_add_note(t, text) : -ENOMEM;
}

static int add_row(struct table *t, const struct snapshot *s, bool with_node)
{
	char size[PARSE_SIZE_TEXT] = "", rate[OUTPUT_RATE_TEXT] = "", eta[PARSE_DURATION_TEXT] = "";
	char done[PARSE_SIZE_TEXT] = "", state[SNAPSHOT_STATE_TEXT];
	int percent = snapshot_get_percent(s), r;

	if (s->total)
		size_to_string(s->total, size);
	if (s->state == STAGE_RELEASED)
		done[0] = '\0';
	else if (percent >= 0 && (s->total || s->state == STAGE_READY))
		snprintf(done, sizeof(done), "%d %%", percent);
	else if (s->bytes)
		size_to_string(s->bytes, done);
	if (s->rate && !stage_state_is_final(s->state))
		rate_to_string(s->rate, rate);
	if (s->eta_ms && !stage_state_is_final(s->state))
		duration_to_string(s->eta_ms, eta);
	const char *cells[] = { s->node,   s->name, snapshot_get_state(s, state),
				s->method, s->tier, size,
				done,	   rate,    eta,
				s->path };

	r = table_add_row(t, cells + !with_node);
	if (r == 0 && output_has_colour())
		table_set_colour(t, with_node ? 2 : 1,
				 s->state == STAGE_FAILED  ? OUTPUT_RED
				 : s->state == STAGE_READY ? OUTPUT_GREEN
							   : NULL);
	if (r == 0 && s->reason[0] && strcmp(s->reason, stage_state_to_string(s->state)))
		r = table_add_note(t, s->reason);
	for (const char *line = s->warning; r == 0 && *line; line += *line == '\n') {
		r = add_warning(t, line);
		line += strcspn(line, "\n");
	}
	return r;
}

static int print_table(const struct status *s, FILE *f)
{
	_cleanup_(table_freep) struct table *t = NULL;
	size_t skip = s->all_nodes ? 0 : 1;

	if (s->all_nodes && !s->rows && summary_is_wanted(&s->list))
		return summary_print(&s->list, f);
	if (table_new(&t, columns + skip, ARRAY_SIZE(columns) - skip) < 0)
		return -1;
	for (size_t i = 0; i < s->list.n_items; i++)
		if (add_row(t, &s->list.items[i], s->all_nodes) < 0)
			return -1;
	table_print(t, f);
	if (s->list.n_items == 0)
		fputs("This job has no datasets.\n", f);
	return 0;
}

/* Draws the table from the top of the screen, cut at its height. The terminal cuts lines that are
 * too long; if it wrapped them, they would move the other lines. */
static void redraw(const struct status *s)
{
	_cleanup_(freep) char *text = NULL;
	size_t size, n, n_lines = output_get_height();
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return;
	print_table(s, f);
	if (fclose(f))
		return;
	fputs("\033[?7l\033[H", stdout);
	for (const char *line = text; *line && n_lines > 1; line += n + (line[n] == '\n')) {
		n = strcspn(line, "\n");
		printf("%.*s\033[K\n", (int)n, line);
		n_lines--;
	}
	fputs("\033[J\033[?7h", stdout);
	fflush(stdout);
}

static uint64_t on_tick(void *arg)
{
	struct status *s = arg;

	if (s->changed) {
		if (s->all_nodes)
			snapshot_list_sort(&s->list);
		redraw(s);
	}
	s->changed = false;
	return REDRAW_MS;
}

static int ask(struct status *s, struct error *err)
{
	struct rpc_handler h = { .on_message = on_message,
				 .on_tick = s->redraws ? on_tick : NULL,
				 .first_tick_ms = REDRAW_MS,
				 .arg = s };
	struct srun_request request = { .verb = "status",
					.keep_going = true,
					.none_ok = getenv("SLURM_HET_SIZE"),
					.restp = &s->rest };
	_cleanup_(kv_freep) struct kv *kv = new_request(s);
	_cleanup_(freep) char **args = calloc(s->n_names + 2, sizeof(*args));
	char watch[] = "--watch";
	int r;

	if (!s->all_nodes || !srun_is_needed())
		return not_begun_or_call(kv, &h, err);
	if (!args) {
		error_set(err, ENOMEM, "out of memory");
		return STAGE_EXIT_FAILED;
	}
	if (s->watch)
		args[request.n_args++] = watch;
	for (size_t i = 0; i < s->n_names; i++)
		args[request.n_args++] = s->names[i];
	request.args = args;
	r = srun_each_node(&request, &h, err);
	snapshot_list_sort(&s->list);
	return r;
}

/* Before the job has begun, shows the movers that it waits for. Returns false if there is no mover,
 * or if the user did not ask for a table. */
static bool show_movers(const struct status *s, int code)
{
	struct error err = ERROR_INIT;

	if (code != STAGE_EXIT_NO_STAGING || s->n_names || s->json || s->watch || s->all_nodes ||
	    getenv("SLURM_JOB_ID"))
		return false;
	return mover_look_print(&err) > 0;
}

/* With --watch, the lines of JSON have been printed already. */
static void print(const struct status *s, int code)
{
	if ((s->watch && !s->redraws) || (code && !s->list.n_items))
		return;
	if (s->redraws)
		fputs("\033[H\033[J", stdout);
	if (s->json)
		print_json(s, code);
	else
		print_table(s, stdout);
}

static int cmd_status_run(int argc, char **argv)
{
	struct status s = { 0 };
	_cleanup_(kv_freep) struct kv *request = NULL;
	struct error err = ERROR_INIT;
	int code;

	code = parse(&s, argc, argv);
	if (code)
		return code;
	if (s.node_report) {
		request = new_request(&s);
		return srun_report(request, 0, false);
	}
	code = ask(&s, &err);
	if (show_movers(&s, code))
		return STAGE_EXIT_NOT_READY;
	print(&s, code);
	if (code) {
		output_fail(&err);
		srun_say_rest(s.rest, output_error);
	} else {
		code = snapshot_list_get_exit(&s.list);
	}
	free(s.rest);
	snapshot_list_deinit(&s.list);
	return code;
}

const struct cmd cmd_status = {
	.name = "status",
	.args = "[NAME...] [--json] [--watch] [--all-nodes] [--nodes]",
	.summary = "show the states and the progress of the datasets",
	.help = "Prints a table of the datasets of this job on this node. The reason for a failure "
		"is below\n"
		"its dataset. Outside of jobs, prints your movers, like list --movers.\n"
		"\n"
		"  -j, --json     one JSON object: {\"version\", \"state\", \"datasets\": [...]}\n"
		"  -w, --watch    continue until all are ready or failed. On a terminal, the table "
		"is\n"
		"                 redrawn. Otherwise, and with --json, print a line of JSON at "
		"each change\n"
		"  --all-nodes    all nodes of the job (by an srun step); with more than 8 nodes, "
		"one line\n"
		"                 per dataset, then the failed nodes with their reasons\n"
		"  --nodes        the same, but always a row per node and dataset\n"
		"\n"
		"Examples:\n"
		"  stagectl status\n"
		"  stagectl status --json | jq -r '.datasets[] | select(.state == \"failed\") | "
		".reason'\n"
		"\n"
		"Exit status: 0 all are ready; 3 some are not yet; 1, 6 or 7 one has failed;\n"
		"4 no such dataset; 5 no staging here.\n",
	.run = cmd_status_run,
};
