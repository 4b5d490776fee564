#include "client/cmd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/chart.h"
#include "client/not-begun.h"
#include "client/out-file.h"
#include "client/output.h"
#include "client/report-file.h"
#include "client/rpc.h"
#include "client/snapshot.h"
#include "client/srun.h"
#include "client/summary.h"
#include "client/table.h"
#include "client/timeline.h"
#include "common/protocol/proto.h"
#include "common/util/error.h"
#include "common/util/parse.h"

#define TEXT_MAX_ROWS 32
#define TEXT_CELLS 40

enum { OPT_SVG = 256, OPT_HTML, OPT_SAVE, OPT_FROM, OPT_NODE_REPORT };

struct report_options {
	const char *svg, *html, *save, *from;
	bool node_report;
};

static const struct option options[] = {
	{ "svg", required_argument, NULL, OPT_SVG },
	{ "html", required_argument, NULL, OPT_HTML },
	{ "save", required_argument, NULL, OPT_SAVE },
	{ "from", required_argument, NULL, OPT_FROM },
	{ "node-report", no_argument, NULL, OPT_NODE_REPORT },
	{ 0 },
};

static int parse(struct report_options *o, int argc, char **argv)
{
	int c;

	while ((c = cmd_next_option(argc, argv, "", options)) != -1) {
		switch (c) {
		case OPT_SVG:
			o->svg = optarg;
			break;
		case OPT_HTML:
			o->html = optarg;
			break;
		case OPT_SAVE:
			o->save = optarg;
			break;
		case OPT_FROM:
			o->from = optarg;
			break;
		case OPT_NODE_REPORT:
			o->node_report = true;
			break;
		default:
			return STAGE_EXIT_USAGE;
		}
	}
	if (optind < argc)
		return output_usage(argv[0], "it takes no arguments: %s", argv[optind]);
	if (o->save && o->from)
		return output_usage(argv[0], "--save and --from do not go together");
	return 0;
}

static struct kv *new_request(void)
{
	struct kv *kv = rpc_new_request(PROTO_OP_STATUS, NULL, 0);

	if (kv)
		kv_set(kv, "history", "1");
	return kv;
}

static void on_message(void *arg, const char *op, struct kv **kvp)
{
	struct snapshot_list *l = arg;
	const char *job = getenv("SLURM_JOB_ID");

	if (strcmp(op, PROTO_OP_DATASET) != 0)
		return;
	if (job)
		kv_set(*kvp, "job", job);
	(void)snapshot_list_update(l, kvp, NULL);
}

static int ask_nodes(struct snapshot_list *l, char **restp, struct error *err)
{
	struct rpc_handler h = { .on_message = on_message, .arg = l };
	struct srun_request request = { .verb = "report",
					.keep_going = true,
					.none_ok = getenv("SLURM_HET_SIZE"),
					.restp = restp };
	_cleanup_(kv_freep) struct kv *kv = NULL;

	if (srun_is_needed())
		return srun_each_node(&request, &h, err);
	kv = new_request();
	return not_begun_or_call(kv, &h, err);
}

static int collect(const struct report_options *o, struct snapshot_list *l, char **restp,
		   struct error *err)
{
	if (!o->from)
		return ask_nodes(l, restp, err);
	return report_file_read(l, o->from, err) < 0 ? STAGE_EXIT_FAILED : STAGE_EXIT_OK;
}

static int save(const char *path, const struct timeline_list *l,
		int (*write_list)(const struct timeline_list *l, FILE *f))
{
	struct out_file o;
	int r = out_file_open(&o, path);

	if (r == 0)
		r = out_file_close(&o, write_list(l, o.f));
	if (r == 0)
		return STAGE_EXIT_OK;
	output_error("write %s: %s", path, strerror(-r));
	return STAGE_EXIT_FAILED;
}

/* Draws one character for each period: the state at its end. */
static void draw_cells(const struct timeline_list *l, const struct timeline *t,
		       char cells[static TEXT_CELLS + 1])
{
	static const char marks[STAGE_N_STATES + 1] = ".?-#=xxxx";
	uint64_t all = l->end_ms - l->begun_ms;

	for (uint64_t i = 0; i < TEXT_CELLS; i++) {
		uint64_t at = l->begun_ms + all * (i + 1) / TEXT_CELLS;

		cells[i] = ' ';
		for (size_t k = 0; k < t->n_states; k++)
			if (at >= t->begun_ms + t->states[k].ms)
				cells[i] = marks[t->states[k].state];
	}
	cells[TEXT_CELLS] = '\0';
}

/* clang-format off */
static const struct table_column columns[] = {
	{ "NAME",  false },
	{ "NODES", false },
	{ "STATE", false },
	{ "TIME",  true },
	{ "BYTES", true },
	{ "TIMELINE", false },
}, columns_with_reads[] = {
	{ "NAME",  false },
	{ "NODES", false },
	{ "STATE", false },
	{ "TIME",  true },
	{ "LASTREAD", true },
	{ "BYTES", true },
	{ "TIMELINE", false },
};
/* clang-format on */

static int add_row(struct table *t, const struct timeline_list *l, const struct timeline_row *row,
		   bool with_reads)
{
	const struct timeline *line = row->timeline;
	const struct snapshot *s = line->snapshot;
	char nodes[560], marks[TEXT_CELLS + 1], cells[TEXT_CELLS + 350], time[PARSE_DURATION_TEXT],
		read[PARSE_DURATION_TEXT] = "-", size[PARSE_SIZE_TEXT],
		failed[TIMELINE_FAILED_TEXT] = "";
	const char *texts[] = {
		s->name, nodes, stage_state_to_string(s->state), time, size, cells
	};
	const char *texts_with_reads[] = { s->name, nodes, stage_state_to_string(s->state),
					   time,    read,  size,
					   cells };

	snprintf(nodes, sizeof(nodes), "%.255s%s%.255s", row->first, row->n_nodes > 1 ? "..." : "",
		 row->n_nodes > 1 ? row->last : "");
	duration_to_tenths(timeline_get_wait_ms(line), time);
	size_to_string(s->bytes, size);
	if (line->last_read_ms)
		duration_to_tenths(line->last_read_ms, read);
	draw_cells(l, line, marks);
	if (row->n_nodes > 1)
		timeline_row_failed_to_string(row, failed);
	snprintf(cells, sizeof(cells), "%s%s%s%s%.255s", marks, failed[0] ? " " : "",
		 failed + strspn(failed, ","), row->slowest ? "  slowest: " : "",
		 row->slowest ? row->slowest : "");
	return table_add_row(t, with_reads ? texts_with_reads : texts);
}

static bool has_reads(const struct timeline_list *l)
{
	for (size_t i = 0; i < l->n_items; i++)
		if (l->items[i].last_read_ms)
			return true;
	return false;
}

static void print_memory(const struct timeline_list *l)
{
	char text[TIMELINE_MEMORY_TEXT];

	if (timeline_list_get_memory(l, text))
		output_line(stdout, text);
}

static int print_text(const struct timeline_list *l, const struct snapshot_list *snapshots)
{
	_cleanup_(table_freep) struct table *t = NULL;
	_cleanup_(freep) struct timeline_row *rows = NULL;
	char time[PARSE_DURATION_TEXT];
	size_t n_rows;
	const bool with_reads = has_reads(l);
	int r = timeline_list_get_rows(l, TEXT_MAX_ROWS, &rows, &n_rows);

	if (r == 0)
		r = with_reads ? table_new(&t, columns_with_reads, ARRAY_SIZE(columns_with_reads))
			       : table_new(&t, columns, ARRAY_SIZE(columns));
	for (size_t i = 0; r == 0 && i < n_rows; i++)
		r = add_row(t, l, &rows[i], with_reads);
	if (r < 0)
		return STAGE_EXIT_FAILED;
	table_print(t, stdout);
	summary_print_failures(snapshots, stdout);
	print_memory(l);
	printf("%d marks are %s. A mark is a state: . queued, ? probing, - preparing, # staging, = "
	       "ready,\n"
	       "x failed or removed. A group is shown by a node that failed, or else by its "
	       "slowest node.\n",
	       TEXT_CELLS, duration_to_tenths(l->end_ms - l->begun_ms, time));
	return STAGE_EXIT_OK;
}

static int show(const struct report_options *o, const struct timeline_list *l,
		const struct snapshot_list *snapshots)
{
	int code = STAGE_EXIT_OK;

	if (!l->n_items) {
		output_error("there is nothing to report: no dataset of this job has a history");
		return STAGE_EXIT_NO_ITEM;
	}
	if (o->svg)
		code = save(o->svg, l, chart_write_svg);
	if (o->html && code == STAGE_EXIT_OK)
		code = save(o->html, l, chart_write_html);
	if (o->save && code == STAGE_EXIT_OK)
		code = save(o->save, l, report_file_write);
	return o->svg || o->html || o->save ? code : print_text(l, snapshots);
}

static int cmd_report_run(int argc, char **argv)
{
	struct report_options o = { 0 };
	struct snapshot_list snapshots = { 0 };
	struct timeline_list l = { 0 };
	_cleanup_(kv_freep) struct kv *request = NULL;
	_cleanup_(freep) char *rest = NULL;
	struct error err = ERROR_INIT;
	int code = parse(&o, argc, argv);

	if (code)
		return code;
	if (o.node_report) {
		request = new_request();
		return srun_report(request, 0, false);
	}
	code = collect(&o, &snapshots, &rest, &err);
	if (code) {
		output_fail(&err);
		srun_say_rest(rest, output_error);
	}
	if (code && (o.from || !snapshots.n_items)) {
		snapshot_list_deinit(&snapshots);
		return (int)error_to_exit(&err);
	}
	if (timeline_list_init(&l, &snapshots) < 0 || show(&o, &l, &snapshots) != STAGE_EXIT_OK)
		code = STAGE_EXIT_FAILED;
	timeline_list_deinit(&l);
	snapshot_list_deinit(&snapshots);
	return code;
}

const struct cmd cmd_report = {
	.name = "report",
	.args = "[--svg FILE] [--html FILE] [--save FILE | --from FILE]",
	.summary = "show what staging did, and when, on all nodes",
	.help = "Prints a line for each dataset and node of this job: when it was queued, probed, "
		"staged\n"
		"and ready. The slowest node of each dataset is marked. If there are many nodes, "
		"several\n"
		"nodes share a line.\n"
		"\n"
		"  --svg FILE    draw the report as an SVG file, with the rate over time\n"
		"  --html FILE   the same as a page for a browser\n"
		"  --save FILE   write the data of the report, as JSON\n"
		"  --from FILE   read the report from a file of --save, on any machine, also after "
		"the job\n"
		"\n"
		"Examples:\n"
		"  stagectl report\n"
		"  SLURM_JOB_ID=4711 stagectl report --html staging.html\n"
		"  stagectl report --save staging.json    # at the end of a job's script\n"
		"  stagectl report --from staging.json --svg staging.svg\n"
		"\n"
		"Exit status: 0 ok; 1 a node did not answer, or a file cannot be read or "
		"written; 5 no\n"
		"staging here.\n",
	.run = cmd_report_run,
};
