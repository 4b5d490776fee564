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
	bool right; /* align to the right, for numbers */
};

/* columns is not copied and must outlive the table. */
int table_new(struct table **tp, const struct table_column *columns, size_t n_columns);
void table_free(struct table *t);
DEFINE_FREEP(struct table, table_free)

/* Adds a row of n_columns cells, which are copied and escaped. NULL and "" are printed as "-". */
int table_add_row(struct table *t, const char *const *cells);

/* Adds an indented text below the row that was added last. */
int table_add_note(struct table *t, const char *text);

/* Sets the colour of one cell of the row that was added last. sgr: parameters of the escape
 * sequence SGR, not copied; NULL: no colour. The caller makes sure that the output is a terminal
 * that shows colours. */
void table_set_colour(struct table *t, size_t column, const char *sgr);

/* Prints the heads, then the rows, without blanks at the ends of lines. Prints nothing if there are
 * no rows. */
void table_print(const struct table *t, FILE *f);
