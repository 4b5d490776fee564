#include "client/items.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/output.h"
#include "common/dataset/expand.h"
#include "common/util/error.h"

static const char *get_env(void *arg, const char *name)
{
	return getenv(name);
}

/* Returns whether the file is missing on a file system that this machine sees. Only a mover's node
 * may see the source; then the first directory of its path is missing here, too. */
static bool is_missing(const char *path)
{
	char top[NAME_MAX + 2];
	size_t n = 1 + strcspn(path + 1, "/");

	if (access(path, F_OK) == 0 || errno != ENOENT)
		return false;
	return !path[n] || snprintf(top, sizeof(top), "%.*s", (int)n, path) >= (int)sizeof(top) ||
	       access(top, F_OK) == 0;
}

int items_check(const struct dataset_list *list, size_t i, const char *value, struct error *err)
{
	const struct dataset *d = &list->items[i];
	_cleanup_(freep) char *cwd = NULL;
	char hint[1024];

	if (d->scheme != DATASET_SCHEME_FILE || d->is_set)
		return 0;
	cwd = getcwd(NULL, 0);
	if (!*dataset_slip_hint(value, i, hint, sizeof(hint)))
		dataset_name_hint(d, value, cwd ? cwd : "", hint, sizeof(hint));
	if (!*hint || !is_missing(d->source))
		return 0;
	return error_exit(err, STAGE_EXIT_USAGE, EINVAL, "%s: %s%s", d->source, strerror(ENOENT),
			  hint);
}

/* If a file's name is exactly the pattern, the item means this file. */
static void find_names(struct dataset_list *list)
{
	for (size_t i = 0; i < list->n_items; i++) {
		struct dataset *d = &list->items[i];
		int found = d->scheme == DATASET_SCHEME_FILE && d->is_set
				    ? expand_find_name(d->source)
				    : 0;

		if (found == 2)
			output_error("warning: %s: %s is staged as the file of this name. As a "
				     "pattern it fits other files, too: rename the "
				     "file to stage them",
				     d->name, d->source);
		if (found)
			dataset_take_literally(d);
	}
}

static void warn_of_sequence(const char *const *values, size_t n_values)
{
	char set[512];

	if (dataset_find_sequence(values, n_values, set, sizeof(set)))
		output_error(
			"warning: --stage-data was given %zu times, with numbers in a row: these "
			"are "
			"%zu datasets. For one set of files quote the braces: --stage-data='%s'",
			n_values, n_values, set);
}

/* For "~", as the plugin does. */
static const char *get_home(void)
{
	const char *home = getenv("HOME");
	const struct passwd *pw = home ? NULL : getpwuid(geteuid());

	return pw ? pw->pw_dir : home;
}

/* Prints all that are missing but the last one, which is the error. */
static int check_all(const struct dataset_list *list, const char *value, struct error *err)
{
	struct error last = ERROR_INIT;

	for (size_t i = 0; i < list->n_items; i++) {
		struct error e = ERROR_INIT;

		if (items_check(list, i, value, &e) == 0)
			continue;
		error_prefix(&e, "%s", list->items[i].name);
		if (last.code)
			output_error("%s", last.text);
		last = e;
	}
	if (last.code && err)
		*err = last;
	return last.code;
}

/* *valuep: all values as one. */
static int parse(struct dataset_list *list, char **valuep, const char *const *values,
		 size_t n_values, struct error *err)
{
	_cleanup_(freep) char *cwd = NULL;
	int r = dataset_merge(valuep, values, n_values, NULL, 0, err);

	if (r == 0 && !*valuep)
		r = error_set(err, EINVAL, "nothing was asked for");
	if (r == 0)
		r = dataset_list_from_string(list, *valuep, err);
	if (r < 0)
		return r;
	cwd = getcwd(NULL, 0);
	return dataset_list_expand(list, cwd ? cwd : "/", get_home(), get_env, NULL, err);
}

static int read_values(struct dataset_list *list, const char *const *values, size_t n_values,
		       bool check, struct error *err)
{
	_cleanup_(dataset_list_deinit) struct dataset_list l = { 0 };
	_cleanup_(freep) char *value = NULL;
	int r = parse(&l, &value, values, n_values, err);

	if (r == 0 && check)
		r = check_all(&l, value, err);
	if (r < 0 && err && err->exit_code == 0)
		err->exit_code = STAGE_EXIT_USAGE;
	if (r < 0)
		return r;
	find_names(&l);
	warn_of_sequence(values, n_values);
	*list = l;
	l = (struct dataset_list){ 0 };
	return 0;
}

int items_parse(struct dataset_list *list, const char *value, struct error *err)
{
	return read_values(list, &value, 1, false, err);
}

int items_read(struct dataset_list *list, const char *const *values, size_t n_values,
	       struct error *err)
{
	return read_values(list, values, n_values, true, err);
}

const char *items_get_user(void)
{
	static char number[16];
	const struct passwd *pw = getpwuid(geteuid());

	snprintf(number, sizeof(number), "%u", (unsigned)geteuid());
	return pw ? pw->pw_name : number;
}
