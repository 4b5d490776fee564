/*
 * One item: [NAME=]SOURCE[:[DEST][:OPTIONS]].
 *
 * A "=" belongs to NAME only if neither "/" nor ":" stands before it, and what stands there could
 * be meant as a name at all; "./" in front makes any path a path. In an address the first colon
 * after the first "/" of its path ends it, so scheme, port and IPv6 keep theirs. Everything is
 * cut up before anything is decoded.
 */
#include "common/dataset/dataset-internal.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "common/util/path.h"
#include "common/util/url.h"
#include "common/util/strutil.h"

void dataset_deinit(struct dataset *d)
{
	free(d->source);
	free(d->dest);
	free(d->subdir);
	for (size_t i = 0; i < d->n_include; i++)
		free(d->include[i]);
	for (size_t i = 0; i < d->n_exclude; i++)
		free(d->exclude[i]);
	memset(d, 0, sizeof(*d));
}

size_t dataset_item_length(const char *text)
{
	unsigned depth = 0;
	size_t n;

	for (n = 0; text[n] && (text[n] != ',' || depth > 0); n++) {
		if (text[n] == '{')
			depth++;
		else if (text[n] == '}' && depth > 0)
			depth--;
	}
	return n;
}

/* Returns the length of a possible NAME. It contains no brace, whether plain or encoded. */
static size_t find_name_end(const char *item)
{
	const size_t n = strcspn(item, "=/:{");
	const char *bracket = strcasestr(item, "%7B");

	return bracket && bracket < item + n ? (size_t)(bracket - item) : n;
}

/* Removes "NAME=" from *itemp. */
static int read_name(struct dataset *d, char **itemp, struct error *err)
{
	char *item = *itemp;
	size_t n = find_name_end(item);

	if (item[n] != '=' || strchr(".@$~%*?[", item[0]))
		return 0;
	*itemp = item + n + 1;
	return dataset_name_read(d, item, n, err);
}

static int refuse_scheme(const char *source, struct error *err)
{
	static const char *const known[] = { "http", "https", "s3", NULL };
	char scheme[16];
	const char *nearest;

	snprintf(scheme, sizeof(scheme), "%.*s", (int)strcspn(source, ":"), source);
	if (strutil_equal(scheme, "file"))
		return dataset_refuse(err, "file:// is not used here; write the path itself");
	nearest = strutil_nearest(scheme, known);
	return dataset_refuse(err,
			      "%s:// is not known%s%s%s; known are http://, https://, s3:// and "
			      "paths",
			      scheme, nearest ? " (did you mean " : "", nearest ? nearest : "",
			      nearest ? "?)" : "");
}

/* Returns the colon that ends the source, or the end of the text. */
static char *find_source_end(enum dataset_scheme scheme, char *source)
{
	const char *path = NULL;

	if (dataset_scheme_is_web(scheme))
		path = url_find_path(source);
	else
		path = source;
	/* an address without a path is refused later */
	return path ? (char *)path + strcspn(path, ":") : source + strlen(source);
}

static int read_scheme(struct dataset *d, char **sourcep, struct error *err)
{
	char *source = *sourcep;
	size_t n = strspn(source,
			  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");

	switch (url_scheme_of(source)) {
	case URL_HTTP:
	case URL_HTTPS:
		d->scheme = DATASET_SCHEME_HTTP;
		break;
	case URL_S3:
		d->scheme = DATASET_SCHEME_S3;
		break;
	case URL_NONE:
		if (n > 0 && !strncmp(source + n, "://", 3))
			return refuse_scheme(source, err);
		d->scheme = source[0] != '@'   ? DATASET_SCHEME_FILE
			    : source[1] != '@' ? DATASET_SCHEME_CATALOG
					       : DATASET_SCHEME_LIST;
		*sourcep += d->scheme == DATASET_SCHEME_CATALOG ? 1
			    : d->scheme == DATASET_SCHEME_LIST	? 2
								: 0;
		return 0;
	}
	for (n = 0; source[n] != ':'; n++)
		source[n] = strutil_lower(source[n]); /* HTTPS:// becomes https:// */
	return 0;
}

static int check_url(struct dataset *d, struct error *err)
{
	struct url url;
	int r;

	r = url_parse(&url, d->source, err);
	if (r < 0)
		return r;
	if (strchr(d->source, ' ') && d->scheme == DATASET_SCHEME_HTTP)
		return dataset_refuse(err, "an address can't have a blank; write %%20");
	if (url_climbs(url.path, url.n_path, d->scheme == DATASET_SCHEME_HTTP))
		return dataset_refuse(err,
				      "an address can't have \"..\"; write the path that is meant");
	d->is_set = !d->literal && memchr(url.path, '{', url.n_path);
	if (d->literal || d->scheme != DATASET_SCHEME_S3 || !strchr(url.path, '*'))
		return 0;
	if (url.path[url.n_path - 1] == '/')
		return dataset_refuse(
			err, "a pattern selects objects, whose names don't end in /; leave "
			     "that out, or write a prefix without *");
	d->is_set = true;
	return 0;
}

static int check_catalog(struct dataset *d, struct error *err)
{
	size_t n = strcspn(d->source, "/");

	for (size_t i = 0; i < n; i++)
		if (!strutil_is_alpha(d->source[i]) && !strutil_is_digit(d->source[i]) &&
		    !strchr("._-", d->source[i]))
			n = 0;
	if (n == 0)
		return dataset_refuse(
			err, "after @ there must be the name of a dataset of this site; see "
			     "stagectl list --site, or write ./ in front of a path");
	if (url_climbs(d->source, strlen(d->source), false))
		return dataset_refuse(
			err, "a path in a dataset of this site can't have \"..\"; write it "
			     "from the top of the dataset");
	d->is_set = !d->literal && path_is_pattern(d->source);
	return 0;
}

/* Does the same as path_is_pattern(), but ignores the braces of ${VAR}. */
static bool is_pattern(const char *path)
{
	for (path += strcspn(path, "*?[{$"); *path; path += strcspn(path, "*?[{$")) {
		if (*path != '$')
			return true;
		path++;
		if (*path == '{')
			path += strcspn(path, "}");
	}
	return false;
}

static int check_path(struct dataset *d, struct error *err)
{
	const char *brace;

	if (!d->expanded && (strstr(d->source, "$(") || strchr(d->source, '`')))
		return dataset_refuse(err,
				      "commands are not run here; put the result in a variable and "
				      "write $VAR");
	/* The result of "/p/{a,../../etc}" would be outside the directory that the text names. */
	brace = d->literal ? NULL : strchr(d->source, '{');
	if (brace && brace > d->source && brace[-1] == '$')
		brace = NULL; /* a variable; checked again after expansion */
	if (brace && url_climbs(brace, strlen(brace), false))
		return dataset_refuse(err,
				      "\"..\" cannot be in or after braces; write the path that "
				      "is meant");
	d->is_set = d->scheme == DATASET_SCHEME_LIST || (!d->literal && is_pattern(d->source));
	return 0;
}

static int check_source(struct dataset *d, struct error *err)
{
	if (!*d->source)
		return dataset_refuse(err,
				      "SOURCE is missing; write [NAME=]SOURCE[:[DEST][:OPTIONS]]");
	/* The characters may have disappeared when ".." was resolved. */
	d->literal &= d->source[strcspn(d->source, "*?[]{}")] != '\0';
	d->expanded &= strchr(d->source, '$') != NULL;
	if (!d->literal && !dataset_braces_are_closed(d->source))
		return dataset_refuse(
			err, "there is a { without a }; close it, or write %%7B in its place");
	switch (d->scheme) {
	case DATASET_SCHEME_HTTP:
	case DATASET_SCHEME_S3:
		return check_url(d, err);
	case DATASET_SCHEME_CATALOG:
		return check_catalog(d, err);
	default:
		return check_path(d, err);
	}
}

/* ---- combinations that are impossible for any source ---- */

enum {
	OPTION_ONFAIL_SOURCE = 1 << 0,
	OPTION_PROFILE = 1 << 1,
	OPTION_KEYS = 1 << 2,
	OPTION_HYDRATE = 1 << 3,
	OPTION_DEST_SOURCE = 1 << 4,
	OPTION_STRIP = 1 << 5,
	OPTION_NESTED = 1 << 6,
	OPTION_FOLLOW = 1 << 7,
	OPTION_FILTER = 1 << 8,
	OPTION_SHA256 = 1 << 9,
	OPTION_IS_SET = 1 << 10,
	OPTION_ALWAYS = 0,
};

static unsigned find_options(const struct dataset *d)
{
	return (d->onfail == DATASET_ONFAIL_SOURCE ? OPTION_ONFAIL_SOURCE : 0) |
	       (*d->profile ? OPTION_PROFILE : 0) | (d->env_keys ? OPTION_KEYS : 0) |
	       (d->hydrate ? OPTION_HYDRATE : 0) |
	       (d->dest && !strcmp(d->dest, "source") ? OPTION_DEST_SOURCE : 0) |
	       (d->strip ? OPTION_STRIP : 0) | (d->nested ? OPTION_NESTED : 0) |
	       (d->follow ? OPTION_FOLLOW : 0) |
	       (d->n_include || d->n_exclude ? OPTION_FILTER : 0) |
	       (d->verify == DATASET_VERIFY_SHA256 ? OPTION_SHA256 : 0) |
	       (d->is_set ? OPTION_IS_SET : 0);
}

#define METHOD(word) (1u << DATASET_METHOD_##word)
#define SCHEME(word) (1u << DATASET_SCHEME_##word)
#define URLS (SCHEME(HTTP) | SCHEME(S3))

/* A dataset with all these options, one of these methods and one of these schemes is refused. In
 * text, %s is the method. */
static const struct {
	unsigned options, methods, schemes;
	const char *text;
} impossible[] = {
	/* clang-format off */
	{ OPTION_ONFAIL_SOURCE, ~0u, URLS,
	  "onfail=source is for copies of files and directories; leave it out or write onfail=ignore" },
	{ OPTION_ONFAIL_SOURCE, ~(METHOD(AUTO) | METHOD(COPY)), ~0u,
	  "onfail=source is for copies of files and directories; leave it out or write onfail=ignore" },
	{ OPTION_ALWAYS, METHOD(LINK), URLS,
	  "method=link needs a path, not an address; leave it out" },
	{ OPTION_PROFILE, ~0u, ~(SCHEME(S3) | SCHEME(CATALOG)),
	  "profile= names keys for s3://, which this is not; leave it out" },
	{ OPTION_KEYS, ~0u, ~(SCHEME(S3) | SCHEME(CATALOG)),
	  "keys= is for s3://, which this is not; leave it out" },
	{ OPTION_KEYS | OPTION_PROFILE, ~0u, ~0u,
	  "keys=env and profile= name different keys; leave one of them out" },
	{ OPTION_HYDRATE, ~(METHOD(AUTO) | METHOD(MOUNT)), ~0u,
	  "hydrate=copy mounts first, which method=%s rules out; leave one of them out" },
	{ OPTION_DEST_SOURCE, METHOD(COPY) | METHOD(EXTRACT), ~0u,
	  "DEST source leaves the data where it is, and method=%s does not; leave one of them out" },
	{ OPTION_STRIP, ~(METHOD(AUTO) | METHOD(EXTRACT)), ~0u,
	  "strip= is for archives that are extracted, which method=%s rules out; leave one of them out" },
	{ OPTION_NESTED, ~(METHOD(AUTO) | METHOD(EXTRACT) | METHOD(MOUNT)), ~0u,
	  "nested is for archives that are extracted, which method=%s rules out; leave one of them out" },
	{ OPTION_FOLLOW, ~(METHOD(AUTO) | METHOD(COPY)), ~0u,
	  "links=follow is for directories that are copied, which method=%s rules out; leave one of them out" },
	{ OPTION_FILTER, METHOD(LINK) | METHOD(MOUNT), ~0u,
	  "include= and exclude= select, and method=%s shows all of the source; leave one of them out" },
	{ OPTION_SHA256, METHOD(LINK), ~0u,
	  "a link can't be verified: what it shows may change; leave verify= or method=link out" },
	{ OPTION_SHA256 | OPTION_IS_SET, ~0u, ~0u,
	  "one digest cannot be that of many files; write verify=size or name one file" },
	/* clang-format on */
};

static int check_options(const struct dataset *d, struct error *err)
{
	const unsigned options = find_options(d);

	for (size_t i = 0; i < ARRAY_SIZE(impossible); i++)
		if ((options & impossible[i].options) == impossible[i].options &&
		    impossible[i].methods & 1u << d->method &&
		    impossible[i].schemes & 1u << d->scheme)
			return dataset_refuse(err, impossible[i].text,
					      dataset_method_to_string(d->method));
	return 0;
}

int dataset_item_check(struct dataset *d, struct error *err)
{
	int r;

	r = check_source(d, err);
	return r < 0 ? r : check_options(d, err);
}

void dataset_take_literally(struct dataset *d)
{
	d->literal = true;
	d->is_set = false;
}

static int refuse_dest(const struct dataset *d, const char *dest, struct error *err)
{
	char shown[DATASET_SHOW_SIZE];
	const char *nearest = dataset_dest_nearest(dest);
	size_t n = strcspn(dest, "=+");
	bool flag;

	dataset_show(dest, shown, sizeof(shown));
	if (n > 0 && dataset_option_is_known(dest, n, &flag) && (dest[n] == '=' || flag))
		return dataset_refuse(err,
				      "\"%s\" is an option, and options are written after a second "
				      "colon; write ::%s",
				      shown, shown);
	if (dest[n] == '+' && dataset_dest_is_word_of(dest, n))
		return dataset_refuse(
			err, "\"%s\": options are written after a second colon and joined by +",
			shown);
	if (nearest)
		return dataset_refuse(err, "DEST \"%s\" is not known; did you mean %s?", shown,
				      nearest);
	if (d->scheme == DATASET_SCHEME_FILE && !d->name_given &&
	    dataset_name_is_legal(d->source, strlen(d->source)))
		return dataset_refuse(
			err,
			"DEST \"%s\" is not known; it is auto, shm, ssd, scratch, source "
			"or an absolute path. A NAME is written %s=%s, and a colon that "
			"belongs to the path %%3A",
			shown, d->source, shown);
	return dataset_refuse(
		err,
		"DEST \"%s\" is not known; it is auto, shm, ssd, scratch, source or an "
		"absolute path, and a colon that belongs to the %s is written %%3A",
		shown, d->scheme == DATASET_SCHEME_HTTP ? "address" : "path");
}

int dataset_dest_read(struct dataset *d, const char *dest, struct error *err)
{
	char normal[PATH_MAX], *copy;
	bool known = *dest == '$' || *dest == '~';

	if (!*dest)
		dest = "auto";
	known |= dataset_dest_is_word(dest);
	if (*dest == '/') {
		if (path_normalize(dest, normal, sizeof(normal)) < 0 || !normal[1])
			return dataset_refuse(err,
					      "DEST \"%.64s\" is no place for a dataset; write an "
					      "absolute path below a tier of the site",
					      dest);
		dest = normal;
	} else if (!known) {
		return refuse_dest(d, dest, err);
	}
	if (!dataset_braces_are_closed(dest))
		return dataset_refuse(err, "DEST has a { without a }; close it");
	copy = strdup(dest);
	if (!copy)
		return -ENOMEM;
	free(d->dest);
	d->dest = copy;
	return 0;
}

/* Cuts text at the colon. Returns the text after it; NULL if there is no colon. */
static char *cut_at(char *colon)
{
	if (!*colon)
		return NULL;
	*colon = '\0';
	return colon + 1;
}

static int check_start(const char *item, struct error *err)
{
	if (!*item)
		return dataset_refuse(err, "an item is empty; remove the extra comma");
	if (*item == ' ')
		return dataset_refuse(err, "begins with a blank; remove it, items are separated by "
					   "commas alone");
	if (!strcmp(item, "+none"))
		return dataset_refuse(err, "none cancels and can't be added; write none alone");
	if (*item == '+')
		return dataset_refuse(
			err,
			"begins with +, which is written before a value on the command "
			"line and adds it to the script's; write ./%.64s for a file",
			item);
	if (!strcmp(item, "none") || !strncmp(item, "none:", 5))
		return dataset_refuse(
			err, "none cancels and is written alone; for a file of that name write "
			     "./none");
	return 0;
}

/* Refuses "http:/x", "host:/path", "C:\x" and "${X:-y}", which would otherwise be read as a file
 * and a DEST. */
static int check_cut(const struct dataset *d, const char *source, const char *dest,
		     struct error *err)
{
	const char *variable = strstr(source, "${");

	if (d->scheme != DATASET_SCHEME_FILE && d->scheme != DATASET_SCHEME_LIST)
		return 0;
	if (variable && !strchr(variable, '}'))
		return dataset_refuse(
			err, "${ has no } before the end or a colon; write $VAR or ${VAR}, "
			     "other forms of the shell are not known");
	if (d->scheme == DATASET_SCHEME_LIST || !dest)
		return 0;
	if (strutil_equal(source, "http") || strutil_equal(source, "https") ||
	    strutil_equal(source, "s3"))
		return dataset_refuse(err, "an address has two slashes; write %s://...", source);
	if (dataset_dest_is_word(source) && strchr("/$~", *dest) && *dest)
		return dataset_refuse(
			err,
			"the source comes first, then its DEST; for a file of that name "
			"write ./%s",
			source);
	if (strutil_is_alpha(source[0]) && !source[1] && *dest == '\\')
		return error_set_hint(err, dataset_refuse(err, "is a path of Windows"),
				      "copy the file to this system, and write its path here");
	if (*source != '/' && strchr(source, '@') && !strchr(source, '/') && *dest == '/')
		return dataset_refuse(err,
				      "files of other machines are not read by name; give a path, "
				      "http://, https:// or s3://");
	return 0;
}

int dataset_item_read(struct dataset *d, char *item, struct error *err)
{
	char *source = item, *dest, *options = NULL;
	int r;

	r = check_start(item, err);
	if (r < 0)
		return r;
	r = read_name(d, &source, err);
	if (r < 0)
		return r;
	r = read_scheme(d, &source, err);
	if (r < 0)
		return r;
	dest = cut_at(find_source_end(d->scheme, source));
	if (dest)
		options = cut_at(dest + strcspn(dest, ":"));
	r = check_cut(d, source, dest, err);
	if (r < 0)
		return r;

	if (d->scheme != DATASET_SCHEME_HTTP)
		dataset_source_decode(source, d);
	d->source = strdup(source);
	if (!d->source)
		return -ENOMEM;
	if (dest)
		dataset_decode(dest);
	r = dataset_dest_read(d, dest ? dest : "auto", err);
	if (r == 0 && options)
		r = dataset_options_read(d, options, err);
	return r < 0 ? r : dataset_item_check(d, err);
}
