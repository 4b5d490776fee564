/*
 * The node's side of --all-nodes. The more nodes send reports to one srun, the fewer reports each
 * node sends: for each dataset one every 20 ms × nodes, and at most one a second.
 */
#include "client/srun.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/bring-keys.h"
#include "client/report.h"
#include "client/mount-visible.h"
#include "client/not-begun.h"
#include "client/snapshot.h"
#include "client/warnings.h"
#include "common/protocol/proto.h"
#include "common/protocol/rundir.h"
#include "common/util/fd.h"

struct reporter {
	const char *node;
	const struct rpc *rpc;
	struct snapshot_list seen;
	uint64_t told_ms[RUNDIR_MAX_SLOTS]; /* times of the last reports; a job has at most this
					     * many datasets */
	uint64_t interval_ms;
	bool warned; /* a dataset has a warning */
};

/* Returns whether to send a report: for a new state always, for progress after interval_ms. */
static bool is_worth_telling(const struct reporter *r, const struct kv *kv)
{
	const char *name = kv_get_or_empty(kv, "name"), *state = kv_get_or_empty(kv, "state");

	for (size_t i = 0; i < r->seen.n_items && i < ARRAY_SIZE(r->told_ms); i++)
		if (!strcmp(r->seen.items[i].name, name) &&
		    !strcmp(stage_state_to_string(r->seen.items[i].state), state))
			return clock_ms() - r->told_ms[i] >= r->interval_ms;
	return true;
}

static void tell_dataset(struct reporter *r, struct kv **kvp)
{
	const struct snapshot *s;
	size_t i;

	r->warned |= kv_get_or_empty(*kvp, "warning")[0] != '\0';
	if (!is_worth_telling(r, *kvp))
		return;
	report_write(stdout, r->node, *kvp);
	if (snapshot_list_update(&r->seen, kvp, &s) < 0)
		return;
	i = (size_t)(s - r->seen.items);
	if (i < ARRAY_SIZE(r->told_ms))
		r->told_ms[i] = clock_ms();
}

static void on_message(void *arg, const char *op, struct kv **kvp)
{
	struct reporter *r = arg;

	if (!strcmp(op, PROTO_OP_NEEDKEYS)) {
		bring_keys(r->rpc); /* sends this step's keys to this node's daemon */
		return;
	}
	if (!strcmp(op, PROTO_OP_DATASET))
		tell_dataset(r, kvp);
	else
		report_write(stdout, r->node, *kvp);
}

/* Reports the warnings of the datasets that were waited for. */
static void report_warnings(struct reporter *r, struct rpc *rpc, const struct kv *request)
{
	_cleanup_(freep) char *names = strdup(kv_get_or_empty(request, "names"));

	if (names)
		warnings_ask(rpc, &names, names[0] ? 1 : 0, on_message, r);
}

int srun_report(struct kv *request, uint64_t patience_ms, bool warnings)
{
	_cleanup_(rpc_closep) struct rpc *rpc = NULL;
	_cleanup_(kv_freep) struct kv *done = proto_new(PROTO_OP_DONE);
	struct error err = ERROR_INIT;
	struct reporter r = { 0 };
	struct rpc_handler h = { .on_message = on_message, .arg = &r };
	uint64_t n_nodes = srun_get_n_nodes();
	char host[256];
	int code, opened;

	r.node = rpc_get_node(host, sizeof(host));
	r.interval_ms = n_nodes * 20 > 1000 ? n_nodes * 20 : 1000;
	opened = rpc_open_early(&rpc, patience_ms, &err);
	r.rpc = rpc;
	if (opened == 0)
		code = rpc_call(rpc, request, &h, &err);
	else if (opened == -EIO)
		code = not_begun_answer(request, &h, &err);
	else
		code = (int)error_to_exit(&err);
	if (code == STAGE_EXIT_OK && warnings && r.warned)
		report_warnings(&r, rpc, request);
	if (code == STAGE_EXIT_OK)
		code = mount_visible_check(&r.seen, &err);
	snapshot_list_deinit(&r.seen);
	if (!done)
		return STAGE_EXIT_FAILED;
	kv_set_u64(done, "code", (uint64_t)code);
	kv_set(done, "text", code ? err.text : "");
	return report_write(stdout, r.node, done) < 0 ? STAGE_EXIT_FAILED : STAGE_EXIT_OK;
}
