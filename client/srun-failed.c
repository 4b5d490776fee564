#include "client/srun-failed.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/cleanup.h"

#define MAX_NAMES 8 /* of one reason */
#define MAX_REASONS 3
#define REST_SIZE 40 /* "; 4294967295 more nodes failed" */

void srun_failed_add(struct srun_failed *f, const char *node, const char *text)
{
	struct srun_failed_node *nodes = reallocarray(f->nodes, f->n_nodes + 1, sizeof(*nodes));
	struct srun_failed_node *n;

	if (!nodes)
		return;
	f->nodes = nodes;
	n = &nodes[f->n_nodes];
	*n = (struct srun_failed_node){ strdup(node), strdup(text) };
	if (n->node && n->text) {
		f->n_nodes++;
		return;
	}
	free(n->node);
	free(n->text);
}

void srun_failed_deinit(struct srun_failed *f)
{
	for (size_t i = 0; i < f->n_nodes; i++) {
		free(f->nodes[i].node);
		free(f->nodes[i].text);
	}
	free(f->nodes);
	*f = (struct srun_failed){ 0 };
}

static int compare_names(const void *a, const void *b)
{
	return strverscmp(*(const char *const *)a, *(const char *const *)b);
}

/* Is it the first of its reason? */
static bool is_first(const struct srun_failed *f, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (!strcmp(f->nodes[k].text, f->nodes[i].text))
			return false;
	return true;
}

/* All nodes with the reason of this one. Returns how many; 0: there was no memory. */
static size_t print_reason(const struct srun_failed *f, size_t first, FILE *out)
{
	const char *text = f->nodes[first].text;
	_cleanup_(freep) const char **names = calloc(f->n_nodes, sizeof(*names));
	size_t n = 0;

	if (!names)
		return 0;
	for (size_t i = first; i < f->n_nodes; i++)
		if (!strcmp(f->nodes[i].text, text))
			names[n++] = f->nodes[i].node;
	qsort(names, n, sizeof(*names), compare_names);
	for (size_t i = 0; i < n && i < MAX_NAMES; i++)
		fprintf(out, "%s%s", i > 0 ? ", " : "", names[i]);
	if (n > MAX_NAMES)
		fprintf(out, " and %zu more", n - MAX_NAMES);
	fprintf(out, ": %s", text);
	return n;
}

char *srun_failed_print(const struct srun_failed *f, char *buf, size_t size)
{
	size_t used = 0, n_told = 0, n_reasons = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < f->n_nodes && n_reasons < MAX_REASONS; i++) {
		_cleanup_(freep) char *part = NULL;
		size_t length = 0, n = 0;
		FILE *out;

		if (!is_first(f, i))
			continue;
		out = open_memstream(&part, &length);
		if (!out)
			break;
		n = print_reason(f, i, out);
		if (fclose(out) != 0 || n == 0)
			break;
		/* the first reason may be cut, the others are there as a whole or not at all */
		if (n_reasons > 0 && used + length + 2 + REST_SIZE >= size)
			break;
		used += (size_t)snprintf(buf + used, size - used, "%s%s", n_reasons > 0 ? "; " : "",
					 part);
		if (used >= size)
			return buf;
		n_told += n;
		n_reasons++;
	}
	if (n_told < f->n_nodes && used + REST_SIZE < size)
		snprintf(buf + used, size - used, "; %zu more nodes failed", f->n_nodes - n_told);
	return buf;
}
