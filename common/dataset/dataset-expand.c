/*
 * Expands a path as the shell does in double quotes, and "~". Nothing more is expanded, so the
 * result is one path even if a variable contains blanks, commas or stars. Braces and stars in the
 * value of a variable are patterns like those in the item, because the parser on the node cannot
 * distinguish them.
 */
#include "common/dataset/dataset-internal.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/protocol/keys.h"
#include "common/util/parse.h"
#include "common/util/path.h"
#include "common/util/strutil.h"

struct env {
	const char *cwd, *home;
	const char *(*get)(void *arg, const char *name);
	void *arg;
};

static bool is_name_start(char c)
{
	return strutil_is_alpha(c) || c == '_';
}

/* Reads the variable at "$NAME" or "${NAME}". Its name goes to buf. *lengthp: length including "$"
 * and braces. escape: how a "$" is written that begins no variable. */
static int read_variable(const char *p, const char *escape, char *buf, size_t size, size_t *lengthp,
			 struct error *err)
{
	bool braced = p[1] == '{';
	const char *name = p + 1 + braced;
	size_t n = 0;

	while (is_name_start(name[n]) || (n > 0 && strutil_is_digit(name[n])))
		n++;
	if (n == 0 || (braced && name[n] != '}'))
		return dataset_refuse(err,
				      "\"%.20s\" is no variable; write $VAR or ${VAR}; a $ of "
				      "a name is written %s",
				      p, escape);
	if (n >= size)
		return dataset_refuse(err, "variable $%.20s... has too long a name", name);
	memcpy(buf, name, n);
	buf[n] = '\0';
	*lengthp = n + (braced ? 3 : 1);
	return 0;
}

static int expand_variable(FILE *f, const char **pp, const char *escape, const struct env *env,
			   struct error *err)
{
	char name[256];
	const char *value;
	size_t length = 0;
	int r;

	r = read_variable(*pp, escape, name, sizeof(name), &length, err);
	if (r < 0)
		return r;
	value = env->get(env->arg, name);
	if (!value)
		return dataset_refuse(
			err,
			"variable %s is not set here, where the job is submitted; set "
			"and export it, or write the path (a $ of a name is written %s)",
			name, escape);
	if (!text_is_clean(value, strlen(value), NULL))
		return dataset_refuse(
			err, "variable %s has a control byte or is no UTF-8; set it again", name);
	fputs(value, f);
	*pp += length;
	return 0;
}

static int expand_home(FILE *f, const char **pp, const struct env *env, struct error *err)
{
	const char *p = *pp;

	if (p[1] != '\0' && p[1] != '/')
		return dataset_refuse(err,
				      "~USER is not expanded; write the path of that directory, or "
				      "./ in front of a file that begins with ~");
	if (!env->home || *env->home != '/' || !text_is_clean(env->home, strlen(env->home), NULL))
		return dataset_refuse(err,
				      "~ can't be expanded as HOME is not set to a path; write the "
				      "path");
	fputs(env->home, f);
	*pp = p + 1;
	return 0;
}

/* In a source, "%24" is a "$". In other texts, nothing but the value of a variable can have one. */
#define ESCAPE_IN_SOURCE "%24"
#define ESCAPE_ELSEWHERE "as a variable that contains it"

/* Replaces *textp by its expansion. escape: NULL, or expand variables, too, and not only "~". */
static int expand(char **textp, const char *escape, const struct env *env, struct error *err)
{
	const char *p = *textp;
	char *out = NULL;
	size_t size;
	FILE *f;
	int r = 0;

	if (*p != '~' && !(escape && strchr(p, '$')))
		return 0;
	f = open_memstream(&out, &size);
	if (!f)
		return error_errno(err, ENOMEM, "expand");
	if (*p == '~')
		r = expand_home(f, &p, env, err);
	while (r == 0 && *p) {
		if (escape && *p == '$')
			r = expand_variable(f, &p, escape, env, err);
		else
			fputc(*p++, f);
	}
	if ((ferror(f) | fclose(f)) && r == 0)
		r = error_errno(err, ENOMEM, "expand");
	if (r < 0) {
		free(out);
		return r;
	}
	free(*textp);
	*textp = out;
	return 0;
}

/* Returns true if a path that ends in ".." leads elsewhere than its text says. If a part cannot be
 * read, returns false. */
static bool leads_elsewhere(const char *path)
{
	char normal[PATH_MAX];
	struct stat led, named;

	return path_normalize(path, normal, sizeof(normal)) == 0 && stat(path, &led) == 0 &&
	       stat(normal, &named) == 0 &&
	       (led.st_dev != named.st_dev || led.st_ino != named.st_ino);
}

/* After a link, ".." means the parent of the link's target for the kernel, and the parent of the
 * link in the text. We do not guess which one is meant. Paths that cannot be read are refused
 * later. */
static int refuse_climb_from_link(char *path, struct error *err)
{
	for (char *p = path; (p = strstr(p, "/..")); p++) {
		char after = p[3];
		bool differ;

		if (after && after != '/')
			continue;
		p[3] = '\0';
		differ = leads_elsewhere(path);
		p[3] = after;
		if (differ)
			return dataset_refuse(err,
					      "there is a link in %.*s, and it is not clear where "
					      "\"..\" after it leads; write the path that is meant "
					      "(realpath prints it)",
					      (int)(p - path), path);
	}
	return 0;
}

static int make_absolute(char **textp, const char *cwd, struct error *err)
{
	_cleanup_(freep) char *joined = path_join(cwd, *textp);
	char normal[PATH_MAX], *copy;
	int r;

	if (!joined)
		return error_errno(err, ENOMEM, "expand");
	r = refuse_climb_from_link(joined, err);
	if (r < 0)
		return r;
	r = path_normalize(joined, normal, sizeof(normal));
	if (r == -ENAMETOOLONG)
		return dataset_refuse(
			err,
			"the path has %zu bytes when expanded and may have %d; make it "
			"shorter",
			strlen(joined), PATH_MAX - 1);
	if (r < 0)
		return dataset_refuse(err, "the path climbs above /; write it without the \"..\"");
	copy = strdup(normal);
	if (!copy)
		return error_errno(err, ENOMEM, "expand");
	free(*textp);
	*textp = copy;
	return 0;
}

/* The working directory before a relative path must not become part of a pattern. The path of a
 * list is no pattern, but its braces must be closed. */
static int check_cwd(struct dataset *d, const struct env *env, struct error *err)
{
	const char *bad = strpbrk(env->cwd, d->scheme == DATASET_SCHEME_LIST ? "{" : "*?[{");

	if (*d->source == '/' || !bad || d->literal)
		return 0;
	if (!d->is_set || d->scheme == DATASET_SCHEME_LIST) {
		d->literal = true;
		return 0;
	}
	return dataset_refuse(
		err,
		"the directory that you are in has a %c in its name, which would be a part of the "
		"pattern; submit from another, or stage a directory with include=",
		*bad);
}

static int expand_source(struct dataset *d, const struct env *env, struct error *err)
{
	int r;

	if (d->scheme != DATASET_SCHEME_FILE && d->scheme != DATASET_SCHEME_LIST)
		return 0;
	r = expand(&d->source, d->expanded ? NULL : ESCAPE_IN_SOURCE, env, err);
	if (r < 0)
		return r;
	d->expanded = true;
	if (!*d->source)
		return dataset_refuse(err,
				      "nothing is left when the variables are expanded; set them");
	/* Check before ".." is resolved, which could remove a brace. */
	r = dataset_item_check(d, err);
	if (r == 0)
		r = check_cwd(d, env, err);
	return r < 0 ? r : make_absolute(&d->source, env->cwd, err);
}

static int expand_dest(struct dataset *d, const struct env *env, struct error *err)
{
	_cleanup_(freep) char *dest = NULL;
	int r;

	if (*d->dest != '$' && *d->dest != '~' && *d->dest != '/')
		return 0;
	r = expand(&d->dest, ESCAPE_ELSEWHERE, env, err);
	if (r < 0)
		return r;
	if (*d->dest == '$' || *d->dest == '~')
		return dataset_refuse(err,
				      "DEST \"%.64s\" is not an absolute path when expanded; write "
				      "one",
				      d->dest);
	dest = strdup(d->dest);
	return dest ? dataset_dest_read(d, dest, err) : error_errno(err, ENOMEM, "expand");
}

static int expand_subdir(struct dataset *d, const struct env *env, struct error *err)
{
	int r;

	if (!d->subdir)
		return 0;
	r = expand(&d->subdir, ESCAPE_ELSEWHERE, env, err);
	return r < 0 ? r : dataset_subdir_check(d->subdir, err);
}

static bool is_set(const struct env *env, const char *name)
{
	const char *value = env->get(env->arg, name);

	return value && *value;
}

/* Decides which keys to use, as AWS's own tools do: those in the environment, or else those of a
 * profile. The keys themselves are read on the node, or sent to it. */
static int expand_keys(struct dataset *d, const struct env *env, struct error *err)
{
	const char *name = env->get(env->arg, "AWS_PROFILE");

	if (*d->profile || (d->scheme != DATASET_SCHEME_S3 && d->scheme != DATASET_SCHEME_CATALOG))
		return 0;
	d->env_keys |= is_set(env, KEYS_ENV_ACCESS) && is_set(env, KEYS_ENV_SECRET);
	if (d->scheme != DATASET_SCHEME_S3 || d->env_keys || !name || !*name)
		return 0;
	if (dataset_profile_read(d, name) == 0)
		return 0;
	return dataset_refuse(err,
			      "variable AWS_PROFILE is no name of 64 letters, digits and ._-@ at "
			      "most; rename the profile, or write profile=NAME");
}

static int check_size(const struct dataset *d, struct error *err)
{
	_cleanup_(freep) char *text = NULL;

	if (dataset_to_string(d, &text) < 0)
		return error_errno(err, ENOMEM, "expand");
	if (strlen(text) > DATASET_MAX_ITEM)
		return dataset_refuse(
			err,
			"has %zu bytes when expanded and may have %d; write the paths "
			"to a file, one a line, and @@FILE",
			strlen(text), DATASET_MAX_ITEM);
	return 0;
}

static int expand_item(struct dataset *d, const struct env *env, struct error *err)
{
	int r;

	r = expand_source(d, env, err);
	if (r == 0)
		r = expand_dest(d, env, err);
	if (r == 0)
		r = expand_subdir(d, env, err);
	if (r == 0)
		r = expand_keys(d, env, err);
	if (r == 0)
		r = dataset_item_check(d, err);
	return r < 0 ? r : check_size(d, err);
}

int dataset_list_expand(struct dataset_list *list, const char *cwd, const char *home,
			const char *(*get_env)(void *arg, const char *name), void *arg,
			struct error *err)
{
	const struct env env = { cwd, home, get_env, arg };
	_cleanup_(freep) char *text = NULL;
	char shown[DATASET_SHOW_SIZE];
	int r;

	for (size_t i = 0; i < list->n_items; i++) {
		dataset_show_source(&list->items[i], shown, sizeof(shown));
		r = expand_item(&list->items[i], &env, err);
		if (r < 0) {
			error_prefix(err, "item \"%s\"", shown);
			return r;
		}
	}
	r = dataset_names_make(list, err);
	if (r < 0)
		return r;
	if (dataset_list_to_string(list, &text) < 0)
		return error_errno(err, ENOMEM, "expand");
	if (strlen(text) > DATASET_MAX_VALUE)
		return dataset_refuse(
			err,
			"the value has %zu bytes when expanded and may have %d; write "
			"the paths to a file, one a line, and @@FILE",
			strlen(text), DATASET_MAX_VALUE);
	return 0;
}
