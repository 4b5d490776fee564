#include "tests/unit/unit.h"

#include "daemon/budget.h"

#define G (1ULL << 30)
#define NO BUDGET_UNLIMITED

/* clang-format off */
static const struct {
	const char *what;
	struct budget_facts f;
	uint64_t have;
	enum budget_limit limit;
} cases[] = {
	{ "nothing limits", { .fs_free = NO }, NO, BUDGET_LIMIT_NONE },
	{ "memory whose facts are not known", { .memory = true, .fs_free = NO }, NO, BUDGET_LIMIT_NONE },
	{ "nine tenths of the job's memory, less what it uses",
	  { .memory = true, .fs_free = NO, .job_limit = 100 * G, .job_used = 10 * G }, 80 * G, BUDGET_LIMIT_JOB },
	{ "and less what was granted",
	  { .memory = true, .fs_free = NO, .job_limit = 100 * G, .job_used = 10 * G, .tier_reserved = 30 * G },
	  50 * G, BUDGET_LIMIT_JOB },
	{ "a job that uses more than its share has nothing left, not a lot",
	  { .memory = true, .fs_free = NO, .job_limit = 100 * G, .job_used = 95 * G }, 0, BUDGET_LIMIT_JOB },
	{ "not charged to the job: the node's share counts",
	  { .memory = true, .fs_free = NO, .node_total = 100 * G, .node_available = 90 * G, .max_percent = 50 },
	  50 * G, BUDGET_LIMIT_PERCENT },
	{ "the site's share is one of the job's memory, too, whatever the job uses",
	  { .memory = true, .fs_free = NO, .job_limit = 100 * G, .job_used = 10 * G, .node_total = 400 * G,
	    .node_available = 300 * G, .max_percent = 50, .tier_reserved = 40 * G }, 10 * G, BUDGET_LIMIT_JOB_PERCENT },
	{ "until the job itself uses more than the rest",
	  { .memory = true, .fs_free = NO, .job_limit = 100 * G, .job_used = 60 * G, .max_percent = 50 }, 30 * G,
	  BUDGET_LIMIT_JOB },
	{ "the node keeps some free",
	  { .memory = true, .fs_free = NO, .node_total = 100 * G, .node_available = 20 * G, .max_percent = 50,
	    .keep_free = 8 * G }, 12 * G, BUDGET_LIMIT_KEEP_FREE },
	{ "what is granted and not written yet is not available",
	  { .memory = true, .fs_free = NO, .node_total = 100 * G, .node_available = 20 * G, .keep_free = 8 * G,
	    .tier_reserved = 10 * G, .unwritten = 4 * G }, 8 * G, BUDGET_LIMIT_KEEP_FREE },
	{ "what is written is not taken off twice",
	  { .memory = true, .fs_free = NO, .node_total = 100 * G, .node_available = 20 * G, .keep_free = 8 * G,
	    .tier_reserved = 10 * G }, 12 * G, BUDGET_LIMIT_KEEP_FREE },
	{ "a node with less than it must keep",
	  { .memory = true, .fs_free = NO, .node_total = 100 * G, .node_available = 5 * G, .keep_free = 8 * G },
	  0, BUDGET_LIMIT_KEEP_FREE },
	{ "a small tmpfs",
	  { .memory = true, .fs_free = 3 * G, .unwritten = G, .node_total = 100 * G, .node_available = 90 * G },
	  2 * G, BUDGET_LIMIT_FILESYSTEM },
	{ "MaxBytes counts all tiers",
	  { .fs_free = NO, .max_bytes = 10 * G, .all_reserved = 4 * G }, 6 * G, BUDGET_LIMIT_MAX_BYTES },
	{ "the quota counts its own",
	  { .fs_free = NO, .tier_quota = 10 * G, .tier_reserved = G, .all_reserved = 9 * G }, 9 * G, BUDGET_LIMIT_QUOTA },
	{ "the memory of the node does not limit a disk",
	  { .fs_free = NO, .node_total = G, .node_available = 0, .max_percent = 1, .job_limit = 1 }, NO, BUDGET_LIMIT_NONE },
	{ "the largest numbers",
	  { .memory = true, .fs_free = NO, .job_limit = UINT64_MAX, .node_total = UINT64_MAX,
	    .node_available = UINT64_MAX, .max_percent = 100 }, 0, BUDGET_LIMIT_JOB },
};
/* clang-format on */

static void test_the_tightest_limit_counts(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases) - 1; i++) {
		enum budget_limit limit;
		uint64_t have = budget_get_have(&cases[i].f, &limit);

		if (have != cases[i].have || limit != cases[i].limit)
			fail_msg("%s: %llu by %s", cases[i].what, (unsigned long long)have,
				 budget_limit_to_string(limit));
	}
	/* no overflow: nine tenths of all there can be */
	assert_in_range(budget_get_have(&cases[ARRAY_SIZE(cases) - 1].f, NULL),
			UINT64_MAX / 100 * 89, UINT64_MAX / 100 * 91);
}

static void test_more_granted_is_never_more_left(void **state)
{
	struct budget_facts f = {
		.memory = true, .fs_free = 40 * G, .job_limit = 64 * G, .node_total = 128 * G,
		.node_available = 70 * G, .max_percent = 50, .keep_free = 8 * G, .max_bytes = 50 * G,
	};
	uint64_t last = UINT64_MAX;

	for (uint64_t n = 0; n < 100; n++) {
		uint64_t have;

		f.tier_reserved = f.all_reserved = f.unwritten = n * G;
		have = budget_get_have(&f, NULL);
		assert_true(have <= last);
		last = have;
	}
	assert_int_equal(last, 0);
}

static void test_the_ledger(void **state)
{
	_cleanup_(budget_freep) struct budget *b = NULL;

	assert_int_equal(budget_new(&b), 0);
	assert_int_equal(budget_grant(b, 1, "shm", 100, 1), 0);
	assert_int_equal(budget_grant(b, 1, "shm", 50, 2), 0); /* adds up */
	assert_int_equal(budget_grant(b, 2, "ssd", 10, 3), 0);
	assert_int_equal(budget_get_reserved(b, "shm"), 150);
	assert_int_equal(budget_get_reserved(b, NULL), 160);
	assert_int_equal(budget_get_files(b), 6);

	budget_set_written(b, 1, 120);
	assert_int_equal(budget_get_unwritten(b, "shm"), 30);
	budget_set_written(b, 1, 9999); /* never more than was granted */
	assert_int_equal(budget_get_unwritten(b, "shm"), 0);

	budget_return(b, 1);
	budget_return(b, 1);
	assert_int_equal(budget_get_reserved(b, NULL), 10);
	budget_return(b, 2);
	assert_int_equal(budget_get_reserved(b, NULL), 0);
}

static void test_the_ledger_does_not_overflow(void **state)
{
	_cleanup_(budget_freep) struct budget *b = NULL;

	assert_int_equal(budget_new(&b), 0);
	assert_int_equal(budget_grant(b, 1, "shm", UINT64_MAX - 1, UINT64_MAX), 0);
	assert_int_equal(budget_grant(b, 1, "shm", 100, 100), 0);
	assert_int_equal(budget_grant(b, 2, "shm", 100, 100), 0);
	assert_true(budget_get_reserved(b, "shm") == UINT64_MAX);
	assert_true(budget_get_files(b) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_tightest_limit_counts),
		cmocka_unit_test(test_more_granted_is_never_more_left),
		cmocka_unit_test(test_the_ledger),
		cmocka_unit_test(test_the_ledger_does_not_overflow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
