/*
 * What the rules make of an item, from a real configuration file.
 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/policy/source-rules.h"
#include "common/util/error.h"

static const char text[] =
	"[limits]\nMaxBytes=100G\n"
	"[source scratch]\nMatch=/p/scratch/**\nTiers=ssd,shm,scratch\nMaxBytes=10G\n"
	"[source copy]\nMatch=/p/copy/**\nMethods=copy,link\n"
	"[source memory]\nMatch=/p/memory/**\nTiers=shm\n"
	"[source disks]\nMatch=/p/disks/**\nTiers=nvme\n"
	"[source tape]\nMatch=/p/tape/**\nVisibleOn=mover\nMoverPartition=dm\n"
	"[source web]\nMatch=https://data.example.org/**\nChecksum=required\n"
	"[source others]\nMatch=s3://b/**\nEndpoint=https://other.example.org\nAllowUsers=alice\n"
	"[source store]\nMatch=s3://b/**\nEndpoint=https://s3.example.org\nRegion=here\n"
	"Networks=10.0.0.0/8\nCaFile=/etc/ca.pem\nCredentials=anonymous\n"
	"[source theirs]\nMatch=s3://c/**\nEndpoint=https://their.example.org\nAllowUsers=alice\n"
	"[source proxied]\nMatch=https://far.example.org/**\nProxy=http://proxy:3128\n"
	"[source mine]\nMatch=/p/mine/**\nAllowUsers=alice\n"
	"[tier ssd]\nKind=disk\nPath=/local\n"
	"[tier shm]\nKind=memory\n"
	"[tier nvme]\nKind=disk\nPath=/nvme\nRequireGres=nvme\n"
	"[tier scratch]\nKind=shared\nPath=/p/scratch/%g/%u\n"
	"[dataset imagenet]\nSource=/p/scratch/imagenet.tar\nMethod=extract\n"
	"Sha256=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n";

static struct conf *conf;

static int setup(void **state)
{
	char dir[] = "/tmp/test-source-rules-XXXXXX", path[64];
	struct error err = ERROR_INIT;
	FILE *f;
	int r;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/stage-data.conf", dir);
	f = fopen(path, "we");
	assert_non_null(f);
	assert_int_equal(fputs(text, f) >= 0 && fchmod(fileno(f), 0644) == 0 && fclose(f) == 0, 1);
	r = conf_load(&conf, path, &err);
	unlink(path);
	rmdir(dir);
	if (r < 0)
		print_error("%s\n", err.text);
	return r;
}

static int teardown(void **state)
{
	conf_free(conf);
	return 0;
}

static const char *job_gres;

static int admit(const char *item, const char *user, bool permissive, struct source_rules *a,
		 struct dataset_list *list, struct error *err)
{
	const struct source_rules_input in = {
		.conf = conf,
		.user = user,
		.permissive = permissive,
		.gres = job_gres,
		.expand = { .user = "bob", .group = "staff", .node = "n1", .job_id = 7 },
	};

	*err = (struct error)ERROR_INIT;
	*list = (struct dataset_list){ 0 };
	*a = (struct source_rules){ 0 };
	assert_int_equal(dataset_list_from_string(list, item, err), 0);
	assert_int_equal(list->n_items, 1);
	return source_rules_apply(a, &in, &list->items[0], err);
}

/* clang-format off */
static const struct {
	const char *item, *user;
	enum stage_exit code;  /* 0: admitted */
	const char *tiers;     /* or a word of the refusal */
} cases[] = {
	{ "/p/scratch/x.tar", "bob", 0, "ssd,shm" },             /* the rule's order; auto takes no shared tier */
	{ "/p/scratch", "bob", 0, "ssd,shm" },
	{ "/p//scratch/./x", "bob", 0, "ssd,shm" },
	{ "p/scratch/x", "bob", STAGE_EXIT_REFUSED, "'p/scratch/x' is no absolute path" },
	{ "/p/scratch/../../../x", "bob", STAGE_EXIT_REFUSED, "is no absolute path" },
	{ "@@/p/scratch/list", "bob", 0, "ssd,shm" },
	{ "@@p/scratch/list", "bob", STAGE_EXIT_REFUSED, "'p/scratch/list' is no absolute path" },
	{ "/p/copy/x", "bob", 0, "shm,ssd" },                    /* memory before disks, wherever it stands */
	{ "/p/disks/x", "bob", 0, "source" },                    /* RequireGres: nothing is left */
	{ "/p/disks/x:nvme", "bob", STAGE_EXIT_USAGE, NULL },    /* not a DEST of the syntax */
	{ "/p/scratch/x:scratch", "bob", 0, "scratch" },
	{ "/p/scratch/x:source", "bob", 0, "source" },
	{ "/p/memory/x:ssd", "bob", STAGE_EXIT_REFUSED, "may not go to ssd by [source memory], which has Tiers=shm" },
	{ "/p/scratch/x:ssd", "bob", 0, "ssd" },
	{ "/p/scratch/x:shm", "bob", 0, "shm,ssd" },             /* what may be named where it is full */
	{ "/p/memory/x:shm", "bob", 0, "shm" },
	{ "/p/scratch/x:/local", "bob", 0, "ssd,/local" },
	{ "/p/scratch/x:/p/scratch/staff/bob/d", "bob", 0, "scratch,/p/scratch/staff/bob/d" },
	{ "/p/scratch/x:/p/scratch/staff/bobby", "bob", STAGE_EXIT_REFUSED, "below no tier" },
	{ "/p/scratch/x:/nvme/d", "bob", STAGE_EXIT_REFUSED, "may not go to nvme by [source scratch]" },
	{ "/p/copy/x:/nvme/d", "bob", STAGE_EXIT_REFUSED, "--gres=nvme" },
	{ "/p/scratcher/x", "bob", STAGE_EXIT_REFUSED, "/p/scratcher/x" },
	{ "/etc/passwd", "bob", STAGE_EXIT_REFUSED, "/etc/passwd" },
	{ "/p/copy/x::method=copy", "bob", 0, "shm,ssd" },
	{ "/p/copy/x::method=mount", "bob", STAGE_EXIT_REFUSED, "method=mount" },
	{ "/p/tape/x", "bob", STAGE_EXIT_REFUSED, "stagectl submit" },
	{ "/p/mine/x", "bob", STAGE_EXIT_REFUSED, "mine" },
	{ "/p/mine/x", "alice", 0, "shm,ssd" },
	{ "https://data.example.org/x.tar", "bob", STAGE_EXIT_REFUSED, "verify=sha256" },
	{ "https://data.example.org/x.tar::verify=sha256:"
	  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "bob", 0, "shm,ssd" },
	{ "https://evil.example.org/x.tar", "bob", STAGE_EXIT_REFUSED, "evil" },
	{ "@imagenet", "bob", 0, "ssd,shm" },
	{ "@nothing", "bob", STAGE_EXIT_NO_ITEM, "nothing" },
};
/* clang-format on */

static void test_items_against_the_rules(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dataset_list list;
		struct error err;
		struct source_rules a;
		int r;

		if (cases[i].code == STAGE_EXIT_USAGE) { /* refused by the reader already */
			list = (struct dataset_list){ 0 };
			assert_int_not_equal(dataset_list_from_string(&list, cases[i].item, NULL),
					     0);
			continue;
		}
		r = admit(cases[i].item, cases[i].user, false, &a, &list, &err);
		if (cases[i].code) {
			if (r == 0 || error_to_exit(&err) != cases[i].code ||
			    !strstr(err.text, cases[i].tiers))
				fail_msg("%s: %d '%s'", cases[i].item, r,
					 r < 0 ? err.text : a.tiers);
		} else if (r != 0 || strcmp(a.tiers, cases[i].tiers) || err.exit_code) {
			fail_msg("%s: '%s'", cases[i].item, r < 0 ? err.text : a.tiers);
		}
		source_rules_deinit(&a);
		dataset_list_deinit(&list);
	}
}

/* Seen failing with a tier that each job has, and with one that no job has. */
static void test_who_asked_for_the_gres_may_use_its_tier(void **state)
{
	static const struct {
		const char *item, *tiers;
	} gres_cases[] = {
		{ "/p/disks/x", "nvme" },
		{ "/p/copy/x", "shm,ssd,nvme" },
		{ "/p/copy/x:/nvme/d", "nvme,/nvme/d" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(gres_cases); i++) {
		struct dataset_list list;
		struct error err;
		struct source_rules a;
		int r;

		job_gres = "gpu+nvme";
		r = admit(gres_cases[i].item, "bob", false, &a, &list, &err);
		job_gres = NULL;
		if (r < 0 || strcmp(a.tiers, gres_cases[i].tiers))
			fail_msg("%s: '%s'", gres_cases[i].item, r < 0 ? err.text : a.tiers);
		source_rules_deinit(&a);
		dataset_list_deinit(&list);
	}
}

static void test_a_name_of_the_catalog_becomes_what_it_stands_for(void **state)
{
	struct dataset_list list;
	struct error err;
	struct source_rules a;

	assert_int_equal(admit("@imagenet", "bob", false, &a, &list, &err), 0);
	assert_string_equal(list.items[0].source, "/p/scratch/imagenet.tar");
	assert_int_equal(list.items[0].scheme, DATASET_SCHEME_FILE);
	assert_int_equal(list.items[0].method, DATASET_METHOD_EXTRACT);
	assert_int_equal(list.items[0].verify, DATASET_VERIFY_SHA256);
	assert_string_equal(a.rule, "scratch");
	assert_true(a.max_bytes == 10ULL << 30); /* the lower of the two */
	source_rules_deinit(&a);
	dataset_list_deinit(&list);
}

static void test_the_lower_limit_holds_and_0_is_none(void **state)
{
	static const struct {
		uint64_t rule, site, holds;
	} limits[] = {
		{ 0, 0, 0 }, { 0, 5, 5 }, { 5, 0, 5 }, { 5, 9, 5 },
		{ 9, 5, 5 }, { 9, 1, 1 }, { 1, 9, 1 },
	};
	const uint64_t rule = conf->sources[0].max_bytes, site = conf->max_bytes;

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct dataset_list list;
		struct error err;
		struct source_rules a;

		conf->sources[0].max_bytes = limits[i].rule;
		conf->max_bytes = limits[i].site;
		assert_int_equal(admit("/p/scratch/x", "bob", false, &a, &list, &err), 0);
		assert_int_equal(a.max_bytes, limits[i].holds);
		source_rules_deinit(&a);
		dataset_list_deinit(&list);
	}
	conf->sources[0].max_bytes = rule;
	conf->max_bytes = site;
}

static void test_what_the_rule_says_goes_along(void **state)
{
	static const struct {
		const char *item;
		bool permissive;
		const char *rule, *match, *methods;
	} rules[] = {
		{ "/p/copy/x", false, "copy", "/p/copy/**", "copy,link" },
		{ "/p/memory/x", false, "memory", "/p/memory/**", "*" },
		{ "/p/copy/x", true, "own", "/**", "*" },
	};
	char item[4000] = "/p/copy/x:/local/";

	memset(item + strlen(item), 'a', sizeof(item) - strlen(item) - 1);
	for (size_t i = 0; i <= ARRAY_SIZE(rules); i++) {
		struct dataset_list list;
		struct error err;
		struct source_rules a;

		if (i == ARRAY_SIZE(rules)) { /* all of a long DEST */
			assert_int_equal(admit(item, "bob", false, &a, &list, &err), 0);
			assert_memory_equal(a.tiers, "ssd,", 4);
			assert_string_equal(a.tiers + 4, strchr(item, ':') + 1);
		} else {
			assert_int_equal(
				admit(rules[i].item, "bob", rules[i].permissive, &a, &list, &err),
				0);
			assert_string_equal(a.rule, rules[i].rule);
			assert_string_equal(a.rule_match, rules[i].match);
			assert_string_equal(a.methods, rules[i].methods);
			assert_non_null(a.web);
		}
		source_rules_deinit(&a);
		dataset_list_deinit(&list);
	}
}

/* What is no path is not even the user's own; a tier that is named is the site's there, too. */
static void test_without_a_configuration_all_is_ones_own(void **state)
{
	static const struct {
		const char *item, *tiers; /* NULL: refused */
	} own[] = {
		{ "/home/bob/x:/data/here", "/data/here" },
		{ "/home/bob/x:/local/here", "ssd,/local/here" },
		{ "/home/bob/x:shm", "shm,ssd" },
		{ "/home/bob/x", "shm,ssd" },
		{ "/home/bob/x:source", "source" },
		{ "/home/bob/x:/nvme/d", NULL },
		{ "home/bob/x", NULL },
		{ "@@home/bob/x", NULL },
		{ "/../x", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		struct dataset_list list;
		struct error err;
		struct source_rules a;
		int r;

		r = admit(own[i].item, "bob", true, &a, &list, &err);
		if (own[i].tiers ? r != 0 || strcmp(a.tiers, own[i].tiers) || strcmp(a.rule, "own")
				 : r == 0 || error_to_exit(&err) != STAGE_EXIT_REFUSED)
			fail_msg("%s: '%s'", own[i].item, r < 0 ? err.text : a.tiers);
		source_rules_deinit(&a);
		dataset_list_deinit(&list);
	}
}

/* Was wrong: `stagectl run` of an item asked Amazon, where a job with the same item asks the site's
 * own store. A rule that names a server is no permission, so it may be a rule for others. */
static void test_ones_own_address_is_asked_at_the_server_of_the_site(void **state)
{
	static const struct {
		const char *item, *user, *lines[6];
		const char *no; /* not in the text */
	} own[] = {
		{ "s3://b/x",
		  "bob",
		  { "endpoint\thttps://s3.example.org\n", "region\there\n",
		    "networks\t10.0.0.0/8\n", "cafile\t/etc/ca.pem\n", "anonymous\tyes\n",
		    "allow\t*\n" },
		  "other" },
		{ "s3://b/x", "alice", { "endpoint\thttps://other.example.org\n" }, "anonymous" },
		{ "s3://c/x", "bob", { "endpoint\thttps://their.example.org\n" }, "region" },
		{ "s3://d/x", "bob", { "allow\ts3://d/**\t0.0.0.0/0,::/0\n" }, "endpoint" },
		{ "https://far.example.org/x", "bob", { "proxy\thttp://proxy:3128\n" }, "ca.pem" },
		{ "https://else.example.org/x", "bob", { "allow\t*\n" }, "proxy\t" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		struct dataset_list list;
		struct error err;
		struct source_rules a;

		assert_int_equal(admit(own[i].item, own[i].user, true, &a, &list, &err), 0);
		for (size_t j = 0; j < ARRAY_SIZE(own[i].lines) && own[i].lines[j]; j++)
			if (!strstr(a.web, own[i].lines[j]))
				fail_msg("%s: no '%s' in '%s'", own[i].item, own[i].lines[j],
					 a.web);
		if (strstr(a.web, own[i].no))
			fail_msg("%s: '%s' in '%s'", own[i].item, own[i].no, a.web);
		source_rules_deinit(&a);
		dataset_list_deinit(&list);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_items_against_the_rules),
		cmocka_unit_test(test_who_asked_for_the_gres_may_use_its_tier),
		cmocka_unit_test(test_a_name_of_the_catalog_becomes_what_it_stands_for),
		cmocka_unit_test(test_the_lower_limit_holds_and_0_is_none),
		cmocka_unit_test(test_what_the_rule_says_goes_along),
		cmocka_unit_test(test_without_a_configuration_all_is_ones_own),
		cmocka_unit_test(test_ones_own_address_is_asked_at_the_server_of_the_site),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
