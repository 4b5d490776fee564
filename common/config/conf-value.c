/*
 * A key's value from its text, as the row of conf-keys.c says.
 */
#include "common/config/conf-internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/parse.h"
#include "common/util/strutil.h"

/* Changes "a, b  c," to "a,b,c", in place. */
static void normalize_words(char *text)
{
	char *out = text;
	size_t n;

	for (const char *p = text; *p; p += n) {
		p += strspn(p, ", ");
		n = strcspn(p, ", ");
		if (n == 0)
			break;
		if (out > text)
			*out++ = ',';
		memmove(out, p, n);
		out += n;
	}
	*out = '\0';
}

static int set_text(char **fieldp, const struct conf_key *key, const char *value,
		    struct conf_report *r)
{
	_cleanup_(freep) char *copy = strdup(value);
	int ret;

	if (!copy)
		return -ENOMEM;
	if (!strcmp(key->type, "words"))
		normalize_words(copy);
	if (key->check && *copy) {
		ret = key->check(&copy, r);
		if (ret < 0)
			return ret;
	}
	free(*fieldp);
	*fieldp = steal_ptr(copy);
	return 0;
}

/* Finds the index of value in "a
 * b
 * c". */
static int find_word(const char *words, const char *value, unsigned *ip)
{
	char word[32];
	size_t len;

	for (unsigned i = 0;; i++, words += len + 1) {
		len = strcspn(words, "|");
		snprintf(word, sizeof(word), "%.*s", (int)len, words);
		if (strutil_equal(word, value)) {
			*ip = i;
			return 0;
		}
		if (!words[len])
			return -EINVAL;
	}
}

static int refuse_value(const struct conf_key *key, const char *value, struct conf_report *r)
{
	char hint[160];

	if (strchr(key->type, '|'))
		snprintf(hint, sizeof(hint), "write %s=%s", key->name, key->type);
	else if (!strcmp(key->type, "bool"))
		snprintf(hint, sizeof(hint), "write %s=yes or %s=no", key->name, key->name);
	else if (!strcmp(key->type, "int"))
		snprintf(hint, sizeof(hint), "write a number from %" PRIu64 " to %" PRIu64,
			 key->min, key->max);
	else if (!strcmp(key->type, "size"))
		snprintf(hint, sizeof(hint), "write a number, with K, M, G or T after it%s",
			 key->min ? ", not smaller than 1M" : "");
	else
		snprintf(hint, sizeof(hint), "write a time like 90, 500ms, 5m or 2h%s",
			 key->min ? ", not too short" : "");
	if (strchr(value, '#'))
		snprintf(hint, sizeof(hint), "begin a comment after a value with \";\"");
	return conf_report(r, EINVAL, hint, "%s: \"%s\" is not possible", key->name, value);
}

static int set_number(void *field, const struct conf_key *key, const char *value,
		      struct conf_report *r)
{
	uint64_t v = 0;
	int ret;

	if (!strcmp(key->type, "int"))
		ret = parse_uint64(value, &v);
	else if (!strcmp(key->type, "size"))
		ret = parse_size(value, &v);
	else
		ret = parse_duration(value, &v);
	if (ret < 0 || v < key->min || v > key->max)
		return refuse_value(key, value, r);
	if (key->size == sizeof(uint32_t))
		*(uint32_t *)field = (uint32_t)v;
	else
		*(uint64_t *)field = v;
	return 0;
}

int conf_set_value(void *base, const struct conf_key *key, const char *value, struct conf_report *r)
{
	void *field = (char *)base + key->offset;
	unsigned i;
	bool b;

	if (!*value)
		value = key->dflt;
	if (!strcmp(key->type, "text") || !strcmp(key->type, "words"))
		return set_text(field, key, value, r);
	if (!strcmp(key->type, "bool")) {
		if (parse_bool(value, &b) < 0)
			return refuse_value(key, value, r);
		*(bool *)field = b;
		return 0;
	}
	if (!strchr(key->type, '|'))
		return set_number(field, key, value, r);
	if (find_word(key->type, value, &i) < 0)
		return refuse_value(key, value, r);
	if (key->size == sizeof(bool))
		*(bool *)field = i > 0;
	else
		*(unsigned *)field = i;
	return 0;
}
