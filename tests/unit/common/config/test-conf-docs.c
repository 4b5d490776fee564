/*
 * The example file and the manual page against the table of keys: nothing missing, nothing extra,
 * the same defaults. Arguments: stage-data.conf stage-data.conf.5.rst
 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "common/config/conf.h"
#include "common/util/fd.h"
#include "common/util/strutil.h"

static char *example, *manual;

static char *read_text(const char *path)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *text = NULL;
	size_t size;

	if (fd < 0 || fd_read_file(fd, 1 << 20, &text, &size) < 0) {
		fprintf(stderr, "can't read %s\n", path);
		exit(99);
	}
	return text;
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	for (const char *p = strstr(text, what); p; p = strstr(p + 1, what))
		n++;
	return n;
}

/* A copy of what stands between the line that begins with start and the next that begins with end
 * (or the end of the text). */
static char *cut(const char *text, const char *start, const char *end)
{
	const char *p = strstr(text, start), *q;

	if (!p)
		fail_msg("no %s", start);
	p += strlen(start);
	q = strstr(p, end);
	return strndup(p, q ? (size_t)(q - p) : strlen(p));
}

static bool is_named(const char *section)
{
	return !strcmp(section, "source") || !strcmp(section, "tier") ||
	       !strcmp(section, "dataset");
}

static void test_example_has_each_key_with_its_default(void **state)
{
	size_t n_keys;
	const struct conf_key *keys = conf_get_keys(&n_keys);

	for (size_t i = 0; i < n_keys; i++) {
		_cleanup_(freep) char *start = NULL, *part = NULL, *line = NULL;
		const char *next;

		assert_true(asprintf(&start, "\n%s[%s%s]\n", is_named(keys[i].section) ? "#" : "",
				     keys[i].section,
				     is_named(keys[i].section) ? " NAME" : "") > 0);
		part = cut(example, start, "\n\n");
		assert_true(asprintf(&line, "# %s\n#%s=%s", keys[i].doc, keys[i].name,
				     keys[i].dflt) > 0);
		if (count(part, line) != 1)
			fail_msg("[%s] does not have once: %s", keys[i].section, line);
		next = strstr(part, line) + strlen(line);
		assert_true(*next == '\n' || *next == '\0');
	}
}

/* Lines "#Key=" that are no keys would mislead. */
static void test_example_has_no_other_keys(void **state)
{
	size_t n_keys, n = 0;

	conf_get_keys(&n_keys);
	for (const char *p = strchr(example, '\n'); p; p = strchr(p + 1, '\n'))
		if (p[1] == '#' && strutil_is_alpha(p[2]))
			n++;
	assert_int_equal(n, n_keys);
}

static void test_example_loads_and_allows_nothing(void **state)
{
	_cleanup_(conf_freep) struct conf *conf = NULL;
	_cleanup_(freep) char *path = NULL;
	struct error err = ERROR_INIT;
	FILE *f;

	assert_true(asprintf(&path, "%s/stage-data.conf", (char *)*state) > 0);
	f = fopen(path, "we");
	fputs(example, f);
	fclose(f);
	chmod(path, 0644);
	if (conf_load(&conf, path, &err) < 0)
		fail_msg("%s", err.text);
	assert_true(conf->from_file);
	assert_int_equal(conf->n_sources, 0);
}

static void test_manual_has_each_key_with_type_and_default(void **state)
{
	size_t n_keys;
	const struct conf_key *keys = conf_get_keys(&n_keys);

	for (size_t i = 0; i < n_keys; i++) {
		_cleanup_(freep) char *start = NULL, *part = NULL, *line = NULL;

		assert_true(asprintf(&start, "\n[%s%s]\n---", keys[i].section,
				     is_named(keys[i].section) ? " NAME" : "") > 0);
		part = cut(manual, start, "\n[");
		assert_true(asprintf(&line,
				     *keys[i].dflt ? "\n``%s=`` (``%s``, default ``%s``)\n    "
						   : "\n``%s=`` (``%s``, default empty%s)\n    ",
				     keys[i].name, keys[i].type, keys[i].dflt) > 0);
		if (count(part, line) != 1)
			fail_msg("[%s] does not have once: %s", keys[i].section, line);
	}
}

static void test_manual_has_no_other_keys(void **state)
{
	size_t n_keys;

	conf_get_keys(&n_keys);
	assert_int_equal(count(manual, "=`` (``"), n_keys);
}

/* Each example of the manual is a file that loads. */
static void test_examples_of_the_manual_load(void **state)
{
	_cleanup_(freep) char *part = cut(manual, "\nEXAMPLES\n", "\nFILES\n"), *path = NULL;
	char *line, *rest = part;
	unsigned n_examples = 0;
	struct error err = ERROR_INIT;
	FILE *f = NULL;

	assert_true(asprintf(&path, "%s/example.conf", (char *)*state) > 0);
	while (rest) {
		line = strsep(&rest, "\n");
		if (!strncmp(line, "    ", 4)) {
			if (!f)
				f = fopen(path, "we");
			fprintf(f, "%s\n", line + 4);
		}
		if (f && (!rest || (*line && *line != ' '))) {
			struct conf *conf = NULL;

			fclose(f);
			f = NULL;
			chmod(path, 0644);
			if (conf_load(&conf, path, &err) < 0)
				fail_msg("example %u: %s", n_examples + 1, err.text);
			conf_free(conf);
			n_examples++;
		}
	}
	assert_int_equal(n_examples, 6);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, unit_scratch_setup, unit_scratch_teardown)

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_example_has_each_key_with_its_default),
		cmocka_unit_test(test_example_has_no_other_keys),
		TEST(test_example_loads_and_allows_nothing),
		cmocka_unit_test(test_manual_has_each_key_with_type_and_default),
		cmocka_unit_test(test_manual_has_no_other_keys),
		TEST(test_examples_of_the_manual_load),
	};
	int r;

	if (argc != 3) {
		fprintf(stderr, "usage: test-conf-docs stage-data.conf stage-data.conf.5.rst\n");
		return 99;
	}
	example = read_text(argv[1]);
	manual = read_text(argv[2]);
	r = cmocka_run_group_tests(tests, NULL, NULL);
	free(example);
	free(manual);
	return r;
}
