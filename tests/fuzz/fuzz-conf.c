/* The configuration, from a file; and what its rules say to a source. */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>

#include "common/conf.h"

static const char *const sources[] = {
	"/data/a.tar",	   "/data2/a.tar", "/etc/shadow", "https://example.org/a/b.tar.zst",
	"s3://bucket/key",
};

static char path[64];

static void remove_file(void)
{
	unlink(path);
}

static void write_file(const uint8_t *data, size_t size)
{
	int fd;

	if (!path[0]) {
		snprintf(path, sizeof(path), "/dev/shm/fuzz-conf-%d.conf", getpid());
		atexit(remove_file);
	}
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	close(fd);
}

static void ignore(void *arg, const char *file, unsigned line, const char *text, const char *mend)
{
	FUZZ_CHECK(text && text[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(conf_freep) struct conf *conf = NULL;
	const struct conf_source *rule;
	struct error err = ERROR_INIT;
	int r;

	write_file(data, size);
	r = conf_load(&conf, path, &err);
	FUZZ_CHECK((conf_check(path, ignore, NULL) > 0) == (r < 0));
	fuzz_check_error(r, &err);
	for (size_t i = 0; i < ARRAY_SIZE(sources) && r >= 0; i++)
		if (conf_match(conf, sources[i], "user", NULL, 0, false, &rule, &err) == 0)
			FUZZ_CHECK(rule->match && rule->match[0]);
	return 0;
}
