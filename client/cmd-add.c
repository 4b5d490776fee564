#include "client/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/bring-keys.h"
#include "client/items.h"
#include "client/output.h"
#include "client/rpc.h"
#include "common/protocol/proto.h"
#include "common/util/error.h"

static const struct option options[] = { { 0 } };

static int read_item(const char *value, char **textp, bool *takes_keysp, struct error *err)
{
	_cleanup_(dataset_list_deinit) struct dataset_list list = { 0 };
	int r;

	r = items_read(&list, &value, 1, err);
	if (r < 0)
		return r;
	if (list.n_items != 1)
		return error_exit(err, STAGE_EXIT_USAGE, EINVAL, "one item at a time, this is %zu",
				  list.n_items);
	*takes_keysp = list.items[0].env_keys;
	r = dataset_to_string(&list.items[0], textp);
	return r < 0 ? error_set(err, -r, "out of memory") : 0;
}

static int cmd_add_run(int argc, char **argv)
{
	_cleanup_(rpc_closep) struct rpc *rpc = NULL;
	_cleanup_(kv_freep) struct kv *request = NULL;
	_cleanup_(freep) char *item = NULL;
	struct error err = ERROR_INIT;
	bool takes_keys = false;
	int code;

	if (cmd_next_option(argc, argv, "", options) != -1)
		return STAGE_EXIT_USAGE;
	if (argc - optind != 1)
		return output_usage(argv[0], "it takes one item, as --stage-data does");
	if (read_item(argv[optind], &item, &takes_keys, &err) < 0 || rpc_open(&rpc, &err) < 0)
		return output_fail(&err);
	request = proto_new(PROTO_OP_ADD);
	if (request)
		kv_set(request, "item", item);
	if (request && takes_keys)
		bring_keys_along(rpc, request);
	code = rpc_call(rpc, request, NULL, &err);
	if (code)
		output_fail(&err);
	return code;
}

const struct cmd cmd_add = {
	.name = "add",
	.args = "ITEM",
	.summary = "stage one more dataset in this job, on this node",
	.help = "ITEM is written as for --stage-data: [NAME=]SOURCE[:[DEST][:OPTION+OPTION]], see\n"
		"stage-data(7). The command returns at once; `stagectl wait NAME` waits.\n"
		"\n"
		"Examples:\n"
		"  stagectl add val=/p/scratch/proj/val.tar:shm && stagectl wait val\n"
		"  srun --overlap --ntasks-per-node=1 stagectl add ...    # on every node\n"
		"\n"
		"Exit status: 0 queued; 2 a mistake in the item; 5 no staging here; 6 refused by "
		"the\n"
		"site.\n",
	.run = cmd_add_run,
};
