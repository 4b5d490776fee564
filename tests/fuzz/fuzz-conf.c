/* The configuration, read from a file, and the decisions of its rules about a source. */
#include "tests/fuzz/fuzz.h"

#include "common/config/conf-internal.h"

static const char *const sources[] = {
	"/data/a.tar",	   "/data2/a.tar", "/etc/shadow", "https://example.org/a/b.tar.zst",
	"s3://bucket/key",
};

/* No power of two: where inputs are cut off, many have its multiples for a size. */
#define FILE_EVERY 97

static char path[64];

static void remove_file(void)
{
	unlink(path);
}

static void ignore(void *arg, const char *file, unsigned line, const char *text, const char *hint)
{
	FUZZ_CHECK(text && text[0]);
}

/* What is accepted allows no file of the node to everybody. */
static void check_rules(const struct conf *conf)
{
	const struct conf_source *rule;
	struct error err = ERROR_INIT;

	for (size_t i = 0; i < conf->n_sources; i++)
		FUZZ_CHECK(conf->sources[i].match[strspn(conf->sources[i].match, "/*?")]);
	for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
		if (conf_match(conf, sources[i], "user", NULL, 0, false, &rule, &err) == 0)
			FUZZ_CHECK(rule->match && rule->match[0]);
}

/* By way of a file now and then: it takes ten times as long. */
static void read_file(const uint8_t *data, size_t size)
{
	_cleanup_(conf_freep) struct conf *conf = NULL;
	struct error err = ERROR_INIT;
	int r;

	if (!path[0]) {
		snprintf(path, sizeof(path), "/dev/shm/fuzz-conf-%d.conf", getpid());
		atexit(remove_file);
	}
	fuzz_write_file(path, data, size);
	r = conf_load(&conf, path, &err);
	FUZZ_CHECK((conf_check(path, ignore, NULL) > 0) == (r < 0));
	fuzz_check_error(r, &err);
	if (r == 0)
		check_rules(conf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(conf_freep) struct conf *conf = NULL;
	struct conf_report report = { .fn = ignore, .file = "conf" };
	struct conf_places places = { 0 };

	if (size % FILE_EVERY == 0) {
		read_file(data, size);
		return 0;
	}
	FUZZ_CHECK(conf_new(&conf) == 0);
	FUZZ_CHECK(conf_parse(conf, (const char *)data, size, &places, &report) == 0);
	conf_check_whole(conf, &places, &report);
	conf_places_deinit(&places);
	if (!report.n_errors)
		check_rules(conf);
	return 0;
}
