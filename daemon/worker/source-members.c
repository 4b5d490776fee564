/*
 * The members of a source: whether the names of a set are different, which files this node takes,
 * and where links may lead.
 */
#include "daemon/worker/source.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error.h"
#include "daemon/engines/web/web.h"

static int compare_names(const void *a, const void *b)
{
	const struct source_member *x = *(const struct source_member *const *)a,
				   *y = *(const struct source_member *const *)b;
	int r = strcmp(x->name, y->name);

	return r ? r : strcmp(x->path, y->path);
}

static int refuse_names(const struct source_member *a, const struct source_member *b,
			struct error *err)
{
	const bool is_url = *a->path != '/';
	char shown[2][PATH_MAX];

	for (int i = 0; i < 2; i++)
		if (is_url)
			web_show(i ? b->path : a->path, shown[i], sizeof(shown[i]));
		else
			snprintf(shown[i], sizeof(shown[i]), "%s", i ? b->path : a->path);
	if (!strcmp(a->path, b->path)) {
		error_set(err, EEXIST, "%s is named twice", shown[0]);
		return error_set_hint(err, -EEXIST, "name it once");
	}
	error_set(err, EEXIST,
		  "%s and %s have the same name, and a set is staged into one directory", shown[0],
		  shown[1]);
	return error_set_hint(err, -EEXIST, "stage them as two items%s",
			      is_url ? "" : ", or their directories");
}

int source_check_names(const struct source *src, struct error *err)
{
	_cleanup_(freep) const struct source_member **v = calloc(src->n_members + 1, sizeof(*v));

	if (!v)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < src->n_members; i++)
		v[i] = &src->members[i];
	qsort(v, src->n_members, sizeof(*v), compare_names);
	for (size_t i = 1; i < src->n_members; i++)
		if (!strcmp(v[i - 1]->name, v[i]->name))
			return refuse_names(v[i - 1], v[i], err);
	return 0;
}

static int compare_path(const void *path, const void *element)
{
	return strcmp(path, *(char *const *)element);
}

bool source_takes(const struct source *src, const char *path)
{
	return !src->taken ||
	       bsearch(path, src->taken, src->n_taken, sizeof(*src->taken), compare_path);
}

struct allowed source_get_allowed(const struct source *src)
{
	return (struct allowed){
		.rules = src->rules,
		.real = src->real,
		.top = src->top,
		.leave_out = "leave it out (exclude=)",
	};
}
