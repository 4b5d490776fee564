/*
 * What sbatch warns of, what explain promises, what the worker plans and what stagingd grants are
 * computed by one function. The table says what it computes; the property, that nobody computes
 * anything else: for random limits, ledgers and nodes the worker that plans comes to the same bytes
 * as stagingd, which grants.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "common/config/conf.h"
#include "common/policy/memory-limits.h"
#include "common/protocol/kv.h"
#include "common/protocol/proto.h"
#include "common/util/memory.h"
#include "daemon/stagingd/budget.h"
#include "daemon/stagingd/grant.h"
#include "daemon/stagingd/job.h"
#include "daemon/stagingd/launcher.h"
#include "daemon/stagingd/stage.h"
#include "daemon/stagingd/worker-task.h"
#include "daemon/worker/ctx-internal.h"
#include "daemon/worker/plan.h"
#include "daemon/worker/space.h"

#define G (1ULL << 30)
#define NO MEMORY_LIMITS_NONE

/* clang-format off */
static const struct {
	const char *what;
	struct memory_facts f;
	uint64_t have;
	enum memory_limit limit;
} cases[] = {
	{ "nothing limits", { .fs_free = NO }, NO, MEMORY_LIMIT_NONE },
	{ "memory whose facts are not known", { .memory = true, .fs_free = NO }, NO, MEMORY_LIMIT_NONE },
	{ "nine tenths of the job's memory, less what it uses",
	  { .memory = true, .fs_free = NO, .job_limit = 100 * G, .job_used = 10 * G }, 80 * G, MEMORY_LIMIT_JOB },
	{ "and less what was granted",
	  { .memory = true, .fs_free = NO, .job_limit = 100 * G, .job_used = 10 * G, .tier_reserved = 30 * G },
	  50 * G, MEMORY_LIMIT_JOB },
	{ "a job that uses more than its share has nothing left, not a lot",
	  { .memory = true, .fs_free = NO, .job_limit = 100 * G, .job_used = 95 * G }, 0, MEMORY_LIMIT_JOB },
	{ "not charged to the job: the node's share counts",
	  { .memory = true, .fs_free = NO, .node_total = 100 * G, .node_available = 90 * G, .max_percent = 50 },
	  50 * G, MEMORY_LIMIT_PERCENT },
	{ "the site's share is one of the job's memory, too, whatever the job uses",
	  { .memory = true, .fs_free = NO, .job_limit = 100 * G, .job_used = 10 * G, .node_total = 400 * G,
	    .node_available = 300 * G, .max_percent = 50, .tier_reserved = 40 * G }, 10 * G, MEMORY_LIMIT_JOB_PERCENT },
	{ "until the job itself uses more than the rest",
	  { .memory = true, .fs_free = NO, .job_limit = 100 * G, .job_used = 60 * G, .max_percent = 50 }, 30 * G,
	  MEMORY_LIMIT_JOB },
	{ "the node keeps some free",
	  { .memory = true, .fs_free = NO, .node_total = 100 * G, .node_available = 20 * G, .max_percent = 50,
	    .keep_free = 8 * G }, 12 * G, MEMORY_LIMIT_KEEP_FREE },
	{ "what is granted and not written yet is not available",
	  { .memory = true, .fs_free = NO, .node_total = 100 * G, .node_available = 20 * G, .keep_free = 8 * G,
	    .tier_reserved = 10 * G, .unwritten = 4 * G }, 8 * G, MEMORY_LIMIT_KEEP_FREE },
	{ "what is written is not taken off twice",
	  { .memory = true, .fs_free = NO, .node_total = 100 * G, .node_available = 20 * G, .keep_free = 8 * G,
	    .tier_reserved = 10 * G }, 12 * G, MEMORY_LIMIT_KEEP_FREE },
	{ "a node with less than it must keep",
	  { .memory = true, .fs_free = NO, .node_total = 100 * G, .node_available = 5 * G, .keep_free = 8 * G },
	  0, MEMORY_LIMIT_KEEP_FREE },
	{ "a small tmpfs",
	  { .memory = true, .fs_free = 3 * G, .unwritten = G, .node_total = 100 * G, .node_available = 90 * G },
	  2 * G, MEMORY_LIMIT_FILESYSTEM },
	{ "MaxBytes counts all tiers",
	  { .fs_free = NO, .max_bytes = 10 * G, .all_reserved = 4 * G }, 6 * G, MEMORY_LIMIT_MAX_BYTES },
	{ "the quota counts its own",
	  { .fs_free = NO, .tier_quota = 10 * G, .tier_reserved = G, .all_reserved = 9 * G }, 9 * G, MEMORY_LIMIT_QUOTA },
	{ "the memory of the node does not limit a disk",
	  { .fs_free = NO, .node_total = G, .node_available = 0, .max_percent = 1, .job_limit = 1 }, NO, MEMORY_LIMIT_NONE },
	{ "the largest numbers",
	  { .memory = true, .fs_free = NO, .job_limit = UINT64_MAX, .node_total = UINT64_MAX,
	    .node_available = UINT64_MAX, .max_percent = 100 }, 0, MEMORY_LIMIT_JOB },
};
/* clang-format on */

static void test_the_tightest_limit_counts(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases) - 1; i++) {
		enum memory_limit limit;
		uint64_t have = memory_limits_get_have(&cases[i].f, &limit);

		if (have != cases[i].have || limit != cases[i].limit)
			fail_msg("%s: %llu by %s", cases[i].what, (unsigned long long)have,
				 memory_limit_to_string(limit));
	}
	/* no overflow: nine tenths of all there can be */
	assert_in_range(memory_limits_get_have(&cases[ARRAY_SIZE(cases) - 1].f, NULL),
			UINT64_MAX / 100 * 89, UINT64_MAX / 100 * 91);
}

static void test_more_granted_is_never_more_left(void **state)
{
	struct memory_facts f = {
		.memory = true,
		.fs_free = 40 * G,
		.job_limit = 64 * G,
		.node_total = 128 * G,
		.node_available = 70 * G,
		.max_percent = 50,
		.keep_free = 8 * G,
		.max_bytes = 50 * G,
	};
	uint64_t last = UINT64_MAX;

	for (uint64_t n = 0; n < 100; n++) {
		uint64_t have;

		f.tier_reserved = f.all_reserved = f.unwritten = n * G;
		have = memory_limits_get_have(&f, NULL);
		assert_true(have <= last);
		last = have;
	}
	assert_int_equal(last, 0);
}

/* The node as both find it */
static uint64_t node_total, node_available, fs_free;

int __wrap_memory_read_node(uint64_t *totalp, uint64_t *availablep);
int __wrap_memory_read_node(uint64_t *totalp, uint64_t *availablep)
{
	*totalp = node_total;
	*availablep = node_available;
	return node_total ? 0 : -ENODATA;
}

int __wrap_memory_read_fs(const char *path, uint64_t *bytesp);
int __wrap_memory_read_fs(const char *path, uint64_t *bytesp)
{
	*bytesp = fs_free;
	return 0;
}

int __wrap_statvfs64(const char *path, struct statvfs *v);
int __wrap_statvfs64(const char *path, struct statvfs *v)
{
	*v = (struct statvfs){ .f_blocks = UINT64_MAX, .f_bavail = fs_free, .f_frsize = 1 };
	return 0;
}

static uint64_t random_to(uint64_t max)
{
	return ((uint64_t)random() << 31 ^ (uint64_t)random()) % (max + 1);
}

/* Often none at all, often more than the machine has */
static uint64_t random_size(void)
{
	return random_to(3) == 0 ? 0 : random_to(300 * G);
}

static void fill_conf(struct conf *conf, struct conf_tier *shm)
{
	*shm = (struct conf_tier){ .name = (char *)"shm",
				   .kind = CONF_TIER_MEMORY,
				   .quota = random_size() };
	*conf = (struct conf){ .tiers = shm, .n_tiers = 1 };
	conf->max_memory_percent = (uint32_t)random_to(99) + 1;
	conf->keep_free_memory = random_size();
	conf->max_bytes = random_size();
}

static void fill_node(void)
{
	node_total = random_size();
	node_available = node_total ? random_to(node_total) : 0;
	fs_free = random_to(300 * G);
}

/* What others of the job have been granted, in memory and elsewhere, and have written of it */
static void fill_budget(struct budget *b)
{
	for (uint32_t owner = 2; owner < 5; owner++) {
		uint64_t bytes = random_size() / 4;

		assert_int_equal(budget_grant(b, owner, random_to(2) ? "shm" : "ssd", bytes, 1), 0);
		budget_set_written(b, owner, random_to(bytes));
	}
}

/* More than there can be: the answer has what there is. */
static uint64_t ask_stagingd(const struct grants *g, const struct stage *s)
{
	_cleanup_(kv_freep) struct kv *kv = grant_ask(g, s, "shm", UINT64_MAX, 1);

	assert_non_null(kv);
	return kv_get_u64(kv, "ok", 0) ? MEMORY_LIMITS_NONE : kv_get_u64(kv, "have", 0);
}

static uint64_t plan_as_worker(struct kv *task)
{
	struct ctx_private priv = { .task = task };
	struct ctx ctx = { .priv = &priv };
	struct plan_input in = { 0 };
	struct error err = ERROR_INIT;
	uint64_t have;

	assert_int_equal(ctx_task_read(&ctx, &err), 0);
	space_measure(&ctx, &in);
	assert_string_equal(in.spaces[0].tier, "shm");
	have = in.spaces[0].known ? in.spaces[0].free_bytes : MEMORY_LIMITS_NONE;
	dataset_list_deinit(&priv.list);
	return have;
}

/* The task of stagectl explain: client/plan-ask.c */
static struct kv *make_task_of_explain(const struct conf *conf, const struct dataset *d,
				       uint64_t memory)
{
	struct kv *kv = proto_new(PROTO_OP_TASK);
	struct memory_facts f;

	kv_set(kv, "name", d->name);
	kv_set(kv, "item", d->source);
	kv_set(kv, "tmp", "/dev/shm");
	memory_facts_init(&f, conf, conf_get_tier(conf, "shm"));
	f.job_limit = memory;
	memory_facts_to_kv(&f, kv);
	return kv;
}

static void compare(struct job *job, struct stage *s, bool ledger)
{
	_cleanup_(kv_freep) struct kv *task = NULL;
	uint64_t planned, granted;

	if (ledger)
		task = worker_task_new(job, s, "stage", 0);
	else
		task = make_task_of_explain(job->info.conf, s->dataset, job->memory.limit);
	assert_non_null(task);
	planned = plan_as_worker(task);
	granted = ask_stagingd(&job->grants, s);
	if (planned != granted)
		fail_msg("%s %llu, granted are %llu: --mem %llu, used %llu, %u %%",
			 ledger ? "planned" : "explained", (unsigned long long)planned,
			 (unsigned long long)granted, (unsigned long long)job->memory.limit,
			 (unsigned long long)job->memory.used,
			 (unsigned)job->info.conf->max_memory_percent);
}

static void try_one(struct stage *s, bool ledger)
{
	_cleanup_(budget_freep) struct budget *b = NULL;
	struct launcher launcher = { .keeper = true };
	struct conf_tier shm;
	struct conf conf;
	struct job job = { .info.conf = &conf,
			   .launcher = &launcher,
			   .info.rundir = (char *)"/nowhere",
			   .info.data_dir = (char *)"/nowhere",
			   .info.node = (char *)"n",
			   .info.n_nodes = 1,
			   .info.identity.user = (char *)"alice" };

	fill_conf(&conf, &shm);
	fill_node();
	assert_int_equal(budget_new(&b), 0);
	job.memory.info = &job.info;
	job.memory.runs = &job.runs;
	job.grants = (struct grants){ .info = &job.info, .memory = &job.memory, .budget = b };
	job.memory.limit = random_size();
	if (ledger) {
		job.memory.used = random_size() / 8;
		fill_budget(b);
	}
	compare(&job, s, ledger);
}

static void try_many(bool ledger)
{
	_cleanup_(dataset_list_deinit) struct dataset_list list = { 0 };
	struct error err = ERROR_INIT;
	struct stage s = { .id = 1,
			   .methods = (char *)"*",
			   .tiers = (char *)"shm",
			   .rule = (char *)"all",
			   .rule_match = (char *)"/**" };

	srandom(4711);
	assert_int_equal(dataset_list_from_string(&list, "/data/x", &err), 0);
	s.dataset = list.items;
	for (int i = 0; i < 5000; i++)
		try_one(&s, ledger);
}

static void test_what_is_planned_is_what_is_granted(void **state)
{
	try_many(true);
}

static void test_what_is_explained_is_what_a_new_job_is_granted(void **state)
{
	try_many(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_tightest_limit_counts),
		cmocka_unit_test(test_more_granted_is_never_more_left),
		cmocka_unit_test(test_what_is_planned_is_what_is_granted),
		cmocka_unit_test(test_what_is_explained_is_what_a_new_job_is_granted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
