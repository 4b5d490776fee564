/*
 * Braces are expanded from the left: the first group that is one is replaced by each of its
 * alternatives, and the text that results is expanded again. The number of results is bounded, so
 * is the depth (a group a level); a text has at most EXPAND_MAX_TEXT bytes.
 */
#include "common/dataset/expand.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/util/error.h"
#include "common/util/path.h"

#define EXPAND_MAX_TEXT 8192
#define EXPAND_MAX_GROUPS 16

void names_deinit(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->v[i]);
	free(names->v);
	*names = (struct names){ 0 };
}

int names_add(struct names *names, const char *s, size_t n)
{
	size_t size = names->size ? 2 * names->size : 64;
	char **v = names->v, *copy;

	if (names->n >= EXPAND_MAX_NAMES)
		return -E2BIG;
	if (names->n == names->size) {
		v = reallocarray(names->v, size, sizeof(*v));
		if (!v)
			return -ENOMEM;
		names->v = v;
		names->size = size;
	}
	copy = strndup(s, n);
	if (!copy)
		return -ENOMEM;
	names->v[names->n++] = copy;
	return 0;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void names_sort(struct names *names)
{
	if (names->n > 1)
		qsort(names->v, names->n, sizeof(*names->v), compare);
}

/* Returns the brace that closes the one at s; NULL if there is none. *commap: there is a comma at
 * this level. */
static const char *find_close(const char *s, bool *commap)
{
	int depth = 0;

	*commap = false;
	for (; *s; s++) {
		if (*s == '{')
			depth++;
		else if (*s == '}' && --depth == 0)
			return s;
		else if (*s == ',' && depth == 1)
			*commap = true;
	}
	return NULL;
}

/* Parses "000..146" between braces. */
static bool read_range(const char *s, const char *end, uint64_t *fromp, uint64_t *top, int *widthp)
{
	size_t n = strspn(s, "0123456789"), m;

	if (n == 0 || n > 18 || strncmp(s + n, "..", 2))
		return false;
	m = strspn(s + n + 2, "0123456789");
	if (m == 0 || m > 18 || s + n + 2 + m != end)
		return false;
	*fromp = strtoull(s, NULL, 10);
	*top = strtoull(s + n + 2, NULL, 10);
	*widthp = (*s == '0' && n > 1) || (s[n + 2] == '0' && m > 1) ? (int)(n > m ? n : m) : 0;
	return true;
}

struct braces {
	struct names *out;
	struct error *err;
};

static int expand_text(const struct braces *b, const char *text, size_t from, int groups);

/* Expands text[0..at) + word + rest. The part before the word is already expanded. */
static int put_word(const struct braces *b, const char *text, size_t at, const char *word, size_t n,
		    const char *rest, int groups)
{
	char buf[EXPAND_MAX_TEXT];
	int len = snprintf(buf, sizeof(buf), "%.*s%.*s%s", (int)at, text, (int)n, word, rest);

	if (len < 0 || (size_t)len >= sizeof(buf))
		return error_set(b->err, ENAMETOOLONG, "the pattern expands to more than %d bytes",
				 EXPAND_MAX_TEXT);
	return expand_text(b, buf, at, groups + 1);
}

static int put_range(const struct braces *b, const char *text, size_t at, const char *rest,
		     uint64_t from, uint64_t to, int width, int groups)
{
	uint64_t n = (from < to ? to - from : from - to) + 1;
	char number[32];
	int r = 0;

	if (n > EXPAND_MAX_NAMES) {
		error_set(b->err, E2BIG, "a range of %llu numbers is too long",
			  (unsigned long long)n);
		return error_set_hint(b->err, -E2BIG, "use * or a list (@@FILE)");
	}
	for (uint64_t i = 0; i < n && r == 0; i++) {
		snprintf(number, sizeof(number), "%0*llu", width,
			 (unsigned long long)(from < to ? from + i : from - i));
		r = put_word(b, text, at, number, strlen(number), rest, groups);
	}
	return r;
}

static int put_words(const struct braces *b, const char *text, size_t at, const char *close,
		     int groups)
{
	const char *word = text + at + 1;
	int depth = 0, r = 0;

	for (const char *s = word; s <= close && r == 0; s++) {
		if (*s == '{')
			depth++;
		else if (*s == '}' && s != close)
			depth--;
		if (s == close || (*s == ',' && depth == 0)) {
			r = put_word(b, text, at, word, (size_t)(s - word), close + 1, groups);
			word = s + 1;
		}
	}
	return r;
}

static int expand_text(const struct braces *b, const char *text, size_t from, int groups)
{
	uint64_t first, last;
	const char *close;
	bool comma;
	int width, r;

	if (groups > EXPAND_MAX_GROUPS) {
		error_set(b->err, E2BIG, "the pattern has more than %d groups of braces",
			  EXPAND_MAX_GROUPS);
		return error_set_hint(b->err, -E2BIG, "use * or a list (@@FILE)");
	}
	for (size_t at = from; text[at]; at++) {
		if (text[at] != '{')
			continue;
		close = find_close(text + at, &comma);
		if (!close)
			continue;
		if (comma)
			return put_words(b, text, at, close, groups);
		if (read_range(text + at + 1, close, &first, &last, &width))
			return put_range(b, text, at, close + 1, first, last, width, groups);
	}
	r = names_add(b->out, text, strlen(text));
	if (r < 0)
		return error_errno(b->err, -r, "expand a pattern");
	return 0;
}

int expand_braces(const char *pattern, struct names *out, struct error *err)
{
	struct braces b = { out, err };

	return expand_text(&b, pattern, 0, 0);
}

/* ---- files ---- */

/* glob(3) skips what it cannot read, so a set could be smaller than on other nodes. Therefore glob
 * gets functions that record the first failure. */
struct failure {
	int errnum;
	char path[PATH_MAX];
};

struct dir {
	DIR *stream;
	char path[];
};

/* A thread-local variable, because these functions get no argument from the caller. */
static __thread struct failure *failure;

static void note(const char *path)
{
	if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == ENAMETOOLONG ||
	    failure->errnum)
		return;
	failure->errnum = errno;
	snprintf(failure->path, sizeof(failure->path), "%s", path);
}

static void *open_dir(const char *path)
{
	struct dir *d = malloc(sizeof(*d) + strlen(path) + 1);

	if (d)
		d->stream = opendir(path);
	if (!d || !d->stream) {
		note(path);
		free(d);
		return NULL;
	}
	strcpy(d->path, path);
	return d;
}

static struct dirent *read_dir(void *arg)
{
	struct dir *d = arg;
	struct dirent *e;

	errno = 0;
	e = readdir(d->stream);
	if (!e && errno)
		note(d->path);
	return e;
}

static void close_dir(void *arg)
{
	struct dir *d = arg;

	closedir(d->stream);
	free(d);
}

static int expand_look(const char *restrict path, struct stat *restrict st)
{
	int r = stat(path, st);

	if (r < 0)
		note(path);
	return r;
}

static int look_at_name(const char *restrict path, struct stat *restrict st)
{
	int r = lstat(path, st);

	if (r < 0)
		note(path);
	return r;
}

static int fail(const struct failure *f, struct error *err)
{
	int r = error_errno(err, f->errnum, "look for the pattern's files in %s", f->path);

	return f->errnum == EACCES
		       ? error_set_hint(err, r, "name the directories, like {a,b} for *")
		       : r;
}

static int expand_glob(const char *pattern, struct names *out, struct error *err)
{
	struct failure f = { 0 };
	glob_t g = {
		.gl_opendir = open_dir,
		.gl_readdir = read_dir,
		.gl_closedir = close_dir,
		.gl_stat = expand_look,
		.gl_lstat = look_at_name,
	};
	int r, ret = 0;

	failure = &f;
	r = glob(pattern, GLOB_NOSORT | GLOB_NOESCAPE | GLOB_ALTDIRFUNC, NULL, &g);
	failure = NULL;
	if (r == GLOB_NOSPACE)
		ret = -ENOMEM;
	for (size_t i = 0; r == 0 && ret == 0 && i < g.gl_pathc; i++)
		ret = names_add(out, g.gl_pathv[i], strlen(g.gl_pathv[i]));
	globfree(&g);
	if (f.errnum)
		return fail(&f, err);
	return ret < 0 ? error_errno(err, -ret, "expand %s", pattern) : 0;
}

int expand_pattern(const char *pattern, struct names *out, struct error *err)
{
	_cleanup_(names_deinit) struct names words = { 0 };
	int r;

	r = expand_braces(pattern, &words, err);
	for (size_t i = 0; r == 0 && i < words.n; i++) {
		const char *w = words.v[i];

		if (w[strcspn(w, "*?[")]) {
			r = expand_glob(w, out, err);
		} else {
			r = names_add(out, w, strlen(w));
			if (r < 0)
				error_errno(err, -r, "expand %s", pattern);
		}
	}
	return r;
}

int expand_find_name(const char *pattern)
{
	_cleanup_(names_deinit) struct names names = { 0 };
	struct stat st;

	if (!path_is_pattern(pattern) || lstat(pattern, &st) < 0)
		return 0;
	/* For a pattern with too many names, use those found so far. */
	(void)expand_pattern(pattern, &names, NULL);
	for (size_t i = 0; i < names.n; i++)
		if (strcmp(names.v[i], pattern) != 0 && lstat(names.v[i], &st) == 0)
			return 2;
	return 1;
}

static int add_line(const char *line, size_t n, const char *dir, struct names *out,
		    struct error *err)
{
	_cleanup_(freep) char *copy = strndup(line, n), *path = NULL;
	int r;

	path = copy ? path_join(dir, copy) : NULL;
	if (!path)
		return error_set(err, ENOMEM, "out of memory");
	if (strstr(copy, "://")) {
		error_set(err, EINVAL, "a list holds paths, '%s' is a URL", copy);
		return error_set_hint(err, -EINVAL, "stage URLs as items of their own");
	}
	r = names_add(out, path, strlen(path));
	return r < 0 ? error_errno(err, -r, "read the list") : 0;
}

int expand_list(const char *data, size_t size, const char *dir, struct names *out,
		struct error *err)
{
	const char *end = data + size, *next;
	size_t n;
	int r = 0;

	if (memchr(data, '\0', size)) {
		error_set(err, EINVAL, "the list is not a text of paths");
		return error_set_hint(err, -EINVAL, "write a path a line, or leave the @@ out");
	}
	if (size >= 3 && !memcmp(data, "\xef\xbb\xbf", 3)) /* editors on Windows write this mark,
							    * and "\r" */
		data += 3;
	for (; data < end && r == 0; data = next) {
		const char *nl = memchr(data, '\n', (size_t)(end - data));

		next = nl ? nl + 1 : end;
		n = (size_t)((nl ? nl : end) - data);
		if (n > 0 && data[n - 1] == '\r')
			n--;
		if (n > 0)
			r = add_line(data, n, dir, out, err);
	}
	return r;
}
