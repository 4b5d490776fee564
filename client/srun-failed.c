#include "client/srun-failed.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/output.h"
#include "common/util/cleanup.h"
#include "common/util/count.h"

#define MAX_REASONS 3

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

/* Returns whether no earlier node has the same reason. */
static bool is_first(const struct srun_failed *f, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (!strcmp(f->nodes[k].text, f->nodes[i].text))
			return false;
	return true;
}

/* Prints the line for all nodes with this node's reason. Returns their number; 0: no memory. */
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
	output_names(out, names, n);
	fprintf(out, ": %s\n", text);
	return n;
}

char *srun_failed_to_lines(const struct srun_failed *f)
{
	char *lines = NULL;
	size_t size = 0, n_told = 0, n_reasons = 0;
	FILE *out = open_memstream(&lines, &size);

	if (!out)
		return NULL;
	for (size_t i = 0; i < f->n_nodes && n_reasons < MAX_REASONS; i++) {
		if (!is_first(f, i))
			continue;
		n_told += print_reason(f, i, out);
		n_reasons++;
	}
	if (n_told < f->n_nodes)
		fprintf(out, "%zu more %s\n", f->n_nodes - n_told,
			count_word(f->n_nodes - n_told, "node failed for another reason",
				   "nodes failed for other reasons"));
	if (fclose(out) == 0)
		return lines;
	free(lines);
	return NULL;
}
