#include "tests/unit/unit.h"

#include <sys/stat.h>

#include "daemon/engines/copy/rule-patterns.h"

static void make_link(const char *dir, const char *to, const char *name, uid_t owner)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(symlink(to, path), 0);
	if (geteuid() == 0)
		assert_int_equal(lchown(path, owner, owner), 0);
}

static bool allows(const char *dir, const char *rule, const char *path)
{
	char match[512], real[512], resolved[4096];
	char **rules = NULL;
	bool allowed;

	assert_non_null(realpath(dir, resolved));
	snprintf(match, sizeof(match), "/nowhere/**\n%s/%s", dir, rule);
	snprintf(real, sizeof(real), "%.256s/%s", resolved, path);
	assert_int_equal(rule_patterns_new(&rules, match, NULL), 0);
	allowed = rule_patterns_allow(rules, real);
	rule_patterns_free(rules);
	return allowed;
}

static void test_links_of_root_are_followed_others_not(void **state)
{
	const char *dir = *state;
	char path[512];

	snprintf(path, sizeof(path), "%s/gpfs", dir);
	assert_int_equal(mkdir(path, 0755), 0);
	make_link(dir, "gpfs", "scratch", 0);
	make_link(dir, "scratch", "twice", 0);
	make_link(dir, "gpfs", "users", 65534);
	make_link(dir, "users", "viausers", 0);
	make_link(dir, "loop", "loop", 0);

	assert_true(allows(dir, "gpfs/**", "gpfs/a/b"));
	assert_false(allows(dir, "gpfs/**", "gpfs2/a"));
	assert_false(allows(dir, "gpfs/**", "other"));
	if (geteuid() == 0) {
		assert_true(allows(dir, "scratch/**", "gpfs/a/b"));
		assert_true(allows(dir, "twice/*", "gpfs/a"));
		assert_false(allows(dir, "twice/*", "gpfs/a/b"));
	} else {
		assert_false(allows(dir, "scratch/**", "gpfs/a/b"));
	}
	assert_false(allows(dir, "users/**", "gpfs/a/b"));
	assert_false(allows(dir, "viausers/**", "gpfs/a/b"));
	assert_false(allows(dir, "loop/**", "gpfs/a/b"));
}

static void test_no_rule_allows_nothing(void **state)
{
	char **rules = NULL;

	assert_int_equal(rule_patterns_new(&rules, "", NULL), 0);
	assert_false(rule_patterns_allow(rules, "/a"));
	rule_patterns_free(rules);
	assert_int_equal(rule_patterns_new(&rules, "/**", NULL), 0);
	assert_true(rule_patterns_allow(rules, "/a"));
	rule_patterns_free(rules);
}

/* 2,048 had room, and a rule beyond them allowed nothing. */
static void test_there_may_be_any_number_of_rules(void **state)
{
	char **rules = NULL, *match = NULL;
	size_t size;
	FILE *f = open_memstream(&match, &size);

	(void)state;
	assert_non_null(f);
	for (int i = 0; i < 5000; i++)
		fprintf(f, "/set/%d/**\n", i);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(rule_patterns_new(&rules, match, NULL), 0);
	assert_true(rule_patterns_allow(rules, "/set/0/a"));
	assert_true(rule_patterns_allow(rules, "/set/4999/a"));
	assert_false(rule_patterns_allow(rules, "/set/5000/a"));
	rule_patterns_free(rules);
	free(match);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_links_of_root_are_followed_others_not,
						unit_scratch_setup, unit_scratch_teardown),
		cmocka_unit_test(test_no_rule_allows_nothing),
		cmocka_unit_test(test_there_may_be_any_number_of_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
