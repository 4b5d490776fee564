#include "client/cmd.h"

#include <stdio.h>
#include <unistd.h>

#include "client/keep-list.h"
#include "client/mover-look.h"
#include "client/node-list.h"
#include "client/output.h"
#include "client/rpc.h"
#include "client/snapshot.h"
#include "client/table.h"
#include "common/config/conf.h"
#include "common/protocol/proto.h"
#include "common/util/error.h"

enum { OPT_SITE = 256, OPT_NODE, OPT_NAMES, OPT_KEPT, OPT_MOVERS };

static const struct option options[] = {
	{ "site", no_argument, NULL, OPT_SITE },     { "node", no_argument, NULL, OPT_NODE },
	{ "names", no_argument, NULL, OPT_NAMES },   { "kept", no_argument, NULL, OPT_KEPT },
	{ "movers", no_argument, NULL, OPT_MOVERS }, { 0 },
};

/* Lists the site's catalogue, the names for @NAME. */
static int list_site(bool names_only)
{
	static const struct table_column columns[] = { { "NAME" },
						       { "SOURCE" },
						       { "DESCRIPTION" } };
	_cleanup_(conf_freep) struct conf *conf = NULL;
	_cleanup_(table_freep) struct table *t = NULL;
	struct error err = ERROR_INIT;

	if (conf_load(&conf, cmd_get_conf(), &err) < 0)
		return output_fail(&err);
	if (table_new(&t, columns, ARRAY_SIZE(columns)) < 0)
		return STAGE_EXIT_FAILED;
	for (size_t i = 0; i < conf->n_datasets; i++) {
		const struct conf_dataset *d = &conf->datasets[i];
		char name[128];

		snprintf(name, sizeof(name), "@%s", d->name);
		if (names_only)
			puts(name);
		else if (table_add_row(t, (const char *[]){ name, d->source, d->description }) < 0)
			return STAGE_EXIT_FAILED;
	}
	table_print(t, stdout);
	if (conf->n_datasets == 0 && !names_only)
		fprintf(stderr, "This site has no catalogue of datasets ([dataset NAME] in its "
				"configuration).\n");
	return STAGE_EXIT_OK;
}

static int list_kept(void)
{
	_cleanup_(conf_freep) struct conf *conf = NULL;
	struct error err = ERROR_INIT;
	int n = conf_load(&conf, cmd_get_conf(), &err);

	if (n == 0)
		n = keep_list_print(conf, &err);
	if (n < 0)
		return output_fail(&err);
	if (n == 0)
		fprintf(stderr, "Nothing of yours is kept on this node.\n");
	return STAGE_EXIT_OK;
}

static int list_movers(void)
{
	struct error err = ERROR_INIT;
	int n = mover_look_print(&err);

	if (n < 0)
		return output_fail(&err);
	if (n == 0)
		fprintf(stderr, "No mover of yours is pending or running.\n");
	return STAGE_EXIT_OK;
}

static int list_node(void)
{
	_cleanup_(conf_freep) struct conf *conf = NULL;
	struct error err = ERROR_INIT;
	bool any;
	int n;

	if (geteuid() != 0) {
		output_error("list --node reads what belongs to root; run it as root");
		return STAGE_EXIT_REFUSED;
	}
	n = node_list_print(&err);
	if (n < 0)
		return output_fail(&err);
	any = n > 0;
	if (conf_load(&conf, cmd_get_conf(), NULL) == 0) /* without a configuration, nothing is
							  * kept */
		any |= keep_list_print_all(conf);
	if (!any)
		fprintf(stderr, "No job has datasets on this node, and nothing is left or kept.\n");
	return STAGE_EXIT_OK;
}

static int list_job(bool names_only)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list list = { 0 };
	_cleanup_(rpc_closep) struct rpc *rpc = NULL;
	_cleanup_(kv_freep) struct kv *request = NULL;
	struct rpc_handler h = { .on_message = snapshot_list_on_message, .arg = &list };
	struct error err = ERROR_INIT;
	int code;

	if (rpc_open(&rpc, &err) < 0)
		return output_fail(&err);
	request = rpc_new_request(PROTO_OP_STATUS, NULL, 0);
	code = rpc_call(rpc, request, &h, &err);
	if (code) {
		output_fail(&err);
		return code;
	}
	for (size_t i = 0; i < list.n_items; i++) {
		output_text(stdout, list.items[i].name);
		if (!names_only) {
			putchar('\t');
			output_text(stdout, list.items[i].path);
		}
		putchar('\n');
	}
	return STAGE_EXIT_OK;
}

static int cmd_list_run(int argc, char **argv)
{
	bool site = false, node = false, kept = false, movers = false, names_only = false;
	int c;

	while ((c = cmd_next_option(argc, argv, "", options)) != -1) {
		switch (c) {
		case OPT_SITE:
			site = true;
			break;
		case OPT_NODE:
			node = true;
			break;
		case OPT_NAMES:
			names_only = true;
			break;
		case OPT_KEPT:
			kept = true;
			break;
		case OPT_MOVERS:
			movers = true;
			break;
		default:
			return STAGE_EXIT_USAGE;
		}
	}
	if (optind < argc)
		return output_usage(argv[0], "it takes no names");
	if (site + node + kept + movers > 1)
		return output_usage(argv[0], "one of --site, --node, --kept and --movers, not two");
	if (movers)
		return list_movers();
	if (kept)
		return list_kept();
	if (node)
		return list_node();
	return site ? list_site(names_only) : list_job(names_only);
}

const struct cmd cmd_list = {
	.name = "list",
	.args = "[--names] | --site | --kept | --movers | --node",
	.summary = "list the datasets of this job, of the site's catalogue, or of this node",
	.help = "Without options, prints the datasets of this job: name, tab and path on each "
		"line.\n"
		"\n"
		"  --names   names only\n"
		"  --site    the datasets that the site offers as --stage-data=@NAME\n"
		"  --kept    the datasets that keep= has left on this node for your next job\n"
		"  --movers  your movers (submit) that are pending or running, and their progress\n"
		"  --node    for root: the jobs, bytes, mounts, leftovers and kept data on this "
		"node\n"
		"\n"
		"Example:\n"
		"  stagectl list | while read -r name path; do du -sh \"$path\"; done\n",
	.run = cmd_list_run,
};
