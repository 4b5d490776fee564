#include "client/doctor-cgroup.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/util/cleanup.h"

#define SLICE "cg/system.slice"
#define SCOPE SLICE "/n1_slurmstepd.scope"
#define CGROUPS "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t3\t1\t1\nmemory\t"

static char top[64];

struct file {
	const char *path, *text;
};

static void write_file(const struct file *file)
{
	char path[256];
	FILE *f;

	for (const char *s = file->path; (s = strchr(s, '/')); s++) {
		snprintf(path, sizeof(path), "%s/%.*s", top, (int)(s - file->path), file->path);
		mkdir(path, 0755);
	}
	snprintf(path, sizeof(path), "%s/%s", top, file->path);
	f = fopen(path, "we");
	assert_non_null(f);
	fputs(file->text, f);
	assert_int_equal(fclose(f), 0);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void look(struct doctor_cgroup *c, const struct file *files, size_t n)
{
	char cg[80], proc[80];

	strcpy(top, "/tmp/test-doctor-cgroup.XXXXXX");
	assert_non_null(mkdtemp(top));
	for (size_t i = 0; i < n && files[i].path; i++)
		write_file(&files[i]);
	snprintf(cg, sizeof(cg), "%s/cg", top);
	snprintf(proc, sizeof(proc), "%s/proc", top);
	doctor_cgroup_look(c, cg, proc);
	assert_int_equal(nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* Fails where the kernel's parameter is the advice for all of v2, as it was. */
static void test_each_cause_is_found(void **state)
{
	static const struct {
		enum doctor_cgroup_kind kind;
		const char *path;
		struct file files[6];
	} cases[] = {
		{ DOCTOR_CGROUP_NONE, "", { { NULL } } },
		{ DOCTOR_CGROUP_V1, "", { { "cg/memory/memory.usage_in_bytes", "1\n" } } },
		{ DOCTOR_CGROUP_V1_NO_MEMORY, "", { { "cg/cpu/cpu.shares", "1\n" } } },
		{ DOCTOR_CGROUP_V2, "", { { "cg/cgroup.controllers", "cpu memory pids\n" } } },
		{ DOCTOR_CGROUP_DISABLED,
		  "",
		  { { "cg/cgroup.controllers", "cpu\n" },
		    { "proc/cgroups", CGROUPS "0\t1\t0\n" } } },
		{ DOCTOR_CGROUP_DISABLED,
		  "",
		  { { "cg/cgroup.controllers", "cpu\n" },
		    { "proc/cmdline", "quiet cgroup_disable=cpu,memory\n" } } },
		{ DOCTOR_CGROUP_USED_BY_V1,
		  "",
		  { { "cg/cgroup.controllers", "cpu\n" },
		    { "proc/cgroups", CGROUPS "4\t1\t1\n" } } },
		{ DOCTOR_CGROUP_OUTSIDE,
		  "",
		  { { "cg/cgroup.controllers", "cpu memory.x\n" },
		    { "proc/cgroups", CGROUPS "0\t1\t1\n" } } },
		{ DOCTOR_CGROUP_OUTSIDE, "", { { "cg/cgroup.controllers", "\n" } } },
		{ DOCTOR_CGROUP_NOT_PASSED_ON,
		  "/cg",
		  { { "cg/cgroup.controllers", "memory\n" },
		    { "cg/cgroup.subtree_control", "cpu\n" },
		    { SLICE "/cgroup.subtree_control", "memory\n" },
		    { SCOPE "/cgroup.subtree_control", "memory\n" } } },
		{ DOCTOR_CGROUP_NOT_PASSED_ON,
		  "/" SLICE,
		  { { "cg/cgroup.controllers", "memory\n" },
		    { "cg/cgroup.subtree_control", "cpu memory\n" },
		    { SLICE "/cgroup.subtree_control", "cpu\n" },
		    { SCOPE "/cgroup.subtree_control", "cpu\n" } } },
		{ DOCTOR_CGROUP_V2,
		  "",
		  { { "cg/cgroup.controllers", "memory\n" },
		    { "cg/cgroup.subtree_control", "memory\n" },
		    { SLICE "/cgroup.subtree_control", "memory\n" },
		    { SCOPE "/cgroup.subtree_control", "\n" } } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct doctor_cgroup c;

		look(&c, cases[i].files, ARRAY_SIZE(cases[i].files));
		assert_int_equal(c.kind, cases[i].kind);
		if (c.kind == DOCTOR_CGROUP_NOT_PASSED_ON)
			assert_string_equal(c.path + strlen(top), cases[i].path);
		else
			assert_string_equal(c.path, "");
	}
}

/* Fails where "not charged" is said of data that is charged without a limit, as it was. */
static void test_what_is_charged_without_a_limit(void **state)
{
	static const struct {
		enum doctor_cgroup_kind kind;
		const char *config;
		bool charged;
	} cases[] = {
		{ DOCTOR_CGROUP_V1, "TaskPlugin = task/cgroup\n", false },
		{ DOCTOR_CGROUP_V1, "JobAcctGatherType = jobacct_gather/cgroup\n", true },
		{ DOCTOR_CGROUP_V1_NO_MEMORY, "JobAcctGatherType = jobacct_gather/cgroup\n",
		  false },
		{ DOCTOR_CGROUP_V2, "TaskPlugin = task/affinity,task/cgroup\n", true },
		{ DOCTOR_CGROUP_V2, "ProctrackType = proctrack/cgroup\nTaskPlugin = (null)\n",
		  true },
		{ DOCTOR_CGROUP_V2, "JobAcctGatherType = jobacct_gather/cgroup\n", true },
		{ DOCTOR_CGROUP_V2, "ProctrackType = proctrack/linuxproc\n", false },
		{ DOCTOR_CGROUP_NOT_PASSED_ON, "TaskPlugin = task/cgroup\n", false },
		{ DOCTOR_CGROUP_NONE, "TaskPlugin = task/cgroup\n", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct doctor_cgroup c = { .kind = cases[i].kind };

		assert_string_equal(doctor_cgroup_get_effect(&c, cases[i].config),
				    cases[i].charged ? "charged to the job, without a limit"
						     : "not charged to the job");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_cause_is_found),
		cmocka_unit_test(test_what_is_charged_without_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
