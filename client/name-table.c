/*
 * At most two thirds of the slots are in use. A slot has the position of its text + 1, or 0.
 */
#include "client/name-table.h"

#include <stdlib.h>
#include <string.h>

#include "common/util/fnv.h"

static size_t *find_slot(const struct name_table *names, const char *text)
{
	size_t i = fnv_add_text(FNV_INIT, text) % names->n_slots;

	while (names->slots[i] && strcmp(names->texts[names->slots[i] - 1], text) != 0)
		i = (i + 1) % names->n_slots;
	return &names->slots[i];
}

/* Makes room for twice the texts, and one more. */
static int grow(struct name_table *names)
{
	const size_t n_slots = 6 * names->n + 16;
	const char **texts = reallocarray(names->texts, n_slots, sizeof(*texts));
	size_t *slots = calloc(n_slots, sizeof(*slots));

	if (texts)
		names->texts = texts;
	if (!texts || !slots) {
		free(slots);
		return -1;
	}
	free(names->slots);
	names->slots = slots;
	names->n_slots = n_slots;
	for (size_t i = 0; i < names->n; i++)
		*find_slot(names, names->texts[i]) = i + 1;
	return 0;
}

size_t name_table_add(struct name_table *names, const char *text)
{
	size_t *slot;

	if (3 * (names->n + 1) > 2 * names->n_slots && grow(names) < 0)
		return NAME_TABLE_NONE;
	slot = find_slot(names, text);
	if (!*slot) {
		names->texts[names->n++] = text;
		*slot = names->n;
	}
	return *slot - 1;
}

size_t name_table_find(const struct name_table *names, const char *text)
{
	return names->n ? *find_slot(names, text) - 1 : NAME_TABLE_NONE;
}

void name_table_deinit(struct name_table *names)
{
	free(names->texts);
	free(names->slots);
	*names = (struct name_table){ 0 };
}
