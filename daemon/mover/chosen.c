#include "daemon/mover/chosen.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/dataset/expand.h"
#include "common/util/error.h"
#include "common/util/path.h"

struct chosen {
	struct names names; /* relative paths, sorted, without duplicates */
	atomic_bool *met;   /* one for each name; set by several threads */
};

void chosen_free(struct chosen *c)
{
	if (!c)
		return;
	names_deinit(&c->names);
	free(c->met);
	free(c);
}

/* ---- choosing ---- */

static int chosen_add(struct chosen *c, const char *top, size_t n_top, const char *name,
		      struct error *err)
{
	char path[PATH_MAX];
	int r = path_normalize(name, path, sizeof(path));

	if (r == 0 && (strncmp(path, top, n_top) || path[n_top] != '/'))
		r = -EINVAL;
	if (r == 0)
		r = names_add(&c->names, path + n_top + 1, strlen(path) - n_top - 1);
	return r < 0 ? error_errno(err, -r, "%s", name) : 0;
}

static void drop_twins(struct names *names)
{
	size_t n = 0;

	names_sort(names);
	for (size_t i = 0; i < names->n; i++) {
		if (n > 0 && !strcmp(names->v[n - 1], names->v[i]))
			free(names->v[i]);
		else
			names->v[n++] = names->v[i];
	}
	names->n = n;
}

/* Checks that all names exist. Names from glob(3) do; names from braces may not. */
static int check_there(const char *pattern, const struct names *names, struct error *err)
{
	struct stat st;

	if (names->n == 0)
		return error_set(err, ENOENT, "no file fits the pattern");
	if (pattern[strcspn(pattern, "*?[")])
		return 0;
	for (size_t i = 0; i < names->n; i++)
		if (stat(names->v[i], &st) < 0)
			return error_errno(err, errno, "%s", names->v[i]);
	return 0;
}

int chosen_new(struct chosen **cp, const char *pattern, struct error *err)
{
	_cleanup_(chosen_freep) struct chosen *c = calloc(1, sizeof(*c));
	_cleanup_(names_deinit) struct names names = { 0 };
	size_t n_top = path_get_top(pattern);
	int r;

	if (!c)
		return error_set(err, ENOMEM, "out of memory");
	if (n_top == 0)
		return error_set(err, EINVAL,
				 "a pattern needs a directory before its first wildcard");
	r = expand_pattern(pattern, &names, err);
	if (r == 0)
		r = check_there(pattern, &names, err);
	for (size_t i = 0; i < names.n && r == 0; i++)
		r = chosen_add(c, pattern, n_top, names.v[i], err);
	if (r < 0)
		return r;
	drop_twins(&c->names);
	c->met = calloc(c->names.n + 1, sizeof(*c->met)); /* + 1: calloc(0) may return NULL */
	if (!c->met)
		return error_set(err, ENOMEM, "out of memory");
	*cp = steal_ptr(c);
	return 0;
}

/* ---- finding ---- */

/* Returns the index of the first name that is not before the n bytes of text followed by tail. */
static size_t find_first(const struct names *names, const char *text, size_t n, char tail)
{
	size_t low = 0, high = names->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const char *name = names->v[mid];
		int order = strncmp(name, text, n);

		if (order == 0)
			order = (unsigned char)name[n] - (unsigned char)tail;
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool has(const struct names *names, const char *text, size_t n, char tail, size_t *ip)
{
	size_t i = find_first(names, text, n, tail);

	*ip = i;
	return i < names->n && !strncmp(names->v[i], text, n) && names->v[i][n] == tail;
}

enum chosen_part chosen_find(struct chosen *c, const char *path)
{
	size_t n = strlen(path), i;

	if (has(&c->names, path, n, '\0', &i)) {
		atomic_store(&c->met[i], true);
		return CHOSEN_ITSELF;
	}
	for (const char *p = strchr(path, '/'); p; p = strchr(p + 1, '/'))
		if (has(&c->names, path, (size_t)(p - path), '\0', &i))
			return CHOSEN_BELOW;
	return has(&c->names, path, n, '/', &i) ? CHOSEN_ABOVE : CHOSEN_NOT;
}

/* A name inside another chosen directory is met as a part of that directory. */
int chosen_check_all(const struct chosen *c, struct error *err)
{
	for (size_t i = 0; i < c->names.n; i++)
		if (!atomic_load(&c->met[i]))
			return error_set(err, ENOTSUP,
					 "%s is reached through a link or a mount, and there "
					 "a pattern cannot be moved; name the path without links",
					 c->names.v[i]);
	return 0;
}
