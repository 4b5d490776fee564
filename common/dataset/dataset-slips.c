/*
 * What an item was probably meant to be.
 *
 * The item is read a second time, loosely: every ":", "+", ";", "," and blank after the source may
 * separate, options and DEST may come in any order, and words may be misspelt. What was understood
 * is written in the right order. The strict reader has to accept the result, or nothing is offered;
 * so a suggestion can always be pasted, and a rule that is missing here costs no more than the
 * suggestion.
 *
 * An address with a query or a user is never shown, because these may be secrets.
 */
#include "common/dataset/dataset-internal.h"

#include <errno.h>
#include <string.h>

#include "common/util/strutil.h"

#define SLIP_SIZE DATASET_SLIP_VALUE_SIZE
#define SEPARATORS ":+;, "

struct slip {
	char name[DATASET_NAME_SIZE];
	char source[SLIP_SIZE];
	char dest[SLIP_SIZE];
	char options[SLIP_SIZE];
	const char *key;       /* the current option, which is not in `options` yet; NULL: none */
	char value[SLIP_SIZE]; /* of key */
	bool is_url;
};

/* Appends text. Returns false if there is no room. */
static bool dataset_slips_append(char *buf, size_t size, const char *text)
{
	size_t n = strlen(buf), m = strlen(text);

	if (m >= size - n)
		return false;
	memcpy(buf + n, text, m + 1);
	return true;
}

/* --- options and DEST ---------------------------------------------------------------------- */

static bool is_pattern_key(const char *key)
{
	return key && (!strcmp(key, "include") || !strcmp(key, "exclude"));
}

/* Appends the current option to `options`. */
static bool end_option(struct slip *s)
{
	bool ok;

	if (!s->key)
		return true;
	if (!dataset_slip_fix_value(s->key, s->value))
		return false;
	ok = dataset_slips_append(s->options, sizeof(s->options), *s->options ? "+" : "") &&
	     dataset_slips_append(s->options, sizeof(s->options), s->key) &&
	     dataset_slips_append(s->options, sizeof(s->options), *s->value ? "=" : "") &&
	     dataset_slips_append(s->options, sizeof(s->options), s->value);
	s->key = NULL;
	return ok;
}

static bool begin_option(struct slip *s, const char *key, const char *value)
{
	if (!end_option(s))
		return false;
	s->key = key;
	snprintf(s->value, sizeof(s->value), "%s", value);
	return true;
}

static bool set_dest(struct slip *s, const char *dest)
{
	if (*s->dest || !*dest)
		return false;
	snprintf(s->dest, sizeof(s->dest), "%s", dest);
	return end_option(s);
}

/* Handles "KEY=VALUE", in which the key is known, has another name, or is misspelt. */
static bool take_assignment(struct slip *s, char *word)
{
	size_t n = strcspn(word, "=");
	const char *meant, *dest;
	char *value = word + n + 1;

	word[n] = '\0';
	meant = dataset_slip_find_key(word);
	if (!meant)
		meant = dataset_option_nearest(word);
	if (meant && !strcmp(meant, "dest")) {
		dest = dataset_slip_find_dest(value);
		return set_dest(s, dest ? dest : value);
	}
	return meant && begin_option(s, meant, value);
}

/* Handles "strip1" and "keep2h", in which the "=" is missing. */
static bool take_joined(struct slip *s, char *word)
{
	size_t n = strcspn(word, "0123456789");
	char key[32];
	bool flag;

	if (!word[n] || n >= sizeof(key))
		return false;
	memcpy(key, word, n);
	key[n] = '\0';
	if (!dataset_option_is_known(key, n, &flag) || flag)
		return false;
	return begin_option(s, dataset_option_nearest(key), word + n);
}

static bool take_word(struct slip *s, char *word)
{
	const char *meant = dataset_slip_find_flag(word);
	bool flag;

	if (meant) {
		snprintf(s->value, sizeof(s->value), "%s", meant);
		if (!strchr(meant, '='))
			return begin_option(s, "nested", "");
		return end_option(s) &&
		       dataset_slips_append(s->options, sizeof(s->options),
					    *s->options ? "+" : "") &&
		       dataset_slips_append(s->options, sizeof(s->options), meant);
	}
	if (dataset_dest_is_word(word) || strchr("/$~", *word))
		return set_dest(s, word);
	if (dataset_option_is_known(word, strlen(word), &flag))
		return flag && begin_option(s, dataset_option_nearest(word), "");
	meant = dataset_slip_find_dest(word);
	if (!meant)
		meant = dataset_dest_nearest(word);
	if (meant)
		return set_dest(s, meant);
	meant = dataset_option_nearest(word);
	if (meant && dataset_option_is_known(meant, strlen(meant), &flag) && flag)
		return begin_option(s, meant, "");
	return take_joined(s, word);
}

/* Joins patterns: "include=*.a,*.b" becomes "*.{a,b}". */
static bool take_pattern(struct slip *s, const char *pattern)
{
	bool ends = !strncmp(pattern, "*.", 2) && !strncmp(s->value, "*.", 2);
	const char *front = ends ? "*." : "", *first = s->value + strlen(front);
	size_t n = strlen(first);
	char all[2 * SLIP_SIZE + 16];

	if (n > 1 && first[0] == '{' && first[n - 1] == '}') {
		n -= 2;
		first++;
	}
	snprintf(all, sizeof(all), "%s{%.*s,%s}", front, (int)n, first, pattern + strlen(front));
	if (strlen(all) >= sizeof(s->value))
		return false;
	strcpy(s->value, all);
	return true;
}

/* Handles the rest of a value that was cut at a separator: "sha256:DIGEST", "1:30:00", "*.a,*.b",
 * "keep:2h". */
static bool take_rest(struct slip *s, char separator, const char *word)
{
	if (!s->key)
		return false;
	if (is_pattern_key(s->key) && separator == ',' && *s->value)
		return take_pattern(s, word);
	if (separator != ':' && (separator != ' ' || *s->value))
		return false;
	if (*s->value && strcmp(s->value, "sha256") && !strutil_is_digit(*word))
		return false;
	return dataset_slips_append(s->value, sizeof(s->value), *s->value ? ":" : "") &&
	       dataset_slips_append(s->value, sizeof(s->value), word);
}

/* Handles a path with a colon, and a NAME that was followed by a colon: "/p/run:12/x" and
 * "data:images.tar". */
static bool take_path(struct slip *s, char separator, const char *word)
{
	if (separator != ':' || *s->dest || s->key || *s->options)
		return false;
	if (!strpbrk(word, "/.") && !strutil_is_digit(*word))
		return false;
	if (!s->is_url && !*s->name && dataset_name_is_legal(s->source, strlen(s->source))) {
		snprintf(s->name, sizeof(s->name), "%s", s->source);
		s->source[0] = '\0';
		return dataset_slips_append(s->source, sizeof(s->source), word);
	}
	return dataset_slips_append(s->source, sizeof(s->source), "%3A") &&
	       dataset_slips_append(s->source, sizeof(s->source), word);
}

static bool take(struct slip *s, char separator, char *word)
{
	bool flag;

	word += strspn(word, "-");
	if (!*word)
		return true;
	if (s->key && (!*s->value || !strcmp(s->value, "sha256") || separator == ':') &&
	    take_rest(s, separator, word))
		return true;
	if (strchr(word, '='))
		return take_assignment(s, word) || take_path(s, separator, word);
	if (separator == ',' && is_pattern_key(s->key))
		return take_rest(s, separator, word);
	if (dataset_option_is_known(word, strlen(word), &flag) && !flag &&
	    !dataset_slip_find_flag(word))
		return begin_option(s, dataset_option_nearest(word), ""); /* its value follows */
	return take_word(s, word) || take_path(s, separator, word);
}

/* --- the whole ----------------------------------------------------------------------------- */

bool dataset_slip_is_option(const char *text)
{
	size_t n = strcspn(text, SEPARATORS "=");
	char word[16];
	bool flag;

	if (dataset_option_is_known(text, n, &flag))
		return flag ? text[n] != '=' : text[n] == '=';
	if (text[n] == '=' || n >= sizeof(word))
		return false;
	memcpy(word, text, n);
	word[n] = '\0';
	return dataset_dest_is_word(word);
}

static bool ends_before_option(const char *text)
{
	return strchr("+;, ", *text) &&
	       dataset_slip_is_option(text + 1 + strspn(text + 1, SEPARATORS));
}

/* A colon ends a source. Other separators end it only if an option follows. */
static size_t find_source_end(const char *text, const char *path)
{
	size_t n = (size_t)(path - text);
	unsigned depth = 0;

	for (; text[n]; n++) {
		if (text[n] == '{')
			depth++;
		else if (text[n] == '}' && depth > 0)
			depth--;
		else if (depth == 0 && (text[n] == ':' || ends_before_option(text + n)))
			return n;
	}
	return n;
}

/* Reads the scheme, which may be misspelt. Returns the text after it; *schemep: "" for a path. */
static const char *read_scheme(const char *text, const char **schemep)
{
	static const char *const schemes[] = { "http", "https", "s3", NULL };
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
	char scheme[16];
	const char *known;

	*schemep = "";
	if (n == 0 || n >= sizeof(scheme) || text[n] != ':')
		return text;
	memcpy(scheme, text, n);
	scheme[n] = '\0';
	if (strutil_equal(scheme, "file") && text[n + 1] == '/')
		return text + n + (strncmp(text + n, "://", 3) ? 1 : 3);
	known = !strncmp(text + n, "://", 3) ? strutil_nearest(scheme, schemes) : NULL;
	for (size_t i = 0; schemes[i] && !known; i++)
		known = strutil_equal(scheme, schemes[i]) ? schemes[i] : NULL;
	if (!known)
		return text;
	*schemep = known;
	return text + n + 1 + strspn(text + n + 1, "/");
}

/* Reads the source into s. Returns the rest; NULL if the source was not found or must not be
 * shown. */
static const char *read_source(struct slip *s, const char *text)
{
	const char *scheme, *rest = read_scheme(text, &scheme), *path = rest;
	size_t n;

	s->is_url = *scheme != '\0';
	if (s->is_url) {
		path = strchr(rest, '/');
		if (!path || strpbrk(rest, "?@"))
			return NULL;
	}
	n = find_source_end(rest, path);
	if (n == 0)
		return NULL;
	snprintf(s->source, sizeof(s->source), "%s%s%.*s", scheme, s->is_url ? "://" : "", (int)n,
		 rest);
	return rest + n;
}

/* Reads "NAME=" and makes the name valid. */
static const char *read_name(struct slip *s, const char *text)
{
	size_t n = strcspn(text, "=/:{"), used = n;

	if (text[n] != '=' || strchr(".@$~%*?[", *text))
		return text;
	while (used > 0 && text[used - 1] == ' ')
		used--;
	dataset_name_make_legal(text, used, s->name);
	text += n + 1;
	return text + strspn(text, " ");
}

/* Handles "shm:/p/x", in which DEST comes first. */
static const char *read_early_dest(struct slip *s, const char *text)
{
	size_t n = strcspn(text, ":");
	char word[16];

	if (!text[n] || n >= sizeof(word) || !text[n + 1] || !strchr("/$~.@", text[n + 1]))
		return text;
	memcpy(word, text, n);
	word[n] = '\0';
	if (!dataset_dest_is_word(word))
		return text;
	strcpy(s->dest, word);
	return text + n + 1;
}

static bool read_words(struct slip *s, const char *text)
{
	char word[SLIP_SIZE];
	unsigned depth = 0;
	char separator;
	size_t n;

	while (*text) {
		separator = *text++;
		for (n = 0; text[n] && (depth > 0 || !strchr(SEPARATORS, text[n])); n++) {
			if (text[n] == '{')
				depth++;
			else if (text[n] == '}' && depth > 0)
				depth--;
		}
		memcpy(word, text, n);
		word[n] = '\0';
		text += n;
		if (!take(s, separator, word))
			return false;
	}
	return end_option(s);
}

/* Copies the item without blanks and quotes around it. */
static bool copy_trimmed(char buf[static SLIP_SIZE], const char *text)
{
	size_t n;

	text += strspn(text, " \"'");
	n = strlen(text);
	while (n > 0 && strchr(" \"'", text[n - 1]))
		n--;
	if (n == 0 || n >= SLIP_SIZE)
		return false;
	memcpy(buf, text, n);
	buf[n] = '\0';
	return true;
}

bool dataset_slip_is_item(const char *text)
{
	struct dataset d = { 0 };
	char *copy = strdup(text);
	int r;

	r = copy ? dataset_item_read(&d, copy, NULL) : -ENOMEM;
	free(copy);
	dataset_deinit(&d);
	return r == 0;
}

/* Encodes blanks in addresses, and replaces a command that prints the working directory by $PWD. */
static void print_source(const struct slip *s, char *buf, size_t size)
{
	const char *rest = s->source;
	bool is_pwd = !strncmp(rest, "$(pwd)", 6) || !strncmp(rest, "`pwd`", 5);

	if (is_pwd)
		rest = strchr(rest + 1, *rest == '`' ? '`' : ')') + 1;
	snprintf(buf, size, "%s", is_pwd ? "$PWD" : "");
	for (; *rest; rest++) {
		char c[2] = { *rest, '\0' };

		if (!dataset_slips_append(buf, size, s->is_url && *rest == ' ' ? "%20" : c))
			return;
	}
}

int dataset_slip_correct(const char *text, char buf[static DATASET_SLIP_SIZE])
{
	char copy[SLIP_SIZE], source[SLIP_SIZE + 64];
	struct slip s = { 0 };
	const char *rest;
	int n;

	if (!copy_trimmed(copy, text))
		return -ENOENT;
	rest = read_early_dest(&s, copy);
	rest = read_name(&s, rest);
	rest = read_source(&s, rest + strspn(rest, " \"'"));
	if (!rest || !read_words(&s, rest))
		return -ENOENT;
	print_source(&s, source, sizeof(source));
	n = snprintf(buf, DATASET_SLIP_SIZE, "%s%s%s%s%s%s%s", s.name, *s.name ? "=" : "", source,
		     *s.dest || *s.options ? ":" : "", s.dest, *s.options ? ":" : "", s.options);
	if (n >= DATASET_SLIP_SIZE || !strcmp(buf, text) || !dataset_slip_is_item(buf))
		return -ENOENT;
	return 0;
}
