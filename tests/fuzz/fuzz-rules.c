/*
 * The site's rules: the input has a pattern and a source, one on each line. A source that a rule
 * allows is below the part of the pattern that has no wildcards. The test computes this in another
 * way.
 */
#include "tests/fuzz/fuzz.h"

#include <limits.h>

#include "common/config/conf-internal.h"
#include "common/util/path.h"
#include "common/util/url.h"

#define MAX_PARTS 64
#define MAX_TEXT 512

struct parts {
	char *part[MAX_PARTS];
	size_t n;
};

static void ignore(void *arg, const char *file, unsigned line, const char *text, const char *hint)
{
}

/* Components with ".." resolved, in place; an address may write a dot as %2e. False: climbs out. */
static bool split(char *text, bool is_url, struct parts *parts)
{
	char *save = NULL;

	parts->n = 0;
	for (char *p; is_url && (p = strcasestr(text, "%2e"));) {
		*p = '.';
		memmove(p + 1, p + 3, strlen(p + 3) + 1);
	}
	for (char *p = strtok_r(text, "/", &save); p; p = strtok_r(NULL, "/", &save)) {
		if (!strcmp(p, "."))
			continue;
		if (!strcmp(p, "..") && parts->n-- == 0)
			return false;
		if (strcmp(p, "..") && parts->n < MAX_PARTS)
			parts->part[parts->n++] = p;
	}
	return true;
}

/* Of an address what stands behind the host. */
static char *find_path(char *text)
{
	char *p = url_scheme_of(text) == URL_NONE ? NULL : strstr(text, "://");

	return p ? p + 3 + strcspn(p + 3, "/?#") : text;
}

static void check_beneath(const char *pattern, const char *source)
{
	char a[MAX_TEXT + 2], b[MAX_TEXT + 2], *path_a, *path_b;
	bool is_url = url_scheme_of(source) != URL_NONE;
	struct parts base, real;

	snprintf(a, sizeof(a), "%s", pattern);
	snprintf(b, sizeof(b), "%s", source);
	FUZZ_CHECK(is_url == (url_scheme_of(pattern) != URL_NONE));
	path_a = find_path(a);
	path_b = find_path(b);
	if (is_url && strncasecmp(source, "s3:", 3))
		path_b[strcspn(path_b, "?#")] = '\0';
	FUZZ_CHECK(split(path_b, is_url, &real) && split(path_a, is_url, &base));
	for (size_t i = 0; i < base.n; i++) {
		if (strpbrk(base.part[i], "*?[\\"))
			break;
		FUZZ_CHECK(i < real.n && !strcmp(base.part[i], real.part[i]));
	}
}

static void check_host(const char *pattern, const char *source)
{
	struct url a, b;

	if (url_scheme_of(source) == URL_NONE)
		return;
	FUZZ_CHECK(url_parse(&a, pattern, NULL) == 0 && url_parse(&b, source, NULL) == 0);
	FUZZ_CHECK(a.scheme == b.scheme && a.port == b.port && a.n_host == b.n_host);
	FUZZ_CHECK(!strncasecmp(a.host, b.host, a.n_host));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *text = fuzz_text(data, size), *pattern = NULL;
	struct conf_source rule = { .name = (char *)"r" };
	struct conf conf = { .sources = &rule, .n_sources = 1, .path = (char *)"conf" };
	struct conf_report report = { .fn = ignore, .file = "conf" };
	char *source = strchr(text, '\n');
	const struct conf_source *found;
	struct error err = ERROR_INIT;
	int r;

	if (!source || size > MAX_TEXT)
		return -1;
	*source++ = '\0';
	pattern = strdup(text);
	if (!*pattern || conf_check_match(&pattern, &report) < 0)
		return 0;
	rule.match = pattern;
	rule.allow_users = rule.allow_groups = rule.deny_users = (char *)"";
	r = conf_match(&conf, source, "user", NULL, 0, false, &found, &err);
	fuzz_check_error(r, &err);
	if (r < 0)
		return 0;
	check_host(pattern, source);
	check_beneath(pattern, source);
	return 0;
}
