/*
 * Inside a job, a NAME is explained from the facts that the daemon has. Everything else is an ITEM.
 * It is planned by a worker that this process starts, and is not staged. --json prints the same on
 * one line.
 */
#include "client/cmd.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/explain-moved.h"
#include "client/items.h"
#include "client/json.h"
#include "client/output.h"
#include "client/plan-ask.h"
#include "client/rpc.h"
#include "client/snapshot.h"
#include "client/srun.h"
#include "client/submit-copy.h"
#include "client/break-even.h"
#include "common/config/conf.h"
#include "common/protocol/proto.h"
#include "common/util/error.h"
#include "common/util/parse.h"
#include "stage-build.h"

#define DEFAULT_TIMEOUT_MS 120000

struct explain {
	const struct conf *conf; /* this machine's configuration; NULL if it cannot be read */
	struct plan_request request;
	struct break_even_asked break_even;
	bool json;
	struct json j;
	size_t n_said; /* number of datasets printed so far */
};

enum { OPT_MEM = 256, OPT_TIMEOUT, OPT_RATE, OPT_EPOCH, OPT_NODES, OPT_JSON };

static const struct option options[] = {
	{ "mem", required_argument, NULL, OPT_MEM },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "rate", required_argument, NULL, OPT_RATE },
	{ "epoch", required_argument, NULL, OPT_EPOCH },
	{ "nodes", required_argument, NULL, OPT_NODES },
	{ "json", no_argument, NULL, OPT_JSON },
	{ 0 },
};

static void print_field(const char *name, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static void print_field(const char *name, const char *fmt, ...)
{
	_cleanup_(freep) char *text = NULL;
	char indent[16];
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	snprintf(indent, sizeof(indent), "%10s  ", name);
	output_lines(stdout, indent, text ?: "?");
}

/* Prints each line of text below the previous one. */
static void print_lines(const char *name, const char *text)
{
	size_t n = strcspn(text, "\n");

	print_field(name, "%.*s", (int)n, text);
	if (text[n])
		output_lines(stdout, "            ", text + n + 1);
}

static void print_amount(const struct kv *facts)
{
	char text[256];

	plan_get_found(facts, text, sizeof(text));
	print_field("found", "%s", text);
}

static void print_advice(const struct kv *facts, const char *source)
{
	char advice[4096];

	plan_get_advice(facts, source, advice, sizeof(advice));
	print_lines("faster", advice);
}

/* Prints the number of epochs from which staging is faster. */
static void put_break_even(struct explain *e, const struct kv *facts, const char *source,
			   uint64_t max_rate)
{
	struct break_even w;
	char text[1024];

	if (!break_even_init(&w, facts, source, &e->break_even, max_rate))
		return;
	if (e->json) {
		break_even_to_json(&w, &e->j);
	} else {
		break_even_get_text(&w, text, sizeof(text));
		print_lines("epochs", text);
	}
}

static void put_advice_json(struct explain *e, const struct kv *facts, const char *source)
{
	char advice[4096];

	plan_get_advice(facts, source, advice, sizeof(advice));
	json_put_text(&e->j, "faster", advice);
}

static void snapshot_json(struct explain *e, const struct snapshot *s)
{
	json_open_object(&e->j, NULL);
	snapshot_to_json(s, &e->j);
	put_advice_json(e, s->kv, s->source);
	put_break_even(e, s->kv, s->source, 0);
	json_close_object(&e->j);
}

static void explain_snapshot(struct explain *e, const struct snapshot *s)
{
	char elapsed[PARSE_DURATION_TEXT];

	if (e->json) {
		snapshot_json(e, s);
		return;
	}
	if (e->n_said++ > 0)
		putchar('\n');
	output_lines(stdout, "", s->name);
	print_field("asked", "%s, destination %s", s->source, s->dest[0] ? s->dest : "auto");
	print_field("rule", "%s", s->rule);
	print_amount(s->kv);
	print_field("plan", "%s", s->plan);
	print_lines("why", s->why);
	print_field("state", "%s after %s", stage_state_to_string(s->state),
		    duration_to_tenths(s->elapsed_ms, elapsed));
	print_field("path", "%s", s->path);
	print_lines("reason", s->reason);
	print_lines("warning", s->warning);
	print_advice(s->kv, s->source);
	put_break_even(e, s->kv, s->source, 0);
}

static void open_json(struct explain *e)
{
	if (!e->json)
		return;
	json_init(&e->j, stdout);
	json_open_object(&e->j, NULL);
	json_put_text(&e->j, "version", STAGE_VERSION);
	json_open_array(&e->j, "datasets");
}

static void close_json(struct explain *e)
{
	if (!e->json)
		return;
	json_close_array(&e->j);
	json_close_object(&e->j);
	putchar('\n');
}

/* Returns an exit status. The caller handles STAGE_EXIT_NO_ITEM and STAGE_EXIT_NO_STAGING. */
static int explain_names(struct explain *e, char *const *names, size_t n_names, struct error *err)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list list = { 0 };
	_cleanup_(rpc_closep) struct rpc *rpc = NULL;
	_cleanup_(kv_freep) struct kv *request = NULL;
	struct rpc_handler h = { .on_message = snapshot_list_on_message, .arg = &list };
	int code;

	if (rpc_open(&rpc, err) < 0)
		return (int)error_to_exit(err);
	request = rpc_new_request(PROTO_OP_STATUS, names, n_names);
	code = rpc_call(rpc, request, &h, err);
	if (code)
		return code;
	open_json(e);
	for (size_t i = 0; i < list.n_items; i++)
		explain_snapshot(e, &list.items[i]);
	close_json(e);
	return STAGE_EXIT_OK;
}

static void answer_json(struct explain *e, const struct dataset *d, const struct plan_answer *a,
			const struct moved *m)
{
	static const char *const texts[] = { "kind", "format", "method", "tier", "plan", "why" };
	const struct kv *f = a->facts;
	struct json *j = &e->j;
	char keep[256];

	json_open_object(j, NULL);
	json_put_text(j, "name", d->name);
	json_put_text(j, "source", m ? m->asked->source : d->source);
	json_put_text(j, "dest", d->dest);
	if (m)
		moved_to_json(m, j);
	json_put_text(j, "rule", a->rule);
	json_put_text(j, "match", a->match);
	json_put_text(j, "tiers", a->tiers);
	for (size_t i = 0; f && i < ARRAY_SIZE(texts); i++)
		json_put_text(j, texts[i], kv_get_or_empty(f, texts[i]));
	if (f && !a->code) {
		plan_get_keep(e->conf, d, f, keep, sizeof(keep));
		json_put_text(j, "keep", keep);
	}
	if (f) {
		json_put_known(j, "total", kv_get_u64(f, "total", 0));
		json_put_known(j, "nfiles", kv_get_u64(f, "nfiles", 0));
	}
	json_put_u64(j, "code", (uint64_t)a->code);
	json_put_text(j, "refused", a->text);
	if (f) {
		put_advice_json(e, f, d->source);
		if (!a->code)
			put_break_even(e, f, d->source, a->max_rate);
	}
	json_close_object(j);
}

static void print_moved(const struct moved *m)
{
	char text[4096];

	moved_get_place(m, text, sizeof(text));
	print_field("moved", "%s", text);
	print_field(m->mover ? "mover" : "copy", "%s", moved_get_state(m, text, sizeof(text)));
}

/* m describes the mover's copy, and d names that copy; NULL without a mover. */
static void explain_answer(struct explain *e, const struct dataset *d, const struct plan_answer *a,
			   const struct moved *m)
{
	const char *source = m ? m->asked->source : d->source;
	const struct kv *f = a->facts;
	char keep[256];

	if (e->json) {
		answer_json(e, d, a, m);
		return;
	}
	if (e->n_said++ > 0)
		putchar('\n');
	output_lines(stdout, "", d->name);
	print_field("asked", "%s, destination %s, method %s", source, d->dest ? d->dest : "auto",
		    dataset_method_to_string(d->method));
	if (m)
		print_moved(m);
	if (a->rule) {
		print_field("rule", "%s%s%s%s", a->rule, a->match[0] ? " (" : "", a->match,
			    a->match[0] ? ")" : "");
		print_field("tiers", "%s", a->tiers);
	}
	if (f) {
		print_amount(f);
		print_field("plan", "%s", a->code ? "" : kv_get_or_empty(f, "plan"));
		print_lines("why", kv_get_or_empty(f, "why"));
	}
	if (f && !a->code) {
		plan_get_keep(e->conf, d, f, keep, sizeof(keep));
		print_field("keep", "%s", keep);
	}
	print_lines("refused", a->text);
	if (f)
		print_advice(f, d->source);
	if (f && !a->code)
		put_break_even(e, f, d->source, a->max_rate);
}

/* Explains a dataset whose copy is not complete. The source of the job does not exist yet, so it
 * cannot be planned. */
static void explain_moved(struct explain *e, const struct moved *m)
{
	const struct dataset *d = m->asked;

	if (e->json) {
		json_open_object(&e->j, NULL);
		json_put_text(&e->j, "name", d->name);
		json_put_text(&e->j, "source", d->source);
		json_put_text(&e->j, "dest", d->dest);
		json_put_text(&e->j, "rule", m->copy->rule->name);
		json_put_text(&e->j, "match", m->copy->rule->match);
		moved_to_json(m, &e->j);
		json_put_u64(&e->j, "code", 0);
		json_close_object(&e->j);
		return;
	}
	if (e->n_said++ > 0)
		putchar('\n');
	output_lines(stdout, "", d->name);
	print_field("asked", "%s, destination %s, method %s", d->source, d->dest ? d->dest : "auto",
		    dataset_method_to_string(d->method));
	print_field("rule", "%s (%s)", m->copy->rule->name, m->copy->rule->match);
	print_moved(m);
}

static int explain_error(struct explain *e, const struct dataset *d, const struct moved *m,
			 const struct error *err)
{
	struct plan_answer a = { .code = (int)error_to_exit(err) };

	snprintf(a.text, sizeof(a.text), "%s", err->text);
	explain_answer(e, d, &a, m);
	return a.code;
}

static int ask_and_explain(struct explain *e, struct dataset *d, const struct moved *m,
			   struct error *err)
{
	_cleanup_(plan_answer_deinit) struct plan_answer a = { 0 };
	int r = plan_ask(&a, d, &e->request, err);

	if (r < 0 && plan_is_answer(err))
		return explain_error(e, d, m, err);
	if (r < 0) {
		error_prefix(err, "%s", d->name);
		return r;
	}
	explain_answer(e, d, &a, m);
	return a.code;
}

/* asked: the dataset as the user wrote it; d differs from it if a mover copies it. */
static int explain_one(struct explain *e, struct dataset *d, const struct dataset *asked,
		       const struct submit_copies *copies, struct error *err)
{
	_cleanup_(moved_deinit) struct moved m = { 0 };

	for (size_t i = 0; i < copies->n_items; i++) {
		if (copies->items[i].name != d->name)
			continue;
		moved_look(&m, &copies->items[i], asked);
		if (m.whole)
			return ask_and_explain(e, d, &m, err);
		explain_moved(e, &m);
		return STAGE_EXIT_OK;
	}
	return ask_and_explain(e, d, NULL, err);
}

/* Finds the copies that movers make. Without a configuration there are none. */
static int find_copies(struct submit_copies *copies, struct conf **confp, struct dataset_list *list,
		       struct error *err)
{
	if (conf_load(confp, cmd_get_conf(), NULL) < 0)
		return 0;
	return submit_copies_find(copies, *confp, list, err);
}

static int explain_item(struct explain *e, const char *value, struct error *err)
{
	_cleanup_(dataset_list_deinit) struct dataset_list list = { 0 }, asked = { 0 };
	_cleanup_(submit_copies_deinit) struct submit_copies copies = { 0 };
	_cleanup_(conf_freep) struct conf *conf = NULL;
	int r, code = STAGE_EXIT_OK;

	r = items_parse(&list, value, err);
	if (r == 0)
		r = items_parse(&asked, value, err);
	if (r == 0)
		r = find_copies(&copies, &conf, &list, err);
	if (r < 0)
		return r;
	e->conf = conf;
	open_json(e);
	for (size_t i = 0; i < list.n_items && r >= 0; i++) {
		*err = (struct error)ERROR_INIT;
		r = items_check(&asked, i, value, err) < 0
			    ? explain_error(e, &asked.items[i], NULL, err)
			    : explain_one(e, &list.items[i], &asked.items[i], &copies, err);
		if (r > 0 && !code)
			code = r;
	}
	close_json(e);
	e->conf = NULL;
	return r < 0 ? r : code;
}

static int get_nodes(const char *verb, const char *text, uint64_t *np)
{
	if (parse_uint64(text, np) == 0 && *np > 0)
		return 0;
	output_usage(verb, "--nodes %s is no number of nodes", text);
	return -EINVAL;
}

static int get_memory(const char *verb, const char *text, uint64_t *bytesp)
{
	if (parse_slurm_memory(text, bytesp) == 0)
		return 0;
	output_usage(verb, "--mem %s is no size as Slurm has it; 4000 (MB), 500M and 64G are",
		     text);
	return -EINVAL;
}

static int parse(struct explain *e, int argc, char **argv)
{
	int c, r;

	while ((c = cmd_next_option(argc, argv, "", options)) != -1) {
		if (c == OPT_MEM)
			r = get_memory(argv[0], optarg, &e->request.memory);
		else if (c == OPT_TIMEOUT)
			r = cmd_get_timeout(argv[0], optarg, &e->request.timeout_ms);
		else if (c == OPT_RATE)
			r = cmd_get_size(argv[0], "--rate", optarg, &e->break_even.rate);
		else if (c == OPT_EPOCH)
			r = cmd_get_duration(argv[0], "--epoch", optarg, &e->break_even.epoch_ms);
		else if (c == OPT_NODES)
			r = get_nodes(argv[0], optarg, &e->break_even.nodes);
		else if (c == OPT_JSON)
			r = (e->json = true, 0);
		else
			r = -EINVAL;
		if (r < 0)
			return STAGE_EXIT_USAGE;
	}
	return argc - optind > 1 ? output_usage(argv[0], "one name or item at a time") : 0;
}

static int cmd_explain_run(int argc, char **argv)
{
	struct explain e = { .request.timeout_ms = DEFAULT_TIMEOUT_MS };
	struct error err = ERROR_INIT;
	int code;

	code = parse(&e, argc, argv);
	if (code)
		return code;
	if (!e.break_even.nodes)
		e.break_even.nodes = srun_get_n_nodes();
	if (optind == argc || !strpbrk(argv[optind], "/:=@,.*{$~")) {
		code = explain_names(&e, argv + optind, (size_t)(argc - optind), &err);
		if (optind == argc ||
		    (code != STAGE_EXIT_NO_ITEM && code != STAGE_EXIT_NO_STAGING)) {
			if (code)
				output_fail(&err);
			return code;
		}
	}
	err = (struct error)ERROR_INIT;
	plan_look_for_memory(&e.request);
	code = explain_item(&e, argv[optind], &err);
	return code < 0 ? output_fail(&err) : code;
}

const struct cmd cmd_explain = {
	.name = "explain",
	.args = "[NAME | ITEM] [OPTION...]",
	.summary = "print the plan for a dataset or an item, and the reasons",
	.help = "For the NAME of a dataset of this job (default: all of them), prints what was "
		"asked, which\n"
		"rule of the site allowed it, what was found, what was chosen, and why. For an "
		"ITEM, which\n"
		"is written as for --stage-data, prints what would be done, and stages nothing. "
		"This also\n"
		"works outside of a job.\n"
		"\n"
		"  --mem SIZE           plan for a job with that much memory, written as for "
		"sbatch: a\n"
		"                       number without a unit is MB (default: in a job the memory "
		"that it\n"
		"                       has left, otherwise the memory of this machine)\n"
		"  --timeout DURATION   how long the source may take to answer (default 2m)\n"
		"  --epoch DURATION     the time to compute one epoch; prints the smallest number "
		"of\n"
		"                       epochs for which staging is faster\n"
		"  --rate SIZE          bytes a second that the source gives a node (default: the "
		"rate\n"
		"                       measured in this job, or the site's MaxRate)\n"
		"  --nodes N            number of nodes of the planned job (default: of this job, "
		"or 1)\n"
		"  --json               one line of JSON, for programs\n"
		"\n"
		"Examples:\n"
		"  stagectl explain imagenet\n"
		"  stagectl explain /p/scratch/proj/train.tar\n"
		"  stagectl explain --mem 64G '/p/scratch/proj/shards/*.tar:shm'\n"
		"  stagectl explain --rate 500M --epoch 10m --nodes 8 /p/scratch/proj/train.tar\n"
		"\n"
		"Exit status: 0 it can be staged; 2 a mistake in the item; 6 refused by the site;\n"
		"7 no space or memory; 1 it can't be staged for another reason.\n",
	.run = cmd_explain_run,
};
