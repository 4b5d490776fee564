#include "client/not-begun.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/config/spec.h"
#include "common/dataset/dataset.h"
#include "common/protocol/proto.h"
#include "common/protocol/rundir.h"
#include "common/protocol/stage-state.h"
#include "common/util/cleanup.h"
#include "common/util/strutil.h"

#define ALL "*"

/* Returns the time at which the keeper wrote RUNDIR_FAILED; 0: there is no such file. */
static uint64_t get_failed_ms(void)
{
	_cleanup_(freep) char *file = NULL;
	char path[PATH_MAX], *slash;
	struct stat st;

	if (rpc_find_socket(path, sizeof(path), NULL) < 0)
		return 0;
	slash = strrchr(path, '/');
	file = slash ? strutil_printf("%.*s/" RUNDIR_FAILED, (int)(slash - path), path) : NULL;
	if (!file || lstat(file, &st) < 0)
		return 0;
	return (uint64_t)st.st_mtim.tv_sec * 1000 + (uint64_t)st.st_mtim.tv_nsec / 1000000;
}

static void answer_one(const char *name, uint64_t failed_ms, const struct rpc_handler *h,
		       const struct error *err)
{
	_cleanup_(kv_freep) struct kv *kv = proto_new(PROTO_OP_DATASET);
	char host[256];

	if (!kv)
		return;
	kv_set(kv, "name", name);
	kv_set(kv, "state", stage_state_to_string(STAGE_FAILED));
	kv_set(kv, "reason", err->text);
	kv_set(kv, "cause", "other");
	kv_set(kv, "node", rpc_get_node(host, sizeof(host)));
	kv_set_u64(kv, "code", (uint64_t)error_to_exit(err));
	if (failed_ms) {
		kv_set_u64(kv, "begun", failed_ms);
		kv_set_u64(kv, "age", 0);
		kv_set(kv, "states", "failed:0");
	}
	h->on_message(h->arg, PROTO_OP_DATASET, &kv);
}

/* Reads the job's datasets from the environment that the plugin gives to the job. */
static void read_job(struct dataset_list *list)
{
	const char *text = getenv(SPEC_ENV_JOB);
	struct spec spec = { 0 };

	if (text && spec_from_string(&spec, text, NULL) == 0)
		(void)dataset_list_from_string(list, spec.value, NULL);
	spec_deinit(&spec);
}

int not_begun_answer(const struct kv *request, const struct rpc_handler *h, const struct error *err)
{
	_cleanup_(dataset_list_deinit) struct dataset_list list = { 0 };
	_cleanup_(freep) char *names = strdup(kv_get_or_empty(request, "names"));
	const uint64_t failed_ms = get_failed_ms();
	const char *op = proto_get_op(request);
	char *save = NULL;

	if (!names || !op || strcmp(op, PROTO_OP_STATUS) ||
	    (!failed_ms && kv_get_u64(request, "history", 0)))
		return (int)error_to_exit(err);
	if (*names) {
		for (char *n = strtok_r(names, ",", &save); n; n = strtok_r(NULL, ",", &save))
			answer_one(n, failed_ms, h, err);
		return STAGE_EXIT_OK;
	}
	read_job(&list);
	for (size_t i = 0; i < list.n_items; i++)
		answer_one(list.items[i].name, failed_ms, h, err);
	if (!list.n_items)
		answer_one(ALL, failed_ms, h, err);
	return STAGE_EXIT_OK;
}

int not_begun_or_call(struct kv *request, const struct rpc_handler *h, struct error *err)
{
	_cleanup_(rpc_closep) struct rpc *rpc = NULL;
	int r = rpc_open(&rpc, err);

	if (r == -EIO)
		return not_begun_answer(request, h, err);
	return r < 0 ? (int)error_to_exit(err) : rpc_call(rpc, request, h, err);
}
