#include "client/cmd.h"

#include <stdio.h>

#include "client/output.h"
#include "client/rpc.h"
#include "client/mount-visible.h"
#include "client/snapshot.h"
#include "common/protocol/proto.h"
#include "common/util/error.h"

static const struct option options[] = { { 0 } };

static int cmd_path_run(int argc, char **argv)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list list = { 0 };
	_cleanup_(rpc_closep) struct rpc *rpc = NULL;
	_cleanup_(kv_freep) struct kv *request = NULL;
	struct rpc_handler h = { .on_message = snapshot_list_on_message, .arg = &list };
	struct error err = ERROR_INIT;
	int code;

	if (cmd_next_option(argc, argv, "", options) != -1)
		return STAGE_EXIT_USAGE;
	if (argc - optind != 1)
		return output_usage(argv[0], "it takes one name");
	if (!cmd_check_names(argv[0], argv + optind, 1))
		return STAGE_EXIT_USAGE;
	if (rpc_open(&rpc, &err) < 0)
		return output_fail(&err);
	request = rpc_new_request(PROTO_OP_STATUS, argv + optind, 1);
	code = rpc_call(rpc, request, &h, &err);
	if (code) {
		output_fail(&err);
		return code;
	}
	if (list.n_items != 1)
		return STAGE_EXIT_NO_ITEM;
	output_text(stdout, list.items[0].path);
	putchar('\n');
	code = mount_visible_check(&list, &err);
	if (code)
		output_fail(&err);
	return code ? code : snapshot_list_get_exit(&list);
}

const struct cmd cmd_path = {
	.name = "path",
	.args = "NAME",
	.summary = "print the path of a dataset",
	.help = "Prints where the dataset is. In a job, the path is known before the data is "
		"there.\n"
		"The variable $STAGE_DATA_PATH_<NAME> has the same path.\n"
		"\n"
		"Example:\n"
		"  ls \"$(stagectl path imagenet)\"\n"
		"\n"
		"Exit status: 0 it is ready; 3 not yet; 1, 6 or 7 it has failed; 4 no such "
		"dataset;\n"
		"5 no staging here.\n",
	.run = cmd_path_run,
};
