/*
 * Inside a job, a NAME: what the daemon knows of it. Anything else is an ITEM, that is planned
 * here and now by a worker of our own and not staged.
 */
#include "client/cmd.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/items.h"
#include "client/output.h"
#include "client/plan.h"
#include "client/rpc.h"
#include "client/snapshot.h"
#include "common/error.h"
#include "common/parse.h"
#include "common/proto.h"

#define DEFAULT_TIMEOUT_MS 120000

enum { OPT_MEM = 256, OPT_TIMEOUT };

static const struct option options[] = {
	{ "mem", required_argument, NULL, OPT_MEM },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ 0 },
};

static void print_field(const char *name, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static void print_field(const char *name, const char *fmt, ...)
{
	char text[4096], indent[16];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!text[0])
		return;
	snprintf(indent, sizeof(indent), "%10s  ", name);
	output_lines(stdout, indent, text);
}

/* Lines of a text, each below the other. */
static void print_lines(const char *name, const char *text)
{
	char first[512];
	size_t n = strcspn(text, "\n");

	if (!text[0])
		return;
	snprintf(first, sizeof(first), "%.*s", (int)(n < 500 ? n : 500), text);
	print_field(name, "%s", first);
	if (text[n])
		output_lines(stdout, "            ", text + n + 1);
}

static void print_amount(const char *format, uint64_t total, uint64_t n_files)
{
	char size[PARSE_SIZE_TEXT], files[64] = "";

	if (n_files > 1)
		snprintf(files, sizeof(files), ", %llu files", (unsigned long long)n_files);
	if (format[0] || total)
		print_field("found", "%s%s%s%s", format, format[0] ? ", " : "",
			    total ? size_to_string(total, size) : "size not known", files);
}

static void print_advice(const struct kv *facts, const char *source)
{
	char advice[4096];

	plan_get_advice(facts, source, advice, sizeof(advice));
	print_lines("faster", advice);
}

static void explain_snapshot(const struct snapshot *s)
{
	char elapsed[PARSE_DURATION_TEXT];

	output_lines(stdout, "", s->name);
	print_field("asked", "%s to %s", s->source, s->dest[0] ? s->dest : "auto");
	print_field("rule", "%s", s->rule);
	print_amount(s->format, s->total, s->n_files);
	print_field("plan", "%s", s->plan);
	print_lines("why", s->why);
	print_field("state", "%s after %s", stage_state_to_string(s->state),
		    duration_to_string(s->elapsed_ms, elapsed));
	print_field("path", "%s", s->path);
	print_lines("reason", s->reason);
	print_lines("warning", s->warning);
	print_advice(s->kv, s->source);
}

static void on_message(void *arg, const char *op, struct kv **kvp)
{
	if (!strcmp(op, PROTO_OP_DATASET))
		snapshot_list_update(arg, kvp, NULL);
}

/* Exit status; STAGE_EXIT_NO_ITEM and STAGE_EXIT_NO_STAGING are for the caller to decide. */
static int explain_names(char *const *names, size_t n_names, struct error *err)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list list = { 0 };
	_cleanup_(rpc_closep) struct rpc *rpc = NULL;
	_cleanup_(kv_freep) struct kv *request = NULL;
	struct rpc_handler h = { .on_message = on_message, .arg = &list };
	int code;

	if (rpc_open(&rpc, err) < 0)
		return (int)error_to_exit(err);
	request = rpc_new_request(PROTO_OP_STATUS, names, n_names);
	code = rpc_call(rpc, request, &h, err);
	if (code)
		return code;
	for (size_t i = 0; i < list.n_items; i++) {
		if (i > 0)
			putchar('\n');
		explain_snapshot(&list.items[i]);
	}
	return STAGE_EXIT_OK;
}

static void explain_answer(const struct dataset *d, const struct plan_answer *a)
{
	const struct kv *f = a->facts;

	output_lines(stdout, "", d->name);
	print_field("asked", "%s to %s, method %s", d->source, d->dest ? d->dest : "auto",
		    dataset_method_to_string(d->method));
	print_field("rule", "%s%s%s%s", a->rule, a->match[0] ? " (" : "", a->match,
		    a->match[0] ? ")" : "");
	print_field("tiers", "%s", a->tiers);
	if (f) {
		print_amount(kv_get_or_empty(f, "format"), kv_get_u64(f, "total", 0),
			     kv_get_u64(f, "nfiles", 0));
		print_field("plan", "%s", a->code ? "" : kv_get_or_empty(f, "plan"));
		print_lines("why", kv_get_or_empty(f, "why"));
	}
	print_lines("refused", a->text);
	if (f)
		print_advice(f, d->source);
}

static int explain_item(const char *value, const struct plan_request *request, struct error *err)
{
	_cleanup_(dataset_list_deinit) struct dataset_list list = { 0 };
	int r, code = STAGE_EXIT_OK;

	r = items_read(&list, &value, 1, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < list.n_items; i++) {
		_cleanup_(plan_answer_deinit) struct plan_answer a = { 0 };

		r = plan_ask(&a, &list.items[i], request, err);
		if (r < 0) {
			error_prefix(err, "%s", list.items[i].name);
			return r;
		}
		if (i > 0)
			putchar('\n');
		explain_answer(&list.items[i], &a);
		if (a.code && !code)
			code = a.code;
	}
	return code;
}

static int parse(struct plan_request *request, int argc, char **argv)
{
	int c, r;

	while ((c = cmd_next_option(argc, argv, "", options)) != -1) {
		if (c == OPT_MEM)
			r = cmd_get_size(argv[0], "--mem", optarg, &request->memory);
		else if (c == OPT_TIMEOUT)
			r = cmd_get_duration(argv[0], "--timeout", optarg, &request->timeout_ms);
		else
			r = -EINVAL;
		if (r < 0)
			return STAGE_EXIT_USAGE;
	}
	return argc - optind > 1 ? output_usage(argv[0], "one name or item at a time") : 0;
}

static int run(int argc, char **argv)
{
	struct plan_request request = { .timeout_ms = DEFAULT_TIMEOUT_MS };
	struct error err = ERROR_INIT;
	int code;

	code = parse(&request, argc, argv);
	if (code)
		return code;
	if (optind == argc || !strpbrk(argv[optind], "/:=@,.*{$~")) {
		code = explain_names(argv + optind, (size_t)(argc - optind), &err);
		if (optind == argc ||
		    (code != STAGE_EXIT_NO_ITEM && code != STAGE_EXIT_NO_STAGING)) {
			if (code)
				output_fail(&err);
			return code;
		}
	}
	err = (struct error)ERROR_INIT;
	code = explain_item(argv[optind], &request, &err);
	return code < 0 ? output_fail(&err) : code;
}

const struct cmd cmd_explain = {
	.name = "explain",
	.args = "[NAME | ITEM] [--mem SIZE]",
	.summary = "say what is done with a dataset, or would be with an item, and why",
	.help = "With the NAME of a dataset of this job (or none: all of them): what was asked, "
		"which\n"
		"rule of the site let it in, what was found, what was chosen and why. With an ITEM "
		"as\n"
		"for --stage-data, anywhere: the same without staging anything.\n"
		"\n"
		"  --mem SIZE           plan for a job with that much memory (default: this "
		"machine)\n"
		"  --timeout DURATION   how long the source may take to answer (default 2m)\n"
		"\n"
		"Examples:\n"
		"  stagectl explain imagenet\n"
		"  stagectl explain /p/scratch/proj/train.tar\n"
		"  stagectl explain --mem 64G '/p/scratch/proj/shards/*.tar:shm'\n"
		"\n"
		"Exit status: 0 it can be staged; 2 a mistake in the item; 6 refused by the site;\n"
		"7 no space or memory; 1 it can't be staged for another reason.\n",
	.run = run,
};
