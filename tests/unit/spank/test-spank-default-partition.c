/* Where a job goes that names no partition. */
#include "tests/unit/unit.h"

#include <errno.h>

#include "spank/default-partition.h"

static void write_text(const char *dir, const char *file, const char *text)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static void test_the_default_partition_is_found(void **state)
{
	static const struct {
		const char *text, *more, *expected;
		int r;
	} cases[] = {
		{ "PartitionName=a Nodes=ALL\nPartitionName=b Default=YES\n", "", "b", 0 },
		{ "partitionname=a Nodes=ALL default=yes # of the site\n", "", "a", 0 },
		{ "PartitionName=a Default=NO\n", "", "", -ENOENT },
		{ "#PartitionName=a Default=YES\n", "", "", -ENOENT },
		{ "include more.conf\n", "PartitionName=c State=UP Default=YES\n", "c", 0 },
		{ "Include none.conf\n", "", "", -ENOENT },
		{ "PartitionName=a Default=YES\nJobSubmitPlugins=lua\n", "", "", -EAGAIN },
		{ "PartitionName=a Default=YES\nCliFilterPlugins=cli_filter/lua\n", "", "",
		  -EAGAIN },
		{ "CliFilterPlugins=syslog,user_defaults\nPartitionName=a Default=YES\n", "", "",
		  -EAGAIN },
		{ "CliFilterPlugins=\nPartitionName=a Default=YES\n", "", "a", 0 },
		{ "PartitionName=a \\\n  Nodes=ALL \\\n  Default=YES\n", "", "a", 0 },
		{ "PartitionName=a Nodes=n1\\\n,n2 Default=YES\n", "", "a", 0 },
		{ "PartitionName=a \\ # more\nDefault=YES\n", "", "a", 0 },
		{ "PartitionName=a # ends here \\\nDefault=YES\n", "", "", -ENOENT },
		{ "Include slurm.conf\n", "", "", -ELOOP },
	};
	char dir[] = "/tmp/default-partition.XXXXXX", path[512], command[512];

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/slurm.conf", dir);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char name[64] = "";

		write_text(dir, "slurm.conf", cases[i].text);
		write_text(dir, "more.conf", cases[i].more);
		assert_int_equal(default_partition_read(path, name, sizeof(name)), cases[i].r);
		if (cases[i].r == 0)
			assert_string_equal(name, cases[i].expected);
	}
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_default_partition_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
