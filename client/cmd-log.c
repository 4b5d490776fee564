#include "client/cmd.h"

#include <stdio.h>
#include <string.h>

#include "client/output.h"
#include "client/rpc.h"
#include "common/protocol/proto.h"
#include "common/util/error.h"

static const struct option options[] = { { 0 } };

static void on_message(void *arg, const char *op, struct kv **kvp)
{
	if (strcmp(op, PROTO_OP_LINE))
		return;
	output_text(stdout, kv_get_or_empty(*kvp, "text"));
	putchar('\n');
}

static int cmd_log_run(int argc, char **argv)
{
	_cleanup_(rpc_closep) struct rpc *rpc = NULL;
	_cleanup_(kv_freep) struct kv *request = NULL;
	struct rpc_handler h = { .on_message = on_message };
	struct error err = ERROR_INIT;
	int code;

	if (cmd_next_option(argc, argv, "", options) != -1)
		return STAGE_EXIT_USAGE;
	if (!cmd_check_names(argv[0], argv + optind, (size_t)(argc - optind)))
		return STAGE_EXIT_USAGE;
	if (rpc_open(&rpc, &err) < 0)
		return output_fail(&err);
	request = rpc_new_request(PROTO_OP_LOG, argv + optind, (size_t)(argc - optind));
	code = rpc_call(rpc, request, &h, &err);
	if (code)
		output_fail(&err);
	return code;
}

const struct cmd cmd_log = {
	.name = "log",
	.args = "[NAME...]",
	.summary = "print what happened, from this job's daemon on this node",
	.help = "Prints the last lines that stagingd and its workers logged for this job, or for "
		"the\n"
		"datasets named.\n"
		"\n"
		"Example:\n"
		"  stagectl log imagenet\n",
	.run = cmd_log_run,
};
