/*
 * What is done without memory, or where any call into the kernel fails: nothing crashes, nothing is
 * left, and nothing is done by half and called whole. Breaks when a result is not looked at, of
 * open_memstream() and getline() too.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "common/config/conf.h"
#include "common/config/spec.h"
#include "common/dataset/dataset.h"
#include "common/keep/keep.h"
#include "common/policy/source-rules.h"
#include "common/protocol/kv.h"
#include "common/protocol/manifest.h"
#include "common/protocol/tier-name.h"
#include "common/util/fd.h"
#include "common/util/path.h"
#include "common/util/rmtree.h"
#include "tests/unit/failing.h"

#define LONG_DIR "/a/rather/long/directory/that/does/not/fit/into/the/first/room/of/a/stream"

static enum answer expect_text(int r, char *text, const char *expected)
{
	enum answer answer = answer_of(r);

	if (answer == WHOLE && (!text || strcmp(text, expected)))
		answer = WRONG;
	if (r == 0)
		free(text);
	return answer;
}

/* The option's text */

static const char option[] =
	"a=/p/a:shm:method=copy+threads=3,/p/b.tar:ssd:method=extract+strip=1+subdir=x/"
	"y+include=*.jpg+include=*.png"
	"+exclude=*.txt,/p/c%2Cd,https://h/x.tar:shm:timeout=3m,/p/{1..3}.tar,@cat/sub";

static enum answer read_option(void *arg)
{
	struct dataset_list list = { 0 };
	enum answer answer;
	char *text = NULL;
	int r = dataset_list_from_string(&list, option, NULL);

	if (r < 0)
		return answer_of(r);
	answer = list.n_items == 6 && list.items[1].n_include == 2 ? WHOLE : WRONG;
	if (answer == WHOLE) {
		r = dataset_list_to_string(&list, &text);
		answer = expect_text(r, text, arg);
	}
	dataset_list_deinit(&list);
	return answer;
}

static void test_option(void **state)
{
	struct dataset_list list = { 0 };
	_cleanup_(freep) char *text = NULL;

	struct error err = ERROR_INIT;

	if (dataset_list_from_string(&list, option, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(dataset_list_to_string(&list, &text), 0);
	dataset_list_deinit(&list);
	assert_true(walk("option", read_option, text) > 20);
}

static const char *get_env(void *arg, const char *name)
{
	return LONG_DIR;
}

static enum answer expand_option(void *arg)
{
	struct dataset_list list = { 0 };
	enum answer answer;
	int r = dataset_list_from_string(
		&list, "$A/$B/x,~/y:$C/z,rel/q:shm:method=extract+subdir=d$D", NULL);

	if (r == 0)
		r = dataset_list_expand(&list, "/cwd", LONG_DIR, get_env, NULL, NULL);
	answer = answer_of(r);
	if (r == 0 && (strcmp(list.items[0].source, LONG_DIR LONG_DIR "/x") ||
		       strcmp(list.items[1].dest, LONG_DIR "/z") ||
		       strcmp(list.items[2].source, "/cwd/rel/q")))
		answer = WRONG;
	dataset_list_deinit(&list);
	return answer;
}

static void test_expansion(void **state)
{
	assert_true(walk("expansion", expand_option, NULL) > 10);
}

static enum answer merge_options(void *arg)
{
	static const char *const script[] = { "/p" LONG_DIR, "/q" LONG_DIR };
	static const char *const line[] = { "+/r" LONG_DIR };
	char *value = NULL;
	int r = dataset_merge(&value, script, 2, line, 1, NULL);

	return expect_text(r, value, "/p" LONG_DIR ",/q" LONG_DIR ",/r" LONG_DIR);
}

static void test_merging(void **state)
{
	assert_true(walk("merging", merge_options, NULL) > 1);
}

/* Messages, the spec, paths */

static enum answer fill_kv(void *arg)
{
	_cleanup_(kv_freep) struct kv *kv = NULL, *again = NULL;
	const void *data;
	size_t size;
	int r = kv_new(&kv);

	if (r < 0)
		return answer_of(r);
	for (int i = 0; i < 60; i++) {
		char key[] = { 'k', (char)('a' + i / 26), (char)('a' + i % 26), '\0' };

		kv_setf(kv, key, "%s %d", LONG_DIR, i);
	}
	kv_set(kv, "kaa", LONG_DIR LONG_DIR LONG_DIR);
	kv_set_u64(kv, "n", 7);
	r = kv_get_data(kv, &data, &size);
	if (r == 0)
		r = kv_new_from_data(&again, data, size);
	if (r != 0)
		return answer_of(r);
	return strcmp(kv_get_or_empty(again, "kaa"), LONG_DIR LONG_DIR LONG_DIR) == 0 &&
			       strcmp(kv_get_or_empty(again, "kch"), LONG_DIR " 59") == 0 &&
			       kv_get_u64(again, "n", 0) == 7
		       ? WHOLE
		       : WRONG;
}

static void test_messages(void **state)
{
	assert_true(walk("kv", fill_kv, NULL) > 60);
}

static enum answer pass_spec(void *arg)
{
	struct spec spec = { CONF_WAIT_TASKS, false, "", "0123456789abcdef", (char *)"/p/a" },
		    again;
	_cleanup_(freep) char *text = NULL;
	int r = spec_to_string(&spec, &text);

	if (r == 0)
		r = spec_from_string(&again, text, NULL);
	if (r == 0)
		spec_deinit(&again);
	return answer_of(r);
}

static enum answer join_path(void *arg)
{
	_cleanup_(freep) char *a = path_join("/x", "y"), *b = path_join("/x", "/y");

	return a && b ? WHOLE : SAID_SO;
}

static void test_spec_and_paths(void **state)
{
	assert_true(walk("spec", pass_spec, NULL) >= 2);
	assert_true(walk("path_join", join_path, NULL) >= 2);
}

/* Configuration */

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
	close(fd);
}

static const char conf_text[] =
	"[daemon]\nAllowUsers=a,b , c\nPartitions=p\n"
	"[limits]\nMaxItems=7\n"
	"[source one]\nMatch=/p/**\nMethods=copy,link\nTiers=shm,ssd\nAllowGroups=g\n"
	"[source two]\nMatch=https://h/**\n"
	"[tier ssd]\nPath=/local/%u/%j\nKind=disk\nQuota=7G\n"
	"[dataset cat]\nSource=/p/cats\nDescription=what they are\n";

static enum answer load_conf(void *arg)
{
	static const char *const groups[] = { "g" };
	static const struct conf_expand names = {
		.user = "u", .group = "g", .node = "n", .job_id = 7
	};
	_cleanup_(conf_freep) struct conf *conf = NULL;
	_cleanup_(freep) char *dir = NULL;
	const struct conf_source *rule;
	int r = conf_load(&conf, arg, NULL);

	if (r < 0)
		return answer_of(r);
	if (conf->max_items != 7 || conf->n_sources != 3 || conf->n_tiers != 2 ||
	    conf->n_datasets != 1 || strcmp(conf->allow_users, "a,b,c") ||
	    strcmp(conf->sources[0].tiers, "shm,ssd") ||
	    strcmp(conf->datasets[0].description, "what they are"))
		return WRONG;
	if (conf_match(conf, "/p/x", "u", groups, 1, false, &rule, NULL) != 0 ||
	    strcmp(rule->name, "one"))
		return WRONG;
	r = conf_expand_path(conf_get_tier(conf, "ssd")->path, &names, &dir, NULL);
	if (r == 0 && strcmp(dir, "/local/u/7"))
		return WRONG;
	return answer_of(r);
}

static void test_configuration(void **state)
{
	char path[512], dropin[512];

	snprintf(path, sizeof(path), "%s/stage-data.conf", (char *)*state);
	write_file(path, conf_text);
	snprintf(dropin, sizeof(dropin), "%s/conf.d", (char *)*state);
	assert_int_equal(mkdir(dropin, 0755), 0);
	for (int i = 0; i < 3; i++) {
		snprintf(dropin, sizeof(dropin), "%s/conf.d/%d.conf", (char *)*state, i);
		write_file(dropin, i == 1 ? "[source three]\nMatch=/q/**\n" : "# nothing\n");
	}
	assert_true(walk("configuration", load_conf, path) > 50);
}

static enum answer refuse_source(void *arg)
{
	_cleanup_(conf_freep) struct conf *conf = NULL;
	const struct conf_source *rule;
	struct error err = ERROR_INIT;
	int r = conf_load(&conf, arg, NULL);

	if (r < 0)
		return answer_of(r);
	/* The sentence may be shorter for want of memory, but not the answer another one. */
	r = conf_match(conf, "/nowhere", "u", NULL, 0, false, &rule, &err);
	return (r == -EPERM || r == -ENOMEM) && err.text[0] ? WHOLE : WRONG;
}

static void test_refusing_stays_refusing(void **state)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/stage-data.conf", (char *)*state);
	write_file(path, conf_text);
	assert_true(walk("refusal", refuse_source, path) > 50);
}

/* What is let in has its rule's words, and the tiers in their order. Seen failing: the order was
 * copied, and without memory for that another was taken. */
static enum answer admit_item(void *arg)
{
	const struct source_rules_input in = { .conf = arg, .user = "u" };
	struct dataset_list list = { 0 };
	enum answer answer;
	struct source_rules a = { 0 };
	int r = dataset_list_from_string(&list, "@set", NULL);

	if (r == 0)
		r = source_rules_apply(&a, &in, &list.items[0], NULL);
	answer = answer_of(r);
	if (answer == WHOLE && (strcmp(a.rule, "one") || strcmp(a.rule_match, "/p/**") ||
				strcmp(a.tiers, "ssd,shm") || strcmp(a.methods, "*") || !a.web))
		answer = WRONG;
	source_rules_deinit(&a);
	dataset_list_deinit(&list);
	return answer;
}

static void test_admission(void **state)
{
	_cleanup_(conf_freep) struct conf *conf = NULL;
	char path[512];

	snprintf(path, sizeof(path), "%s/stage-data.conf", (char *)*state);
	write_file(path, "[source one]\nMatch=/p/**\nTiers=ssd,shm\n[tier shm]\nKind=memory\n"
			 "[tier ssd]\nKind=disk\nPath=/local\n[dataset set]\nSource=/p/set\n");
	assert_int_equal(conf_load(&conf, path, NULL), 0);
	assert_true(walk("admission", admit_item, conf) >= 10);
}

/* What must be taken away */

static enum answer keep_manifest(void *arg)
{
	_cleanup_(manifest_closep) struct manifest *m = NULL;
	char path[512];
	int r;

	snprintf(path, sizeof(path), "%s/manifest", (char *)arg);
	r = manifest_open(&m, path, NULL);
	if (r == 0)
		r = manifest_add(m, MANIFEST_TREE, "/nowhere/with space\nand line", NULL);
	return answer_of(r);
}

/* The tree is made anew only where the last run took it away. */
static void make_tree(void *arg)
{
	const char *dir = arg;
	char path[512], line[600];

	snprintf(path, sizeof(path), "%s/tree", dir);
	if (mkdir(path, 0755) < 0)
		return;
	snprintf(line, sizeof(line), "tree %s\n", path);
	snprintf(path, sizeof(path), "%s/tree/file", dir);
	write_file(path, "");
	snprintf(path, sizeof(path), "%s/manifest", dir);
	write_file(path, line);
}

static enum answer release(void *arg)
{
	char path[512], tree[512];
	int r;

	snprintf(path, sizeof(path), "%s/manifest", (char *)arg);
	snprintf(tree, sizeof(tree), "%s/tree", (char *)arg);
	r = manifest_release(path, NULL, NULL);
	/* What could not be taken away is still written down, for the next. */
	return r == 0 && access(tree, F_OK) == 0 ? WRONG : answer_of(r);
}

/* As after a crash: two datasets' manifests, a tree each. */
static void make_trees(void *arg)
{
	static const char *const names[] = { "a", "b" };
	char path[512], line[600];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/tree-%s", (char *)arg, names[i]);
		if (mkdir(path, 0755) < 0)
			continue;
		snprintf(line, sizeof(line), "tree %s\n", path);
		snprintf(path, sizeof(path), "%s/tree-%s/deep", (char *)arg, names[i]);
		mkdir(path, 0755);
		snprintf(path, sizeof(path), "%s/tree-%s/deep/file", (char *)arg, names[i]);
		write_file(path, "");
		snprintf(path, sizeof(path), "%s/manifest.%s", (char *)arg, names[i]);
		write_file(path, line);
	}
}

static enum answer release_all(void *arg)
{
	char path[512];
	int r = manifest_release_all(arg, NULL, NULL), left;

	snprintf(path, sizeof(path), "%s/tree-a", (char *)arg);
	left = access(path, F_OK) == 0;
	snprintf(path, sizeof(path), "%s/tree-b", (char *)arg);
	left += access(path, F_OK) == 0;
	return r == 0 && left ? WRONG : answer_of(r);
}

static enum answer empty_directory(void *arg)
{
	int fd = open(arg, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
	char path[512];

	if (fd < 0)
		return SAID_SO;
	r = rmtree_empty(fd, NULL, NULL);
	close(fd);
	snprintf(path, sizeof(path), "%s/tree-a", (char *)arg);
	return r == 0 && access(path, F_OK) == 0 ? WRONG : answer_of(r);
}

static void test_removal(void **state)
{
	assert_true(walk_from("release all", make_trees, release_all, *state) > 20);
	assert_true(walk_from("empty", make_trees, empty_directory, *state) > 20);
}

static void test_manifest(void **state)
{
	assert_true(walk("manifest", keep_manifest, *state) >= 3);
	assert_true(walk_from("release", make_tree, release, *state) >= 2);
}

/* Directories of which only a part can be read: a disk tier with what jobs left, and the leases of
 * what is kept. An unread rest was taken for an empty one: a job's files stayed on a disk for ever.
 */

static int count_one(void *arg, int dirfd, const char *name)
{
	(void)dirfd;
	(void)name;
	++*(unsigned *)arg;
	return 0;
}

static enum answer count_leftovers(void *arg)
{
	int fd = open(arg, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
	unsigned n = 0;

	if (fd < 0)
		return SAID_SO;
	r = tier_name_for_each(fd, 7, count_one, &n);
	close(fd);
	return r == 0 && n != 3 ? WRONG : answer_of(r);
}

static void test_what_jobs_left(void **state)
{
	char path[512];

	for (unsigned i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/stage-data-7.%u", (char *)*state, i);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	assert_true(walk("leftovers", count_leftovers, *state) >= 6);
}

struct keep_use {
	struct keep k;
	struct keep_entry e;
};

static enum answer ask_for_lease(void *arg)
{
	const struct keep_use *kept = arg;

	return keep_entry_is_used(&kept->k, &kept->e) ? WHOLE : WRONG;
}

static void test_lease(void **state)
{
	struct keep_use kept = { { -1, *state }, KEEP_ENTRY_INIT };
	char path[512];

	kept.e.fd = open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(kept.e.fd >= 0);
	snprintf(path, sizeof(path), "%s/7", (char *)*state);
	assert_int_equal(mkdir(path, 0700), 0);
	strcat(path, "/t");
	assert_int_equal(mkdir(path, 0711), 0);
	strcat(path, "/data");
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(keep_entry_take(&kept.e, 7), 0);
	assert_true(walk("lease", ask_for_lease, &kept) >= 4);
	close(kept.e.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_option),
		cmocka_unit_test(test_expansion),
		cmocka_unit_test(test_merging),
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_spec_and_paths),
		cmocka_unit_test_setup_teardown(test_configuration, unit_scratch_setup,
						unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_refusing_stays_refusing, unit_scratch_setup,
						unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_admission, unit_scratch_setup,
						unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_removal, unit_scratch_setup,
						unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_manifest, unit_scratch_setup,
						unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_what_jobs_left, unit_scratch_setup,
						unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_lease, unit_scratch_setup,
						unit_scratch_teardown),
	};

	if (unit_is_under_valgrind()) /* its malloc() never fails */
		return UNIT_SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
