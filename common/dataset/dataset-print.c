/*
 * The canonical form has only values that are not the default, so that equal items have equal
 * texts. An http address is never decoded, and so is never encoded: it cannot contain a plain
 * comma, or a colon after its host, because it would have been parsed differently.
 */
#include "common/dataset/dataset-internal.h"

#include <errno.h>
#include <string.h>

static void print(FILE *f, const struct dataset *d)
{
	char derived[DATASET_NAME_SIZE];
	bool has_dest = strcmp(d->dest, "auto") != 0;

	dataset_name_derive(d, derived);
	if (d->name_given || strcmp(d->name, derived))
		fprintf(f, "%s=", d->name);
	if (d->scheme == DATASET_SCHEME_CATALOG)
		fputc('@', f);
	else if (d->scheme == DATASET_SCHEME_LIST)
		fputs("@@", f);
	if (d->scheme == DATASET_SCHEME_HTTP) {
		fputs(d->source, f);
	} else if (d->scheme == DATASET_SCHEME_S3) {
		fputs("s3://", f);
		dataset_source_encode(f, d, d->source + 5);
	} else {
		dataset_source_encode(f, d, d->source);
	}
	if (has_dest) {
		fputc(':', f);
		dataset_encode(f, d->dest);
	}
	dataset_options_print(f, d, has_dest ? ":" : "::");
}

static int print_items(const struct dataset *items, size_t n_items, char **textp)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return -ENOMEM;
	for (size_t i = 0; i < n_items; i++) {
		if (i > 0)
			fputc(',', f);
		print(f, &items[i]);
	}
	if (n_items == 0)
		fputs("none", f);
	if (ferror(f) | fclose(f)) {
		free(text);
		return -ENOMEM;
	}
	*textp = text;
	return 0;
}

int dataset_to_string(const struct dataset *d, char **textp)
{
	return print_items(d, 1, textp);
}

int dataset_list_to_string(const struct dataset_list *list, char **textp)
{
	return print_items(list->items, list->n_items, textp);
}

char *dataset_show_source(const struct dataset *d, char *buf, size_t size)
{
	const char *mark = d->scheme == DATASET_SCHEME_CATALOG ? "@"
			   : d->scheme == DATASET_SCHEME_LIST  ? "@@"
							       : "";
	size_t n = strlen(mark);

	if (size <= n + 4) {
		if (size > 0)
			buf[0] = '\0';
		return buf;
	}
	memcpy(buf, mark, n + 1);
	dataset_show(d->source, buf + n, size - n);
	return buf;
}
