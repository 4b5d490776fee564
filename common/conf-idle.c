/*
 * A key is idle if its line of documentation says so: the manual, the example file and this can't
 * differ. It is told where its value is not the default, which an admin wrote for a reason.
 */
#include "common/conf-internal.h"

#include <stdlib.h>
#include <string.h>

struct teller {
	void (*fn)(void *arg, const char *text);
	void *arg;
};

static void tell(const struct teller *t, const char *section, const char *name, const char *key)
{
	char text[256];

	snprintf(text, sizeof(text), "[%s%s%s] %s has no effect in this version", section,
		 *name ? " " : "", name, key);
	t->fn(t->arg, text);
}

static bool is_same(const struct conf_key *key, const void *a, const void *b)
{
	const bool is_text = !strcmp(key->type, "text") || !strcmp(key->type, "words");

	a = (const char *)a + key->offset;
	b = (const char *)b + key->offset;
	return is_text ? !strcmp(*(char *const *)a, *(char *const *)b) : !memcmp(a, b, key->size);
}

static void look_at_key(struct conf *conf, const struct conf_key *key, const struct teller *t)
{
	const struct conf_section *s = conf_find_section(key->section, strlen(key->section));
	size_t n = 1;
	_cleanup_(freep) void *dflt = calloc(1, s->named ? s->item_size : sizeof(*conf));
	const void *base;

	if (s->named)
		memcpy(&n, (const char *)conf + s->count, sizeof(n));
	if (!dflt || conf_init_values(dflt, s) < 0)
		n = 0;
	for (size_t i = 0; i < n; i++) {
		base = conf_section_base(conf, s, i);
		if (!is_same(key, base, dflt))
			tell(t, s->name, s->named ? *(char *const *)base : "", key->name);
	}
	if (dflt)
		conf_free_values(dflt, s);
}

void conf_for_each_idle(struct conf *conf, void (*fn)(void *arg, const char *text), void *arg)
{
	const struct teller t = { fn, arg };
	size_t n_keys;
	const struct conf_key *keys = conf_get_keys(&n_keys);

	for (size_t i = 0; i < n_keys; i++)
		if (strstr(keys[i].doc, CONF_IDLE))
			look_at_key(conf, &keys[i], &t);
}
