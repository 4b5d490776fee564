#include "client/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/parse.h"

struct row {
	char *cells[TABLE_MAX_COLUMNS]; /* for a note, the text is in cells[0] and the others are
					 * NULL */
	bool note;
	size_t colour_column;
	const char *sgr; /* NULL: no colour */
};

struct table {
	const struct table_column *columns;
	size_t n_columns;
	struct row *rows;
	size_t n_rows;
};

int table_new(struct table **tp, const struct table_column *columns, size_t n_columns)
{
	struct table *t;

	if (n_columns > TABLE_MAX_COLUMNS)
		return -EINVAL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->columns = columns;
	t->n_columns = n_columns;
	*tp = t;
	return 0;
}

void table_free(struct table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n_rows; i++)
		for (size_t c = 0; c < TABLE_MAX_COLUMNS; c++)
			free(t->rows[i].cells[c]);
	free(t->rows);
	free(t);
}

static char *escape_dup(const char *text)
{
	size_t size = strlen(text);
	char *buf = malloc(4 * size + 8);

	if (buf)
		text_escape(buf, 4 * size + 8, text, size);
	return buf;
}

static int table_add_cells(struct table *t, const char *const *cells, size_t n_cells, bool note)
{
	struct row *rows = realloc(t->rows, (t->n_rows + 1) * sizeof(*rows));
	struct row *row;

	if (!rows)
		return -ENOMEM;
	t->rows = rows;
	row = &rows[t->n_rows++];
	*row = (struct row){ .note = note };
	for (size_t c = 0; c < n_cells; c++) {
		row->cells[c] = escape_dup(cells[c] && cells[c][0] ? cells[c] : "-");
		if (!row->cells[c])
			return -ENOMEM;
	}
	return 0;
}

int table_add_row(struct table *t, const char *const *cells)
{
	return table_add_cells(t, cells, t->n_columns, false);
}

int table_add_note(struct table *t, const char *text)
{
	return table_add_cells(t, &text, 1, true);
}

void table_set_colour(struct table *t, size_t column, const char *sgr)
{
	t->rows[t->n_rows - 1].colour_column = column;
	t->rows[t->n_rows - 1].sgr = sgr;
}

/* Counts characters and not bytes, because names and paths are UTF-8. */
static size_t text_width(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static size_t column_width(const struct table *t, size_t c)
{
	size_t width = text_width(t->columns[c].head), w;

	for (size_t i = 0; i < t->n_rows; i++) {
		if (t->rows[i].note)
			continue;
		w = text_width(t->rows[i].cells[c]);
		if (w > width)
			width = w;
	}
	return width;
}

static void print_cell(const struct table *t, size_t c, const char *text, size_t width, FILE *f)
{
	size_t pad = width - text_width(text);

	if (t->columns[c].right)
		fprintf(f, "%*s%s", (int)pad, "", text);
	else if (c + 1 < t->n_columns)
		fprintf(f, "%s%*s", text, (int)pad, "");
	else
		fputs(text, f);
}

static void end_cell(const struct table *t, size_t c, FILE *f)
{
	fputs(c + 1 < t->n_columns ? "  " : "\n", f);
}

static void print_row(const struct table *t, const struct row *row, const size_t *widths, FILE *f)
{
	for (size_t c = 0; c < t->n_columns; c++) {
		bool colour = row->sgr && c == row->colour_column;

		if (colour)
			fprintf(f, "\033[%sm", row->sgr);
		print_cell(t, c, row->cells[c], widths[c], f);
		if (colour)
			fputs("\033[0m", f);
		end_cell(t, c, f);
	}
}

void table_print(const struct table *t, FILE *f)
{
	size_t widths[TABLE_MAX_COLUMNS];

	if (t->n_rows == 0)
		return;
	for (size_t c = 0; c < t->n_columns; c++)
		widths[c] = column_width(t, c);
	for (size_t c = 0; c < t->n_columns; c++) {
		print_cell(t, c, t->columns[c].head, widths[c], f);
		end_cell(t, c, f);
	}
	for (size_t i = 0; i < t->n_rows; i++) {
		if (t->rows[i].note)
			fprintf(f, "    %s\n", t->rows[i].cells[0]);
		else
			print_row(t, &t->rows[i], widths, f);
	}
}
