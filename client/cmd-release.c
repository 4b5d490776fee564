#include "client/cmd.h"

#include "client/output.h"
#include "client/rpc.h"
#include "common/protocol/proto.h"
#include "common/util/error.h"

static const struct option options[] = { { 0 } };

static int cmd_release_run(int argc, char **argv)
{
	_cleanup_(rpc_closep) struct rpc *rpc = NULL;
	_cleanup_(kv_freep) struct kv *request = NULL;
	struct error err = ERROR_INIT;
	int code;

	if (cmd_next_option(argc, argv, "", options) != -1)
		return STAGE_EXIT_USAGE;
	if (optind == argc)
		return output_usage(argv[0], "which one?");
	if (!cmd_check_names(argv[0], argv + optind, (size_t)(argc - optind)))
		return STAGE_EXIT_USAGE;
	if (rpc_open(&rpc, &err) < 0)
		return output_fail(&err);
	request = rpc_new_request(PROTO_OP_RELEASE, argv + optind, (size_t)(argc - optind));
	code = rpc_call(rpc, request, NULL, &err);
	if (code)
		output_fail(&err);
	return code;
}

const struct cmd cmd_release = {
	.name = "release",
	.args = "NAME...",
	.summary = "remove datasets before the job ends, on this node",
	.help = "Stops the staging of the datasets named, or removes what was staged, and frees "
		"the\n"
		"memory and the disk. It returns when they are gone.\n"
		"\n"
		"Example:\n"
		"  stagectl release train && stagectl add test=/p/scratch/proj/test.tar\n",
	.run = cmd_release_run,
};
