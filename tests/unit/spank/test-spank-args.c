#include "tests/unit/unit.h"

#include "spank/client-args.h"

/* Words as a shell would split them, to NULs. */
static void read_line(struct client_args *args, const char *line, char *buf)
{
	size_t n = strlen(line) + 1;

	memcpy(buf, line, n);
	for (size_t i = 0; i < n; i++)
		if (buf[i] == ' ')
			buf[i] = '\0';
	*args = (struct client_args){ 0 };
	client_args_read(args, buf, n);
}

static void test_command_lines(void **state)
{
	static const struct {
		const char *line;
		bool starts_later;
		const char *partition, *script;
	} cases[] = {
		{ "sbatch job.sh", false, "", "job.sh" },
		{ "sbatch -d afterok:1 job.sh", true, "", "job.sh" },
		{ "sbatch -dafterok:1 job.sh", true, "", "job.sh" },
		{ "sbatch --dependency=afterok:1 job.sh", true, "", "job.sh" },
		{ "sbatch --dependency afterok:1 job.sh", true, "", "job.sh" },
		{ "sbatch -b now+1hour job.sh", true, "", "job.sh" },
		{ "sbatch --begin=now job.sh", false, "", "job.sh" },
		{ "sbatch --begin=16:00 job.sh", true, "", "job.sh" },
		{ "sbatch -H -p gpu job.sh", false, "gpu", "job.sh" },
		{ "sbatch -Hp gpu job.sh", false, "gpu", "job.sh" },
		{ "sbatch -pgpu,cpu job.sh -p other", false, "gpu,cpu", "job.sh" },
		{ "sbatch -p a --partition=b job.sh", false, "b", "job.sh" },
		{ "srun -n 4 prog -d x -b y", false, "", "prog" }, /* the program's own */
		{ "srun --pty --overlap bash -b", false, "", "bash" },
		{ "srun --time 10 -p gpu prog", false, "gpu", "prog" },
		{ "srun --exclusive -p gpu prog", false, "gpu", "prog" }, /* value only with '=' */
		{ "sbatch -- -d", false, "", "-d" },
		{ "sbatch -d", false, "", NULL },
		{ "sbatch --dependency", false, "", NULL },
		{ "sbatch --wrap=hostname --begin=tomorrow", true, "", NULL },
		{ "sbatch", false, "", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct client_args args;
		char buf[256];

		read_line(&args, cases[i].line, buf);
		if (args.starts_later != cases[i].starts_later ||
		    strcmp(args.partition, cases[i].partition) ||
		    strcmp(args.script ? args.script : "", cases[i].script ? cases[i].script : ""))
			fail_msg("%s: later %d, partition %s, script %s", cases[i].line,
				 args.starts_later, args.partition,
				 args.script ? args.script : "none");
	}
}

static void test_script_lines(void **state)
{
	static const struct {
		const char *text;
		bool starts_later;
		const char *partition;
	} cases[] = {
		{ "#!/bin/sh\n#SBATCH -d afterok:1\n", true, "" },
		{ "#!/bin/sh\n\n# a remark\n#SBATCH\t--begin=16:00 -p gpu\ntrue\n", true, "gpu" },
		{ "#!/bin/sh\ntrue\n#SBATCH -d afterok:1\n", false, "" }, /* too late */
		{ "#!/bin/sh\n#SBATCHx -d afterok:1\n", false, "" },
		{ "#!/bin/sh\n#SBATCH -p 'gpu' # -d 1\n", false, "gpu" },
		{ "#!/bin/sh\n#SBATCH --partition=\"a,b\"\n#SBATCH -p c\n", false, "c" },
		/* sbatch reads on after lines of blanks and indented comments */
		{ "#!/bin/sh\n  \n\t\r\n  # a remark\n#SBATCH -p gpu\n", false, "gpu" },
		{ "#!/bin/sh\n  true # a remark\n#SBATCH -p gpu\n", false, "" },
		{ "#SBATCH--begin=16:00\n#SBATCH-p gpu\n", true, "gpu" }, /* no blank */
		{ "##SBATCH -p gpu\n", false, "" },
		{ "#SBATCH -p gpu", false, "gpu" }, /* no newline */
		{ "", false, "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct client_args args = { .script = "job.sh" };

		client_args_read_script(&args, cases[i].text);
		if (args.starts_later != cases[i].starts_later ||
		    strcmp(args.partition, cases[i].partition))
			fail_msg("case %zu: later %d, partition %s", i, args.starts_later,
				 args.partition);
		assert_string_equal(args.script, "job.sh");
	}
}

/* Of more than one task at a time */
static void test_arrays(void **state)
{
	static const struct {
		const char *line, *script;
		bool wide;
	} cases[] = {
		{ "sbatch --array=0-9 job.sh", "", true },
		{ "sbatch --array 1,7 job.sh", "", true },
		{ "sbatch -a0-99%10 job.sh", "", true },
		{ "sbatch -Ha 1-4 job.sh", "", true },
		{ "sbatch -a 0-9%1 job.sh", "", false },
		{ "sbatch --array=7 job.sh", "", false },
		{ "sbatch --array=", "", false },
		{ "sbatch --array", "", false },
		{ "sbatch job.sh --array=0-9", "", false }, /* the script's own */
		{ "srun -a 0-9 prog", "", true }, /* no option of srun's, which refuses it */
		{ "sbatch job.sh", "#SBATCH --array=0-9\n", true },
		{ "sbatch -a 7 job.sh", "#SBATCH --array=0-9\n", false },
		{ "sbatch -a 0-9 job.sh", "#SBATCH -a 7\n", true },
		{ "sbatch -a 7 --array=0-9 job.sh", "", true },
		{ "sbatch --array=0-9 -a 7 job.sh", "", false },
		{ "sbatch job.sh", "#SBATCH --array=7\n#SBATCH --array=0-9\n", true },
		{ "sbatch job.sh", "true\n#SBATCH --array=0-9\n", false },
		{ "sbatch --wrap=true job.sh", "", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct client_args args;
		char buf[256];

		read_line(&args, cases[i].line, buf);
		client_args_read_script(&args, cases[i].script);
		if (args.is_wide_array != cases[i].wide)
			fail_msg("%s, script %s: %d", cases[i].line, cases[i].script,
				 args.is_wide_array);
		assert_int_equal(args.is_wrapped, strstr(cases[i].line, "--wrap") != NULL);
	}
}

static void test_gres(void **state)
{
	static const struct {
		const char *line, *script, *gres;
	} cases[] = {
		{ "sbatch --gres=nvme:100 job.sh", "", "nvme" },
		{ "sbatch --gres nvme:100,gpu:1 job.sh", "", "nvme+gpu" },
		{ "sbatch --tres-per-node=gres/nvme:1 job.sh", "", "nvme" },
		{ "sbatch --gres=gpu:1 --tres-per-node=gres/nvme:1 job.sh", "", "gpu+nvme" },
		{ "sbatch job.sh --gres=nvme:1", "", "" }, /* the script's own */
		{ "sbatch --gres=", "", "" },
		{ "sbatch job.sh", "#SBATCH --gres=nvme:1\n", "nvme" },
		{ "sbatch --gres=none job.sh", "#SBATCH --gres=nvme:1\n", "" },
		{ "sbatch --gres=gpu:1 --gres=nvme:1 job.sh", "", "nvme" },
		{ "sbatch --gres=gpu:1 --tres-per-node=gres/ssd:1 --gres=nvme:1 job.sh", "",
		  "nvme+ssd" },
		{ "sbatch job.sh", "#SBATCH --gres=gpu\n#SBATCH --gres=nvme\n", "nvme" },
		{ "srun --gres=nvme:1 prog --gres=gpu", "", "nvme" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct client_args args;
		char buf[256];

		read_line(&args, cases[i].line, buf);
		client_args_read_script(&args, cases[i].script);
		if (strcmp(args.gres, cases[i].gres))
			fail_msg("%s, script %s: '%s'", cases[i].line, cases[i].script, args.gres);
	}
}

static void test_memory_is_read_as_slurm_reads_it(void **state)
{
	static const struct {
		const char *line, *script;
		uint64_t memory;
	} cases[] = {
		{ "sbatch --mem=300 job.sh", "", 300ull << 20 },
		{ "sbatch --mem 2G job.sh", "#SBATCH --mem=1G\n", 2ull << 30 },
		{ "sbatch job.sh", "#SBATCH --mem=512M\n", 512ull << 20 },
		{ "sbatch --mem=4G --mem=1G job.sh", "", 1ull << 30 },
		{ "sbatch job.sh", "#SBATCH --mem=4G\n#SBATCH --mem=1G\n", 1ull << 30 },
		{ "sbatch --mem=0 job.sh", "#SBATCH --mem=1G\n", 0 },
		{ "sbatch --mem=lots job.sh", "", 0 },
		{ "sbatch --mem-per-cpu=1G job.sh --mem=1G", "", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct client_args args;
		char buf[256];

		read_line(&args, cases[i].line, buf);
		client_args_read_script(&args, cases[i].script);
		if (args.memory != cases[i].memory)
			fail_msg("%s: %llu", cases[i].line, (unsigned long long)args.memory);
	}
}

static void test_the_command_line_wins_over_the_script(void **state)
{
	struct client_args args;
	char buf[64];

	read_line(&args, "sbatch -p a job.sh", buf);
	client_args_read_script(&args, "#SBATCH -p b\n");
	assert_string_equal(args.partition, "a");
}

static void test_long_lines_and_bytes_without_end_are_survived(void **state)
{
	_cleanup_(freep) char *text = malloc(100000);
	struct client_args args = { 0 };

	assert_non_null(text);
	memset(text, 'x', 99999);
	memcpy(text, "#SBATCH -p ", 11);
	text[99999] = '\0';
	client_args_read_script(&args, text);
	assert_int_equal(strlen(args.partition), sizeof(args.partition) - 1);
	args = (struct client_args){ 0 };
	client_args_read(&args, "sbatch\0-dx", 9); /* cut before the end */
	assert_false(args.starts_later);
	client_args_read(&args, "", 0);
}

/* Who names none may get one from these, and not the default one. */
static void test_others_may_choose_the_partition(void **state)
{
	static const struct {
		const char *line;
		bool by_other;
	} cases[] = {
		{ "sbatch job.sh", false },
		{ "sbatch --reservation=r job.sh", true },
		{ "srun --reservation r true", true },
		{ "sbatch -M other job.sh", true },
		{ "sbatch --clusters=other job.sh", true },
		{ "sbatch job.sh --reservation=r", false }, /* the script's own */
	};
	struct client_args args;
	char buf[256];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		read_line(&args, cases[i].line, buf);
		assert_int_equal(args.partition_by_other, cases[i].by_other);
	}
}

/* Each variable has the meaning of one option. A reservation was taken for a gres, and
 * SBATCH_DEPENDENCY and others were read although Slurm does not read them. */
static void test_slurms_variables_are_read(void **state)
{
	static const struct {
		const char *client, *name, *value;
		struct client_args expect;
	} cases[] = {
		{ "sbatch", "SBATCH_RESERVATION", "course", { .partition_by_other = true } },
		{ "salloc", "SALLOC_RESERVATION", "course", { .partition_by_other = true } },
		{ "srun", "SLURM_RESERVATION", "course", { .partition_by_other = true } },
		{ "sbatch", "SBATCH_CLUSTERS", "other", { .partition_by_other = true } },
		{ "salloc", "SLURM_CLUSTERS", "other", { .partition_by_other = true } },
		{ "sbatch", "SBATCH_GRES", "gpu:1", { .gres = "gpu" } },
		{ "salloc", "SALLOC_GRES", "gpu:1", { .gres = "gpu" } },
		{ "srun", "SLURM_GRES", "gpu:1", { .gres = "gpu" } },
		{ "sbatch", "SBATCH_PARTITION", "gpu", { .partition = "gpu" } },
		{ "sbatch", "SBATCH_ARRAY_INX", "0-9", { .is_wide_array = true } },
		{ "sbatch", "SBATCH_MEM_PER_NODE", "1G", { .memory = 1ull << 30 } },
		{ "srun", "SLURM_DEPENDENCY", "afterok:1", { .starts_later = true } },
		/* Slurm has no such variables: */
		{ "sbatch", "SBATCH_DEPENDENCY", "afterok:1", { 0 } },
		{ "salloc", "SALLOC_DEPENDENCY", "afterok:1", { 0 } },
		{ "sbatch", "SBATCH_BEGIN", "16:00", { 0 } },
		{ "sbatch", "SBATCH_TRES_PER_NODE", "gres/ssd:1", { 0 } },
		{ "srun", "SLURM_ARRAY_INX", "0-9", { 0 } },
		{ "sbatch", "SALLOC_PARTITION", "gpu", { 0 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct client_args *e = &cases[i].expect;
		struct client_args args = { 0 };

		assert_int_equal(setenv(cases[i].name, cases[i].value, 1), 0);
		client_args_read_environment(&args, cases[i].client);
		unsetenv(cases[i].name);
		if (strcmp(args.gres, e->gres) || strcmp(args.partition, e->partition) ||
		    args.partition_by_other != e->partition_by_other ||
		    args.is_wide_array != e->is_wide_array || args.memory != e->memory ||
		    args.starts_later != e->starts_later)
			fail_msg("%s: gres '%s', partition '%s', by other %d", cases[i].name,
				 args.gres, args.partition, args.partition_by_other);
	}
}

/* A variable comes between the command line and the script. */
static void test_variables_win_over_the_script(void **state)
{
	struct client_args args;
	char buf[64];

	read_line(&args, "sbatch --gres=nvme job.sh", buf);
	assert_int_equal(setenv("SBATCH_GRES", "gpu", 1), 0);
	assert_int_equal(setenv("SBATCH_PARTITION", "a", 1), 0);
	client_args_read_environment(&args, "sbatch");
	unsetenv("SBATCH_GRES");
	unsetenv("SBATCH_PARTITION");
	client_args_read_script(&args, "#SBATCH -p b --gres=ssd\n#SBATCH -p c\n");
	assert_string_equal(args.partition, "a");
	assert_string_equal(args.gres, "nvme");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_command_lines),
		cmocka_unit_test(test_script_lines),
		cmocka_unit_test(test_arrays),
		cmocka_unit_test(test_others_may_choose_the_partition),
		cmocka_unit_test(test_gres),
		cmocka_unit_test(test_memory_is_read_as_slurm_reads_it),
		cmocka_unit_test(test_the_command_line_wins_over_the_script),
		cmocka_unit_test(test_slurms_variables_are_read),
		cmocka_unit_test(test_variables_win_over_the_script),
		cmocka_unit_test(test_long_lines_and_bytes_without_end_are_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
