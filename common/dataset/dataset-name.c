/*
 * NAME becomes part of a shell variable and of a path, so it is kept to what both take:
 * [A-Za-z][A-Za-z0-9_]*, 32 bytes, one spelling. Made names give way to given ones.
 */
#include "common/dataset/dataset-internal.h"

#include <errno.h>
#include <string.h>

#include "common/util/url.h"
#include "common/util/strutil.h"

static bool is_name_byte(char c)
{
	return strutil_is_alpha(c) || strutil_is_digit(c) || c == '_';
}

bool dataset_name_is_legal(const char *text, size_t n)
{
	if (n == 0 || n >= DATASET_NAME_SIZE || !strutil_is_alpha(text[0]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!is_name_byte(text[i]))
			return false;
	return true;
}

/* The result has at most DATASET_NAME_SIZE - 1 bytes. */
void dataset_name_make_legal(const char *text, size_t n, char name[static DATASET_NAME_SIZE])
{
	size_t len = 0;

	if (n > 0 && !strutil_is_alpha(text[0])) {
		name[len++] = 'd';
		if (strutil_is_digit(text[0]))
			name[len++] = '_';
	}
	for (size_t i = 0; i < n && len < DATASET_NAME_SIZE - 1; i++)
		name[len++] = is_name_byte(text[i]) ? text[i] : '_';
	while (len > 0 && name[len - 1] == '_')
		len--;
	name[len] = '\0';
	/* For "___", only the "d" remains, and no character of the text. */
	if (len == 0 || (len == 1 && name[0] == 'd' && !strutil_is_alpha(text[0])))
		strcpy(name, "data");
}

/* Returns the text that the name is made of: the path without query, host and scheme. */
static const char *name_text(const struct dataset *d, size_t *np)
{
	struct url url;

	if (dataset_scheme_is_web(d->scheme) && url_parse(&url, d->source, NULL) == 0) {
		*np = url.n_path > 0 ? url.n_path : url.n_host; /* n_path is 0 for a whole bucket */
		return url.n_path > 0 ? url.path : url.host;
	}
	*np = strlen(d->source);
	return d->source;
}

void dataset_name_derive(const struct dataset *d, char name[static DATASET_NAME_SIZE])
{
	bool is_path = !dataset_scheme_is_web(d->scheme);
	const char *cut = is_path && d->scheme != DATASET_SCHEME_LIST ? ".*?[{"
			  : d->scheme == DATASET_SCHEME_S3	      ? ".*{"
								      : ".{";
	const char *text, *start;
	size_t n;

	text = name_text(d, &n);
	while (n > 0 && text[n - 1] == '/')
		n--;
	for (start = text + n; start > text && start[-1] != '/'; start--)
		;
	n -= (size_t)(start - text);
	for (size_t i = 0; i < n; i++)
		if (strchr(cut, start[i]))
			n = i;
	dataset_name_make_legal(start, n, name);
}

int dataset_name_read(struct dataset *d, const char *text, size_t n, struct error *err)
{
	char legal[DATASET_NAME_SIZE], shown[DATASET_SHOW_SIZE], copy[DATASET_MAX_ITEM + 1];

	if (dataset_name_is_legal(text, n)) {
		memcpy(d->name, text, n);
		d->name[n] = '\0';
		d->name_given = true;
		return 0;
	}
	dataset_name_make_legal(text, n, legal);
	memcpy(copy, text, n);
	copy[n] = '\0';
	dataset_show(copy, shown, sizeof(shown));
	return dataset_refuse(err,
			      "NAME \"%s\" must begin with a letter and have letters, digits and _ "
			      "alone, 32 at most; write %s=, or ./ in front of a path with a =",
			      shown, legal);
}

static bool is_taken(const struct dataset_list *list, size_t n_made, const char *name)
{
	for (size_t i = 0; i < list->n_items; i++)
		if ((i < n_made || list->items[i].name_given) &&
		    strutil_equal(list->items[i].name, name))
			return true;
	return false;
}

int dataset_names_make(struct dataset_list *list, struct error *err)
{
	char base[DATASET_NAME_SIZE], suffix[16], shown[DATASET_SHOW_SIZE];

	for (size_t i = 0; i < list->n_items; i++)
		for (size_t j = 0; j < i; j++)
			if (list->items[i].name_given && list->items[j].name_given &&
			    strutil_equal(list->items[i].name, list->items[j].name))
				return dataset_refuse(
					err,
					"item \"%s\": NAME %s is there already%s, and the "
					"variable would be the same; give another NAME",
					dataset_show(list->items[i].source, shown, sizeof(shown)),
					list->items[i].name,
					strcmp(list->items[i].name, list->items[j].name)
						? " in other letters"
						: "");

	for (size_t i = 0; i < list->n_items; i++) {
		struct dataset *d = &list->items[i];

		if (d->name_given)
			continue;
		dataset_name_derive(d, base);
		strcpy(d->name, base);
		for (unsigned k = 2; is_taken(list, i, d->name); k++) {
			int n = snprintf(suffix, sizeof(suffix), "_%u", k);
			size_t room = DATASET_NAME_SIZE - 1 - (size_t)n;

			snprintf(d->name, sizeof(d->name), "%.*s%s", (int)room, base, suffix);
		}
	}
	return 0;
}

void dataset_env_name(const struct dataset *d, const char *prefix, char *buf, size_t size)
{
	size_t n = strlen(prefix);

	snprintf(buf, size, "%s%s", prefix, d->name);
	for (; n < size && buf[n]; n++)
		buf[n] = strutil_upper(buf[n]);
}

/* Explains "NAME=SOURCE", whose source is not there. */
static void hint_equals(const char *name, const char *source, char *buf, size_t size)
{
	const char *option = dataset_option_nearest(name);

	if (option)
		snprintf(buf, size,
			 "; if it is the option %s=, add it to its item, as in "
			 "/p/x::%s=%s; if it is a part of the path, write ./%s=%s",
			 option, option, source, name, source);
	else
		snprintf(buf, size, "; if %s= is a part of the path, write ./%s=%s", name, name,
			 source);
}

char *dataset_name_hint(const struct dataset *d, const char *value, const char *cwd, char *buf,
			size_t size)
{
	size_t n = strlen(cwd);

	buf[0] = '\0';
	if (n == 0 || strncmp(d->source, cwd, n) || d->source[n] != '/')
		return buf;
	if (d->dest && *d->dest == '/' && !strchr(d->source + n + 1, '/')) {
		snprintf(buf, size,
			 "; if %s is another machine%s: its files are not read by name, so copy "
			 "them here first (scp)",
			 d->source + n + 1, d->source[n + 2] ? "" : ", or a drive of Windows");
		return buf;
	}
	if (!d->name_given)
		return buf;
	snprintf(buf, size, "%s=%s", d->name, d->source + n + 1);
	if (strstr(value, buf))
		hint_equals(d->name, d->source + n + 1, buf, size);
	else
		buf[0] = '\0';
	return buf;
}
