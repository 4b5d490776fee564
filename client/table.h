/*
 * table: prints rows of cells in columns that are as wide as their content.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "common/util/cleanup.h"

#define TABLE_MAX_COLUMNS 12

struct table;

struct table_column {
	const char *head;
	bool right; /* numbers: flush right */
};

/* columns is kept, not copied. */
int table_new(struct table **tp, const struct table_column *columns, size_t n_columns);
void table_free(struct table *t);
DEFINE_FREEP(struct table, table_free)

/* n_columns cells, copied and escaped; NULL and "" show as "-". */
int table_add_row(struct table *t, const char *const *cells);

/* A text below the row added last, indented. */
int table_add_note(struct table *t, const char *text);

/* The colour of one cell of the row added last: the parameters of the escape sequence SGR, kept,
 * not copied. NULL: none. The caller knows that the output is a terminal that shows colours. */
void table_set_colour(struct table *t, size_t column, const char *sgr);

/* Heads first; no blanks at the ends of lines. A table without rows prints nothing. */
void table_print(const struct table *t, FILE *f);
