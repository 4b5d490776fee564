#include "common/dataset/path-filter.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/dataset/dataset.h"
#include "common/dataset/expand.h"
#include "common/util/error.h"
#include "common/util/path.h"

#define PATH_FILTER_MAX 4352

struct path_filter {
	struct names include, exclude;
};

/* Changes "./train/" to "train". */
static const char *trim(char *pattern)
{
	size_t n = strlen(pattern);

	while (n > 1 && pattern[n - 1] == '/')
		pattern[--n] = '\0';
	while (!strncmp(pattern, "./", 2))
		pattern += 2;
	return pattern;
}

static int add_patterns(struct names *names, char *const *globs, size_t n, struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		_cleanup_(freep) char *copy = strdup(globs[i]);

		if (!copy)
			return error_set(err, ENOMEM, "out of memory");
		r = expand_braces(trim(copy), names, err);
	}
	return r;
}

int path_filter_new(struct path_filter **fp, const struct dataset *ds, struct error *err)
{
	_cleanup_(path_filter_freep) struct path_filter *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return error_set(err, ENOMEM, "out of memory");
	r = add_patterns(&f->include, ds->include, ds->n_include, err);
	if (r == 0)
		r = add_patterns(&f->exclude, ds->exclude, ds->n_exclude, err);
	if (r < 0)
		return r;
	*fp = steal_ptr(f);
	return 0;
}

void path_filter_free(struct path_filter *f)
{
	if (!f)
		return;
	names_deinit(&f->include);
	names_deinit(&f->exclude);
	free(f);
}

static bool fits_component(const char *pattern, const char *path)
{
	char component[PATH_FILTER_MAX];
	size_t n;

	for (; *path; path += n + (path[n] == '/')) {
		n = strcspn(path, "/");
		if (n >= sizeof(component))
			continue;
		memcpy(component, path, n);
		component[n] = '\0';
		if (fnmatch(pattern, component, 0) == 0)
			return true;
	}
	return false;
}

/* Returns whether the pattern matches path or a directory above it. */
static bool fits_from_top(const char *pattern, const char *path)
{
	char a[PATH_FILTER_MAX], b[PATH_FILTER_MAX], *slash;

	if (snprintf(a, sizeof(a), "/%s", pattern) >= (int)sizeof(a) ||
	    snprintf(b, sizeof(b), "/%s", path) >= (int)sizeof(b))
		return false;
	for (;;) {
		if (path_match(a, b))
			return true;
		slash = strrchr(b, '/');
		if (!slash || slash == b)
			return false;
		*slash = '\0';
	}
}

static bool fits(const struct names *patterns, const char *path)
{
	for (size_t i = 0; i < patterns->n; i++) {
		const char *p = patterns->v[i];

		if (strchr(p, '/') ? fits_from_top(p + (*p == '/'), path) : fits_component(p, path))
			return true;
	}
	return false;
}

bool path_filter_takes(const struct path_filter *f, const char *path)
{
	return (f->include.n == 0 || fits(&f->include, path)) && !fits(&f->exclude, path);
}

bool path_filter_prunes(const struct path_filter *f, const char *dir)
{
	return f->exclude.n > 0 && fits(&f->exclude, dir);
}

bool path_filter_has_includes(const struct path_filter *f)
{
	return f->include.n > 0;
}
