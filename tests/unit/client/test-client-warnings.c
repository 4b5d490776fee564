#include "client/warnings.h"

#include "client/snapshot.h"
#include "common/protocol/kv.h"
#include "tests/unit/unit.h"

static void add(struct warnings *w, const char *node, const char *name, const char *text)
{
	struct kv *kv;

	assert_int_equal(kv_new(&kv), 0);
	kv_set(kv, "node", node);
	kv_set(kv, "name", name);
	kv_set(kv, "text", text);
	assert_int_equal(warnings_add(w, &kv), 0);
	assert_null(kv);
}

static void add_node(struct snapshot_list *l, const char *node, const char *name)
{
	struct kv *kv;

	assert_int_equal(kv_new(&kv), 0);
	kv_set(kv, "node", node);
	kv_set(kv, "name", name);
	kv_set(kv, "state", "ready");
	assert_int_equal(snapshot_list_update(l, &kv, NULL), 0);
}

static char *print(const struct warnings *w, const struct snapshot_list *l)
{
	char *text;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	warnings_print(f, w, l, "p");
	assert_int_equal(fclose(f), 0);
	return text;
}

static void test_what_all_nodes_say_is_one_line(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
	_cleanup_(warnings_deinit) struct warnings w = { 0 };
	_cleanup_(freep) char *text = NULL;

	add_node(&l, "n1", "a");
	add_node(&l, "n2", "a");
	add_node(&l, "n1", "b"); /* of another component: n2 has none */
	add(&w, "n2", "a", "gap");
	add(&w, "n1", "a", "gap");
	add(&w, "n1", "b", "hole\nforged: line");
	text = print(&w, &l);
	assert_string_equal(text, "p: a: warning: gap\np: b: warning: hole\\x0aforged: line\n");
}

static void test_where_nodes_differ_they_are_named(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
	_cleanup_(warnings_deinit) struct warnings w = { 0 };
	_cleanup_(freep) char *text = NULL;
	char node[8];

	for (int i = 1; i <= 12; i++) {
		snprintf(node, sizeof(node), "n%d", i);
		add_node(&l, node, "a");
		if (i == 3)
			add(&w, node, "a", "late");
		else if (i != 12)
			add(&w, node, "a", "gap");
	}
	text = print(&w, &l);
	assert_string_equal(text,
			    "p: a on n1, n2, n4, n5, n6, n7, n8, n9 and 2 more: warning: gap\n"
			    "p: a on n3: warning: late\n");
}

static void test_no_warning_is_no_line_and_many_are_counted(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
	_cleanup_(warnings_deinit) struct warnings w = { 0 };
	_cleanup_(freep) char *none = print(&w, &l);
	_cleanup_(freep) char *many = NULL;
	char name[8];

	assert_string_equal(none, "");
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "d%d", i);
		add(&w, "n1", name, "gap");
	}
	many = print(&w, &l);
	assert_non_null(strstr(many, "p: d15: warning: gap\np: 4 more warnings; see "));
}

static void test_strange_messages_stay_the_callers(void **state)
{
	static const char *const cases[] = { "name", "text" };
	_cleanup_(warnings_deinit) struct warnings w = { 0 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_(kv_freep) struct kv *kv = NULL;

		assert_int_equal(kv_new(&kv), 0);
		kv_set(kv, cases[i], "x");
		assert_true(warnings_add(&w, &kv) < 0);
		assert_non_null(kv);
	}
	assert_int_equal(w.n_items, 0);
}

static void test_one_task_of_a_step_tells(void **state)
{
	static const struct {
		const char *local, *node;
		bool tells;
	} cases[] = {
		{ NULL, NULL, true }, /* a shell of salloc's */
		{ "0", "0", true },   { "0", "1", false }, { "1", "0", false }, { "3", "2", false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsetenv("SLURM_LOCALID");
		unsetenv("SLURM_NODEID");
		if (cases[i].local)
			setenv("SLURM_LOCALID", cases[i].local, 1);
		if (cases[i].node)
			setenv("SLURM_NODEID", cases[i].node, 1);
		assert_int_equal(warnings_are_told_here(), cases[i].tells);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_all_nodes_say_is_one_line),
		cmocka_unit_test(test_where_nodes_differ_they_are_named),
		cmocka_unit_test(test_no_warning_is_no_line_and_many_are_counted),
		cmocka_unit_test(test_strange_messages_stay_the_callers),
		cmocka_unit_test(test_one_task_of_a_step_tells),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
