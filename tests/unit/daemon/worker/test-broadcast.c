#include "tests/unit/unit.h"

#include "daemon/worker/plan.h"
#include "daemon/worker/broadcast/broadcast-note.h"
#include "daemon/worker/broadcast/broadcast.h"

#define GIB (1ULL << 30)
#define MIB (1ULL << 20)

/* ---- who reads ---- */

/* What is not said is: a tar of 1 GiB to memory, room for all, 8 nodes of 8. */
struct given {
	const char *word;
	enum source_kind kind;
	enum dataset_method method;
	const char *tier;
	uint64_t bytes, free, need, max_rate;
	uint32_t min_nodes, n_nodes;
	bool off, always, failed, remote, in_place, no_keeper;
	/* expected */
	const char *says; /* NULL: it is passed on */
	uint64_t extra;
};

/* clang-format off */
static const struct given cases[] = {
	{ .word = "an archive is there beside its content", .extra = GIB },
	{ .word = "a file is moved out piece by piece", .method = DATASET_METHOD_COPY, .extra = PLAN_BROADCAST_STEP },
	{ .word = "an image with a DEST", .method = DATASET_METHOD_MOUNT, .extra = PLAN_BROADCAST_STEP },
	{ .word = "an image in place", .method = DATASET_METHOD_MOUNT, .in_place = true, .says = "" },
	{ .word = "a link", .method = DATASET_METHOD_LINK, .tier = PLAN_TIER_SOURCE, .says = "" },
	{ .word = "Mode=off", .off = true, .says = "" },
	{ .word = "one node", .n_nodes = 1, .says = "" },
	{ .word = "without a keeper", .no_keeper = true, .says = "" },
	{ .word = "from the web", .remote = true, .says = "" },
	{ .word = "a directory", .kind = SOURCE_DIR, .method = DATASET_METHOD_COPY, .says = "only one file" },
	{ .word = "a set", .kind = SOURCE_SET, .method = DATASET_METHOD_COPY, .says = "only one file" },
	{ .word = "to the disk", .tier = PLAN_TIER_DISK, .says = "to memory" },
	{ .word = "too few nodes", .n_nodes = 7, .says = "the job has 7 nodes, MinNodes is 8" },
	{ .word = "just enough nodes", .min_nodes = 2, .n_nodes = 2, .extra = GIB },
	{ .word = "small", .bytes = 64 * MIB - 1, .says = "is less than 64.0 MiB" },
	{ .word = "not small", .bytes = 64 * MIB, .extra = 64 * MIB },
	{ .word = "small, Mode=sbcast", .bytes = 1, .always = true, .extra = 1 },
	{ .word = "a rate that sbcast does not keep", .max_rate = GIB, .says = "MaxRate" },
	{ .word = "failed once", .failed = true, .says = "has failed" },
	{ .word = "no room for both", .free = 4 * GIB - 1, .need = 3 * GIB, .says = "takes 1.0 GiB more memory, the job has little left" },
	{ .word = "room for both", .free = 4 * GIB, .need = 3 * GIB, .extra = GIB },
	{ .word = "no room at all", .free = GIB, .need = 3 * GIB, .says = "more memory" },
};
/* clang-format on */

static void check_case(const struct given *g)
{
	const struct facts facts = { .kind = g->kind,
				     .bytes = g->bytes ? g->bytes : GIB,
				     .is_remote = g->remote };
	const struct policy policy = { .fan_min_nodes = g->off	       ? 0
							: g->min_nodes ? g->min_nodes
								       : 8,
				       .n_nodes = g->n_nodes ? g->n_nodes : 8,
				       .fan_always = g->always,
				       .keeper = !g->no_keeper,
				       .max_rate = g->max_rate };
	struct plan plan = { .method = g->method ? g->method : DATASET_METHOD_EXTRACT,
			     .copy_first = !g->in_place,
			     .need_bytes = g->need ? g->need : GIB };
	struct plan_input in = { .facts = &facts,
				 .policy = &policy,
				 .n_spaces = 1,
				 .able = { .can_broadcast = !g->failed } };
	char buf[PLAN_BROADCAST_WHY_SIZE];
	uint64_t extra = 0;
	const char * not ;

	in.spaces[0] = (struct plan_space){ .tier = PLAN_TIER_MEMORY,
					    .present = true,
					    .known = true,
					    .free_bytes = g->free ? g->free : 100 * GIB,
					    .limit = "the job has little left" };
	snprintf(plan.tier, sizeof(plan.tier), "%s", g->tier ? g->tier : PLAN_TIER_MEMORY);
	not = plan_broadcast_refuse(&plan, &in, &extra, buf);
	if (!not != !g->says || (not &&(!*not != !*g->says || !strstr(not, g->says))))
		fail_msg("%s: says '%s'", g->word, not ? not : "(passed on)");
	if (extra != g->extra)
		fail_msg("%s: takes %llu more", g->word, (unsigned long long)extra);
}

static void test_who_reads(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check_case(&cases[i]);
}

/* The reservation has room for what comes beside what is made of it. */
static void test_the_plan_reserves_for_both(void **state)
{
	const struct facts facts = { .kind = SOURCE_FILE,
				     .format = FORMAT_TAR,
				     .promise = FORMAT_TAR,
				     .bytes = GIB,
				     .copy_bytes = GIB,
				     .extract_bytes = 2 * GIB,
				     .extract_exact = true,
				     .counted = true };
	struct policy policy = { .rule = "r",
				 .methods = "*",
				 .tiers = "shm",
				 .keeper = true,
				 .n_nodes = 16,
				 .fan_min_nodes = 8 };
	const struct dataset ds = { .name = "x", .source = (char *)"/p/x" };
	struct plan_input in = { .ds = &ds,
				 .facts = &facts,
				 .policy = &policy,
				 .n_spaces = 1,
				 .able = { .can_extract = true, .can_broadcast = true } };
	struct plan plan;

	in.spaces[0] = (struct plan_space){ .tier = PLAN_TIER_MEMORY,
					    .present = true,
					    .known = true,
					    .free_bytes = 3 * GIB,
					    .free_files = UINT64_MAX };
	assert_int_equal(plan_make(&plan, &in, NULL), 0);
	assert_true(plan.broadcast);
	assert_int_equal(plan.need_bytes, 3 * GIB);
	assert_non_null(strstr(plan.line, "read once for all nodes"));
	assert_non_null(strstr(plan.why, "read once, by the first of 16 nodes"));
	in.spaces[0].free_bytes--;
	assert_int_equal(plan_make(&plan, &in, NULL), 0);
	assert_false(plan.broadcast);
	assert_int_equal(plan.need_bytes, 2 * GIB);
	assert_non_null(strstr(plan.why, "each node reads it: "));
}

/* Each wait may be followed by another before the dataset counts as stalled. */
static void test_patience_ends_before_the_stall(void **state)
{
	assert_int_equal(broadcast_get_patience_ms(0), 60000);
	assert_int_equal(broadcast_get_patience_ms(600000), 60000);
	assert_int_equal(broadcast_get_patience_ms(9000), 3000);
}

/* ---- notes ---- */

static void test_notes_come_back(void **state)
{
	static const struct broadcast_note notes[] = {
		{ .kind = BROADCAST_GO, .size = 0 },
		{ .kind = BROADCAST_WHOLE,
		  .size = UINT64_MAX,
		  .mtime_s = INT64_MAX,
		  .mtime_ns = 999999999 },
		{ .kind = BROADCAST_NOT,
		  .size = 1,
		  .mtime_s = -5,
		  .mtime_ns = 7,
		  .reason = "n2: no room" },
	};
	char text[BROADCAST_NOTE_SIZE];
	struct broadcast_note got;

	for (size_t i = 0; i < ARRAY_SIZE(notes); i++) {
		broadcast_note_to_string(&notes[i], text);
		assert_int_equal(broadcast_note_from_data(&got, text, strlen(text)), 0);
		assert_int_equal(got.kind, notes[i].kind);
		assert_true(got.size == notes[i].size && got.mtime_s == notes[i].mtime_s);
		assert_int_equal(got.mtime_ns, notes[i].mtime_ns);
		assert_string_equal(got.reason, notes[i].reason);
		for (size_t n = 0; n < strlen(text); n++) /* while it is being written */
			assert_int_equal(broadcast_note_from_data(&got, text, n),
					 BROADCAST_NOTE_E_UNFINISHED);
	}
}

static void test_a_reason_stays_in_its_line(void **state)
{
	struct broadcast_note note = { .kind = BROADCAST_NOT, .reason = "a\nb\033c" }, got;
	char text[BROADCAST_NOTE_SIZE];

	broadcast_note_to_string(&note, text);
	assert_int_equal(broadcast_note_from_data(&got, text, strlen(text)), 0);
	assert_string_equal(got.reason, "a b c");
	memset(note.reason, 'x', sizeof(note.reason) - 1);
	broadcast_note_to_string(&note, text);
	assert_int_equal(broadcast_note_from_data(&got, text, strlen(text)), 0);
	assert_string_equal(got.reason, note.reason);
}

static void test_what_is_no_note(void **state)
{
	static const char *const texts[] = {
		"\n",
		"stage-broadcast 1\n",
		"stage-broadcast 2 go 1 2.000000003\n",
		"stage-broadcast 1 gone 1 2.000000003\n",
		"stage-broadcast 1 go x 2.000000003\n",
		"stage-broadcast 1 go 1 2\n",
		"stage-broadcast 1 go 1 2.000000003x\n",
		"stage-broadcast 1 go 1 2.0000000031\n",
		"stage-broadcast 1 go -1 2.000000003\n",
		"stage-broadcast 1 go +1 2.000000003\n",
		"stage-broadcast 1 go 01 2.000000003\n",
		"stage-broadcast 1 go 1 2.3\n",
		"stage-broadcast 1  go\t1 2.000000003\n",
		"stage-broadcast 1 go 18446744073709551616 2.000000003\n",
		"stage-broadcast 1 not 1 2.000000003 a\033[2Jb\n",
	};
	char big[BROADCAST_NOTE_SIZE];
	struct broadcast_note got;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (broadcast_note_from_data(&got, texts[i], strlen(texts[i])) !=
		    BROADCAST_NOTE_E_MALFORMED)
			fail_msg("taken: %s", texts[i]);
	memset(big, 'x', sizeof(big));
	assert_int_equal(broadcast_note_from_data(&got, big, sizeof(big)),
			 BROADCAST_NOTE_E_MALFORMED);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_reads),
		cmocka_unit_test(test_the_plan_reserves_for_both),
		cmocka_unit_test(test_patience_ends_before_the_stall),
		cmocka_unit_test(test_notes_come_back),
		cmocka_unit_test(test_a_reason_stays_in_its_line),
		cmocka_unit_test(test_what_is_no_note),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
