/*
 * name-table: numbers different texts in the order in which they are added, such as the names of
 * the datasets in the answers of many nodes. A text is found by its hash, whatever their order.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define NAME_TABLE_NONE SIZE_MAX

struct name_table {
	const char **texts; /* lent by the caller */
	size_t n;
	size_t *slots; /* private: a hash table of positions in texts */
	size_t n_slots;
};

/* Returns the number of an equal text, or adds the text and returns its number. NAME_TABLE_NONE: no
 * memory. text must stay as long as the table. */
size_t name_table_add(struct name_table *names, const char *text);
/* Returns the number of an equal text, or NAME_TABLE_NONE. */
size_t name_table_find(const struct name_table *names, const char *text);
void name_table_deinit(struct name_table *names);
