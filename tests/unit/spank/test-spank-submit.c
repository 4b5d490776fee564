#include "tests/unit/spank/test-spank-fake.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/config/conf.h"
#include "common/config/spec.h"
#include "common/protocol/rundir.h"
#include "common/protocol/submit-notes.h"
#include "spank/wait-ready.h"
#include "spank/options.h"
#include "spank/step.h"
#include "spank/submit.h"

/*
 * Each case is a client of its own: a child that gives the options, calls the hook and shows what
 * was published. sbatch is told from the others by the name of the program, and scripts' lines by
 * where their text lies: what is in this file's data is a script's.
 */
struct client {
	const char *program;
	spank_context_t context;
	const char *const *script, *const *command_line; /* NULL-terminated, may be NULL */
	const char *wait;
	const char *env[8]; /* NAME, VALUE, ... */
	const char *answer; /* of a cli_filter, NULL: the site has none */
	uid_t uid;	    /* of another user, 0: stays */
	bool no_equals;	    /* the environment has an entry without '=' */
	bool no_file_size;  /* as after `ulimit -f 0` */
	bool control_is_full;
	bool shows_env; /* what stands in the environment afterwards */
};

static char conf_path[4096], dir[4096];

static int call(const char *name, const char *value)
{
	for (size_t i = 0; i < fake.n_options; i++)
		if (!strcmp(fake.options[i].name, name))
			return fake.options[i].cb(fake.options[i].val, value, 0);
	return -1;
}

/* Values given as srun or salloc would, where all is the command line. */
static void give(const struct client *c)
{
	fake.context = S_CTX_ALLOCATOR;
	program_invocation_short_name = (char *)"sbatch";
	for (const char *const *v = c->script; v && *v; v++)
		assert_int_equal(call("stage-data", *v), 0);
	fake.context = S_CTX_LOCAL;
	for (const char *const *v = c->command_line; v && *v; v++)
		assert_int_equal(call("stage-data", *v), 0);
	if (c->wait)
		assert_int_equal(call("stage-wait", c->wait), 0);
	program_invocation_short_name = (char *)c->program;
	fake.context = c->context;
}

/* Shows what was noted for a filter, NULs as '|', and answers as one. */
static void filter(const struct client *c, FILE *out)
{
	char notes[4096] = "";
	ssize_t n;
	int fd;

	if (!getenv(SUBMIT_NOTES_ENV)) {
		fputs("no notes\n", out);
		return;
	}
	fd = atoi(getenv(SUBMIT_NOTES_ENV));
	assert_false(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	n = pread(fd, notes, sizeof(notes) - 1, 0);
	for (ssize_t i = 0; i < n; i++)
		if (!notes[i])
			notes[i] = '|';
	fprintf(out, "%s\n", notes);
	dprintf(fd, "=%s%c", c->answer, 0);
}

static bool is_placed(const char *value)
{
	return value && strncmp(value, RUNDIR_NOT_STAGED, strlen(RUNDIR_NOT_STAGED));
}

static void show_env(FILE *out)
{
	for (char **e = environ; *e; e++)
		if (!strncmp(*e, "STAGE_DATA_", 11))
			fprintf(out, "\n%s", *e);
	fputc('\n', out);
}

/* execve() passes such an entry on. */
static void add_entry_without_equals(void)
{
	static char *entries[1000] = { (char *)"STAGE_DATA_X" };

	for (size_t i = 0; environ[i] && i < ARRAY_SIZE(entries) - 2; i++)
		entries[i + 1] = environ[i];
	environ = entries;
}

static void client_main(const struct client *c, FILE *out) __attribute__((noreturn));
static void client_main(const struct client *c, FILE *out)
{
	struct rlimit files;

	fake_reset(c->context);
	fake.control_is_full = c->control_is_full;
	assert_int_equal(chdir(dir), 0);
	if (c->uid)
		assert_int_equal(setresuid(c->uid, c->uid, c->uid), 0);
	for (size_t i = 0; i + 1 < ARRAY_SIZE(c->env) && c->env[i]; i += 2)
		setenv(c->env[i], c->env[i + 1], 1);
	if (c->no_equals)
		add_entry_without_equals();
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &files), 0);
	if (c->no_file_size)
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 0, files.rlim_max }), 0);
	program_invocation_short_name = (char *)c->program;
	submit_init();
	options_register(NULL);
	give(c);
	if (c->answer)
		filter(c, out);
	submit_post_opt(NULL, conf_path);
	setrlimit(RLIMIT_FSIZE, &files); /* for out */
	assert_null(getenv(SUBMIT_NOTES_ENV));
	fprintf(out, "%s%s", fake.control ? fake.control : "nothing", fake.log[0] ? "\n" : "");
	fputs(fake.log, out);
	if (c->shows_env)
		show_env(out);
	if (getenv("STAGE_DATA") || is_placed(getenv("STAGE_DATA_DIR")) || getenv(STEP_ENV_HELD))
		fputs("\nleft in the environment", out);
	if (getenv(WAIT_READY_ENV_WAIT))
		fprintf(out, "\nwait=%s", getenv(WAIT_READY_ENV_WAIT));
	fflush(out);
	_exit(0);
}

/* Exit status; text: what was published and said, or the refusal. */
static int run_client(const struct client *c, char *text, size_t size)
{
	FILE *out = tmpfile();
	int status;
	size_t n;
	pid_t pid;

	assert_non_null(out);
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		dup2(fileno(out), STDERR_FILENO);
		client_main(c, out);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	rewind(out);
	n = fread(text, 1, size - 1, out);
	text[n] = '\0';
	fclose(out);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* VALUE out of "1:WAIT:HASH:VALUE", with the scratch directory as D. */
static void check_published(const struct client *c, const char *wait, const char *value)
{
	char text[8192], expect[8192], *p;

	if (run_client(c, text, sizeof(text)) != 0)
		fail_msg("refused: %s", text);
	if (!value) {
		assert_string_equal(text, "nothing");
		return;
	}
	snprintf(expect, sizeof(expect), "1:%s:", wait);
	if (strncmp(text, expect, strlen(expect)))
		fail_msg("%s is not %s…", text, expect);
	p = strchr(text + strlen(expect), ':');
	assert_non_null(p);
	while (strstr(p, dir)) {
		char *d = strstr(p, dir);

		*d = 'D';
		memmove(d + 1, d + strlen(dir), strlen(d + strlen(dir)) + 1);
	}
	assert_string_equal(p + 1, value);
}

static void test_what_replaces_what(void **state)
{
	static const char *const
		a[] = { "a=a.tar", NULL },
		*const ab[] = { "a=a.tar", "b=a.tar", NULL }, *const c[] = { "c=a.tar", NULL },
		*const plus[] = { "+c=a.tar", NULL }, *const cd[] = { "c=a.tar", "d=a.tar", NULL },
		*const none[] = { "none", NULL };
	static const struct {
		const char *const *script;
		const char *env;
		const char *const *command_line;
		const char *expect;
	} cases[] = {
		{ NULL, NULL, NULL, NULL },
		{ a, NULL, NULL, "a=D/a.tar" },
		{ ab, NULL, NULL, "a=D/a.tar,b=D/a.tar" },
		{ ab, NULL, c, "c=D/a.tar" },
		{ ab, NULL, cd, "c=D/a.tar,d=D/a.tar" },
		{ ab, NULL, plus, "a=D/a.tar,b=D/a.tar,c=D/a.tar" },
		{ NULL, NULL, plus, "c=D/a.tar" },
		{ ab, NULL, none, NULL },
		{ ab, "e=a.tar", NULL, "e=D/a.tar" },
		{ ab, "+e=a.tar", NULL, "a=D/a.tar,b=D/a.tar,e=D/a.tar" },
		{ a, "e=a.tar", c, "c=D/a.tar" },
		{ a, "e=a.tar", plus, "e=D/a.tar,c=D/a.tar" },
		{ a, "none", NULL, NULL },
		{ NULL, "", NULL, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct client cl = {
			"sbatch", S_CTX_ALLOCATOR, cases[i].script, cases[i].command_line,
			NULL,	  { NULL }
		};

		if (cases[i].env) {
			cl.env[0] = "STAGE_DATA";
			cl.env[1] = cases[i].env;
		}
		check_published(&cl, "script", cases[i].expect);
	}
}

static void test_who_waits(void **state)
{
	static const char *const a[] = { "a=a.tar", NULL };
	struct client c = { "sbatch", S_CTX_ALLOCATOR, a, NULL, "tasks", { NULL } };
	char text[8192];

	check_published(&c, "tasks", "a=D/a.tar");
	c.env[0] = "STAGE_WAIT";
	c.env[1] = "no";
	check_published(&c, "tasks", "a=D/a.tar"); /* the command line wins */
	c.wait = NULL;
	check_published(&c, "no", "a=D/a.tar");
	c.wait = "later";
	assert_int_equal(run_client(&c, text, sizeof(text)), 1);
	assert_string_equal(text, "stage-data: --stage-wait=later is not known; use script, tasks "
				  "or no\n");
}

static void test_arrays_are_marked(void **state)
{
	static const char *const a[] = { "a.tar", NULL };
	const struct client array = { "sbatch", S_CTX_ALLOCATOR,
				      a,	NULL,
				      "no",	{ "SBATCH_ARRAY_INX", "0-9" } };
	const struct client one = { "sbatch", S_CTX_ALLOCATOR,
				    a,	      NULL,
				    NULL,     { "SBATCH_ARRAY_INX", "7" } };

	check_published(&array, "no,array", "D/a.tar");
	check_published(&one, "script", "D/a.tar");
}

static void test_refusals_name_the_item_and_end_the_client(void **state)
{
	static const struct {
		const char *value, *expect;
	} cases[] = {
		{ "a.tar:nowhere", "DEST" },
		{ "missing.tar", "missing.tar: No such file or directory" },
		{ "year=2020/p", "write ./year=2020/p" },
		{ "year=./2020/p", "can be seen from here\n" }, /* nobody took that for a path */
		{ "./year=2020/p", "can be seen from here\n" },
		{ "a.tar:scratch", "no [tier scratch]" },
		{ "a.tar:/elsewhere/x",
		  "DEST /elsewhere/x is below no tier of this site ([tier ssd] /" },
		{ "a.tar:/tmpx/mine", "DEST /tmpx/mine is below no tier" },
		{ "gone/a.tar", "/gone is not there)" },
		{ "a.tar b.tar", "a comma separates items" },
		{ "x=a.tar b.tar", "a comma separates items" },
		{ "tight/a.tar:ssd", "[source tight], which has Tiers=shm" },
		{ "tight/a.tar::method=mount", "[source tight], which has Methods=copy" },
		{ "$STAGE_NO_SUCH/a", "STAGE_NO_SUCH" },
		{ "/etc/passwd", "/etc/passwd" }, /* no rule */
		{ "@catalogue", "@catalogue" },
		{ "@closed", "/etc/closed.tar: no rule of the site matches" },
		{ "@loose/below", "/below: no rule of the site matches" },
		{ "@tight", "method=mount is not allowed" },
		{ "@tight::method=copy+onfail=source,@tight:ssd:method=copy",
		  "which has Tiers=shm" },
		{ "a.tar,+none", "none" },
		{ "a=a.tar,b=a.tar,c=a.tar,d=a.tar", "4 datasets, this site allows 3" },
		{ "a.tar/x", "a.tar is no directory)" },
		{ "loop/x", "loop fails)" },
		{ "/far/x", "compute nodes can't see /far/x ([source far] has VisibleOn=mover)" },
		{ "https://sums.example/x.tar",
		  "to come with its checksum ([source sums] has Checksum=required)" },
		{ "https://h.example/x:source", "data on the web can't be used where it is" },
		{ "s3://bucket/x:source", "data on the web can't be used where it is" },
		{ "a.tar:/wid/x",
		  "this site ([tier ssd] /tmp, [tier wide] /wide/%u); leave DEST out" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *const values[] = { cases[i].value, NULL };
		const struct client c = { "sbatch", S_CTX_ALLOCATOR, values, NULL, NULL, { NULL } };
		char text[8192];
		int r = run_client(&c, text, sizeof(text));

		if (r != 1 || !strstr(text, cases[i].expect) || strncmp(text, "stage-data: ", 12) ||
		    !strchr(text, '\n') || strchr(text, '\n')[1])
			fail_msg("%s: %d, %s", cases[i].value, r, text);
	}
}

static void refuses(const struct client *c, const char *expect)
{
	char text[8192];

	if (run_client(c, text, sizeof(text)) != 1 || !strstr(text, expect))
		fail_msg("%s: %s", expect, text);
}

static void test_a_directory_that_others_may_not_pass_is_named(void **state)
{
	static const char *const a[] = { "locked/in/a", NULL };
	const struct client c = {
		.program = "sbatch", .context = S_CTX_ALLOCATOR, .script = a, .uid = 65534
	};

	if (geteuid() != 0)
		skip();
	refuses(&c, "/locked can't be entered); it is read as you: ask its owner");
}

static void test_braces_of_the_shell_are_told(void **state)
{
	static const char *values[1100];
	struct client c = { "sbatch", S_CTX_ALLOCATOR, values, NULL, NULL, { NULL } };

	for (size_t i = 0; i + 1 < ARRAY_SIZE(values); i++)
		values[i] = "a=a.tar";
	refuses(&c, "given 1099 times; did the shell expand braces?");
}

static void test_a_slurm_that_takes_no_more_is_told(void **state)
{
	static const char *const a[] = { "a=a.tar", NULL };
	const struct client c = { .program = "sbatch",
				  .context = S_CTX_ALLOCATOR,
				  .script = a,
				  .control_is_full = true };

	refuses(&c, "cannot pass the value on to the job");
}

static void test_destinations_that_a_site_has(void **state)
{
	static const char *const dests[] = { "a=a.tar:ssd",	  "a=a.tar:shm",
					     "a=a.tar:source",	  "a=a.tar:/tmp",
					     "a=a.tar:/tmp/mine", "a=a.tar:/wide/me/x" };

	for (size_t i = 0; i < ARRAY_SIZE(dests); i++) {
		const char *const values[] = { dests[i], NULL };
		const struct client c = { "sbatch", S_CTX_ALLOCATOR, values, NULL, NULL, { NULL } };
		char expect[64];

		snprintf(expect, sizeof(expect), "a=D/%s", dests[i] + 2);
		check_published(&c, "script", expect);
	}
}

static void write_file(const char *name, const char *text)
{
	char path[8192];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fchmod(fileno(f), 0644), 0);
	fclose(f);
}

static void append_file(const char *path, const char *data, size_t size)
{
	FILE *f = fopen(path, "a");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, size, f), size);
	fclose(f);
}

#define SUM "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* What is not there yet may come. */
static void test_warnings_do_not_hold_a_job_up(void **state)
{
	static const char *const gone[] = { "a=gone.tar", NULL }, *const whole[] = {
		"a=a.tar::verify=sha256:" SUM, NULL
	};
	struct client later = { "srun", S_CTX_LOCAL, gone,
				NULL,	NULL,	     { "SLURM_DEPENDENCY", "afterok:1" } };
	struct client c = { "sbatch", S_CTX_ALLOCATOR, whole, NULL, NULL, { NULL } };
	char text[8192];

	assert_int_equal(run_client(&later, text, sizeof(text)), 0);
	assert_non_null(
		strstr(text, "gone.tar: No such file or directory; it has to be there when"));
	check_published(&c, "script", "a=D/a.tar::verify=sha256:" SUM); /* and nothing said */
}

/* Nine tenths of --mem, where the site gives datasets all of it: what stagingd grants at most. */
static void test_what_can_not_fit_into_the_job_is_told(void **state)
{
	static const char *const value[] = { "b=big.img:shm", NULL };
	struct client c = { "sbatch", S_CTX_ALLOCATOR,
			    value,    NULL,
			    NULL,     { "SBATCH_MEM_PER_NODE", "1M" } };
	char keep[4096], text[8192], path[4200];

	snprintf(path, sizeof(path), "%s/big.img", dir);
	write_file("big.img", "");
	memset(text, 'x', sizeof(text));
	for (int i = 0; i < 960 / 8; i++)
		append_file(path, text, sizeof(text));
	memcpy(keep, conf_path, sizeof(keep));
	snprintf(conf_path, sizeof(conf_path), "%.4000s/all.conf", dir);
	assert_int_equal(run_client(&c, text, sizeof(text)), 0);
	if (!strstr(text, "b: ") ||
	    !strstr(text, "has 960 KiB, but datasets get at most 922 KiB in memory (shm): 90 % of "
			  "the job's memory (--mem); ask for more --mem"))
		fail_msg("%s", text);
	c.env[1] = "2M";
	check_published(&c, "script", "b=D/big.img:shm");
	memcpy(conf_path, keep, sizeof(keep));
}

static void test_all_partitions_that_a_job_may_start_in_need_staging(void **state)
{
	static const char *const a[] = { "a=a.tar", NULL };
	struct client c = {
		"sbatch", S_CTX_ALLOCATOR, a, NULL, NULL, { "SBATCH_PARTITION", "gpu" }
	};
	char keep[4096];

	memcpy(keep, conf_path, sizeof(keep));
	snprintf(conf_path, sizeof(conf_path), "%.4000s/gpu.conf", dir);
	check_published(&c, "script", "a=D/a.tar");
	c.env[1] = "gpu,big";
	refuses(&c, "the job may start in partition big, which has no staging; with --stage-data "
		    "use only gpu");
	c.env[1] = "big,gpu";
	refuses(&c, "partition big,");
	c.env[1] = "big";
	refuses(&c, "partition big has no staging; use one of gpu");
	memcpy(conf_path, keep, sizeof(keep));
}

static void test_too_long_is_refused(void **state)
{
	static char names[60][1024];
	const char *values[61] = { NULL };
	const struct client c = { "sbatch", S_CTX_ALLOCATOR, values, NULL, NULL, { NULL } };
	char text[8192];

	for (int i = 0; i < 60; i++) {
		int n = snprintf(names[i], sizeof(names[i]), "n%d=s3://", i);

		memset(names[i] + n, 'x', 700);
		memcpy(names[i] + n + 50, "/k", 2);
		values[i] = names[i];
	}
	assert_int_equal(run_client(&c, text, sizeof(text)), 1);
	assert_non_null(strstr(text, "bytes"));
}

static void test_a_broken_configuration_closes_the_option_only(void **state)
{
	static const char *const a[] = { "a=a.tar", NULL };
	struct client c = { "sbatch", S_CTX_ALLOCATOR, a, NULL, NULL, { NULL } };
	char text[8192], keep[4096];

	memcpy(keep, conf_path, sizeof(keep));
	snprintf(conf_path, sizeof(conf_path), "%.4000s/broken.conf", dir);
	assert_int_equal(run_client(&c, text, sizeof(text)), 1);
	assert_non_null(strstr(text, "broken.conf:2"));
	c.script = NULL;
	assert_int_equal(run_client(&c, text, sizeof(text)), 0);
	assert_string_equal(text, "nothing");
	memcpy(conf_path, keep, sizeof(keep));
}

static void test_inside_a_job(void **state)
{
	static const char *const same[] = { "a=a.tar", NULL }, *const other[] = { "b=a.tar", NULL };
	struct client c = { "srun", S_CTX_LOCAL, NULL,
			    same,   NULL,	 { "SLURM_JOB_ID", "17", SPEC_ENV_JOB, NULL } };
	char text[8192], spec[4200];

	snprintf(spec, sizeof(spec), "1:script:0123456789abcdef:a=%.4000s/a.tar", dir);
	c.env[3] = spec;
	assert_int_equal(run_client(&c, text, sizeof(text)), 0); /* the same again */
	assert_string_equal(text, "nothing");
	c.command_line = other;
	assert_int_equal(run_client(&c, text, sizeof(text)), 1);
	assert_non_null(strstr(text, "stagectl add 'b="));
	c.command_line = NULL;
	c.wait = "tasks";
	assert_int_equal(run_client(&c, text, sizeof(text)), 0);
	assert_string_equal(text, "nothing\nwait=tasks");
	c.wait = "later";
	refuses(&c, "--stage-wait=later is not known");
	c.wait = NULL;
	c.command_line = other;
	c.env[2] = "X";
	assert_int_equal(run_client(&c, text, sizeof(text)), 1);
	assert_non_null(strstr(text, "stagectl run"));
}

static void test_a_job_submitted_from_a_job_asks_for_itself(void **state)
{
	static const char spec[] = "1:script:0123456789abcdef:/p/a";
	const struct client c = {
		.program = "sbatch",
		.context = S_CTX_ALLOCATOR,
		.env = { "SLURM_JOB_ID", "17", SPEC_ENV_JOB, spec, "STAGE_DATA_DIR", "/x",
			 STEP_ENV_HELD, "1" },
	};
	char text[8192];

	assert_int_equal(run_client(&c, text, sizeof(text)), 0);
	assert_string_equal(text, "nothing");
}

static void test_an_entry_without_equals_is_passed_over(void **state)
{
	const struct client c = { .program = "sbatch",
				  .context = S_CTX_ALLOCATOR,
				  .env = { "SLURM_JOB_ID", "17", "STAGE_DATA_DIR", "/x" },
				  .no_equals = true };
	char text[8192];

	assert_int_equal(run_client(&c, text, sizeof(text)), 0);
	assert_string_equal(text, "nothing");
}

/* The limit is for the job's files; sbatch itself writes none. */
static void test_a_limit_for_files_does_not_end_sbatch(void **state)
{
	static const char *const a[] = { "a=a.tar", NULL };
	const struct client c = {
		.program = "sbatch", .context = S_CTX_ALLOCATOR, .script = a, .no_file_size = true
	};
	char text[8192];
	const int r = run_client(&c, text, sizeof(text));

	if (r != 0 || !strstr(text, "a.tar"))
		fail_msg("%d: %s", r, text);
}

/* A node whose slurmd has not loaded the plugin runs the job with what left the client. */
static void test_the_variables_lead_nowhere_until_a_node_sets_them(void **state)
{
	static const char *const ab[] = { "a=a.tar,b=a.*", NULL };
	static const char spec[] = "1:no:0123456789abcdef:a=/p/a.tar";
	const struct {
		struct client client;
		const char *has[5], *lacks;
	} clients[] = {
		{ { "sbatch", S_CTX_ALLOCATOR, ab, NULL, "no", { NULL } },
		  { "\nSTAGE_DATA_DIR=" RUNDIR_NOT_STAGED "\n", "\nSTAGE_DATA_NAMES=a b\n",
		    "\nSTAGE_DATA_PATH_A=" RUNDIR_NOT_STAGED "/a\n",
		    "\nSTAGE_DATA_PATH_B=" RUNDIR_NOT_STAGED "/b\n",
		    "\nSTAGE_DATA_LIST_B=" RUNDIR_NOT_STAGED "/list.b\n" },
		  "STAGE_DATA_LIST_A=" },
		{ { "srun", S_CTX_LOCAL, NULL, ab, "no", { NULL } },
		  { "\nSTAGE_DATA_PATH_A=" RUNDIR_NOT_STAGED "/a\n" },
		  "STAGE_DATA_SOCKET" },
		{ { "salloc", S_CTX_ALLOCATOR, NULL, ab, "no", { NULL } },
		  { "\nSTAGE_DATA_PATH_B=" RUNDIR_NOT_STAGED "/b\n" },
		  "STAGE_DATA_SOCKET" },
		{ { "sbatch", S_CTX_ALLOCATOR, NULL, NULL, NULL, { NULL } },
		  { "nothing" },
		  "STAGE_DATA_" },
		/* of a job of its own, submitted in a job */
		{ { "sbatch",
		    S_CTX_ALLOCATOR,
		    ab,
		    NULL,
		    "no",
		    { "SLURM_JOB_ID", "17", SPEC_ENV_JOB, spec, "STAGE_DATA_PATH_C", "/x" } },
		  { "\nSTAGE_DATA_PATH_A=" RUNDIR_NOT_STAGED "/a\n" },
		  "STAGE_DATA_PATH_C" },
		/* a step: what this node has says nothing of others */
		{ { "srun",
		    S_CTX_LOCAL,
		    NULL,
		    NULL,
		    NULL,
		    { "SLURM_JOB_ID", "17", SPEC_ENV_JOB, spec, "STAGE_DATA_PATH_A", "/x/a" } },
		  { "\nSTAGE_DATA_PATH_A=" RUNDIR_NOT_STAGED "/a\n" },
		  "PATH_B" },
		{ { "srun", S_CTX_LOCAL, NULL, NULL, NULL, { "SLURM_JOB_ID", "17" } },
		  { "nothing" },
		  "STAGE_DATA_" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(clients); i++) {
		struct client c = clients[i].client;
		char text[8192];
		int r;

		c.shows_env = true;
		r = run_client(&c, text, sizeof(text));
		for (size_t k = 0; k < 5 && clients[i].has[k]; k++)
			if (r != 0 || !strstr(text, clients[i].has[k]))
				fail_msg("%zu: no %s in %d, %s", i, clients[i].has[k], r, text);
		if (strstr(text, clients[i].lacks))
			fail_msg("%zu: %s in %s", i, clients[i].lacks, text);
	}
}

/* Red when the notes are not taken back, or when what was given counts beside the answer. */
static void test_a_filter_of_the_site_reads_what_was_given_and_answers(void **state)
{
	static const char *const script[] = { "a=a.tar", "/b,c", NULL }, *const cmd[] = { "+d",
											  NULL };
	struct client c = {
		"sbatch", S_CTX_ALLOCATOR, script, cmd, NULL, { "STAGE_DATA", "e=a.tar" }, "x=a.tar"
	};
	char text[8192], want[8192];

	/* give() passes for srun where it plays the command line, so that "+d" is no note here */
	assert_int_equal(run_client(&c, text, sizeof(text)), 0);
	assert_memory_equal(text, "ee=a.tar|sa=a.tar|s/b,c|\n", 24);
	snprintf(want, sizeof(want), ":x=%.4000s/a.tar", dir);
	assert_non_null(strstr(text, want));
	c.answer = "x=gone.tar"; /* a mover will bring it */
	assert_int_equal(run_client(&c, text, sizeof(text)), 0);
	assert_non_null(strstr(text, "has to be there when the job starts"));
	c.program = "srun";
	c.context = S_CTX_LOCAL;
	c.script = NULL;
	c.command_line = script;
	c.env[0] = NULL;
	assert_int_equal(run_client(&c, text, sizeof(text)),
			 1); /* /b is refused: no answer was heard */
	assert_non_null(strstr(text, "no notes"));
}

static void test_salloc_says_that_its_shell_is_not_held(void **state)
{
	static const char *const a[] = { "a=a.tar", NULL };
	struct client c = { "salloc", S_CTX_ALLOCATOR, NULL, a, NULL, { NULL } };
	char text[8192];

	assert_int_equal(run_client(&c, text, sizeof(text)), 0);
	assert_non_null(strstr(text, "stagectl wait"));
	c.wait = "no";
	assert_int_equal(run_client(&c, text, sizeof(text)), 0);
	assert_null(strstr(text, "stagectl wait"));
}

static int setup(void **state)
{
	char text[14000];

	if (unit_scratch_setup(state) < 0)
		return -1;
	snprintf(dir, sizeof(dir), "%s", (char *)*state);
	snprintf(conf_path, sizeof(conf_path), "%.4000s/stage-data.conf", dir);
	snprintf(text, sizeof(text),
		 "[limits]\nMaxItems=3\n[tier shm]\nKind=memory\n"
		 "[tier ssd]\nKind=disk\nPath=/tmp\n[tier wide]\nKind=disk\nPath=/wide/%%u\n"
		 "[source tight]\nMatch=%s/tight/**\nTiers=shm\nMethods=copy\n"
		 "[source own]\nMatch=%s/**\n"
		 "[source "
		 "far]\nMatch=/far/**\nVisibleOn=mover\nMoverPartition=dm\nTiers=ssd\n[source "
		 "web]\nMatch=https://h.example/**\n"
		 "[source s3]\nMatch=s3://bucket/**\n"
		 "[source sums]\nMatch=https://sums.example/**\nChecksum=required\n"
		 "[dataset closed]\nSource=/etc/closed.tar\n[dataset loose]\nSource=/etc\n"
		 "[dataset tight]\nSource=%s/tight//a.tar\nMethod=mount\n",
		 dir, dir, dir);
	write_file("stage-data.conf", text);
	write_file("broken.conf", "[daemon]\nNoSuchKey=1\n");
	snprintf(text, sizeof(text), "[daemon]\nPartitions=gpu\n[source own]\nMatch=%s/**\n", dir);
	write_file("gpu.conf", text);
	snprintf(text, sizeof(text), "[limits]\nMaxMemoryPercent=100\n[source own]\nMatch=%s/**\n",
		 dir);
	write_file("all.conf", text);
	write_file("a.tar", "x");
	if (chmod(dir, 0755) < 0 ||
	    mkdirat(AT_FDCWD, strcat(strcpy(text, dir), "/locked"), 0700) < 0 ||
	    symlink("loop", strcat(strcpy(text, dir), "/loop")) < 0)
		return -1;
	for (const char *const *n =
		     (const char *const[]){ "STAGE_DATA", "STAGE_WAIT", "SLURM_JOB_ID", NULL };
	     *n; n++)
		unsetenv(*n);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_replaces_what),
		cmocka_unit_test(test_who_waits),
		cmocka_unit_test(test_arrays_are_marked),
		cmocka_unit_test(test_refusals_name_the_item_and_end_the_client),
		cmocka_unit_test(test_a_directory_that_others_may_not_pass_is_named),
		cmocka_unit_test(test_braces_of_the_shell_are_told),
		cmocka_unit_test(test_a_slurm_that_takes_no_more_is_told),
		cmocka_unit_test(test_destinations_that_a_site_has),
		cmocka_unit_test(test_warnings_do_not_hold_a_job_up),
		cmocka_unit_test(test_what_can_not_fit_into_the_job_is_told),
		cmocka_unit_test(test_all_partitions_that_a_job_may_start_in_need_staging),
		cmocka_unit_test(test_too_long_is_refused),
		cmocka_unit_test(test_a_broken_configuration_closes_the_option_only),
		cmocka_unit_test(test_inside_a_job),
		cmocka_unit_test(test_a_job_submitted_from_a_job_asks_for_itself),
		cmocka_unit_test(test_an_entry_without_equals_is_passed_over),
		cmocka_unit_test(test_a_limit_for_files_does_not_end_sbatch),
		cmocka_unit_test(test_a_filter_of_the_site_reads_what_was_given_and_answers),
		cmocka_unit_test(test_the_variables_lead_nowhere_until_a_node_sets_them),
		cmocka_unit_test(test_salloc_says_that_its_shell_is_not_held),
	};

	return cmocka_run_group_tests(tests, setup, unit_scratch_teardown);
}
