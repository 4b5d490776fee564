#include "daemon/slurm/node-names.h"

#include <errno.h>
#include <stdlib.h>

#include <slurm/slurm.h>

/* A pointer, whose type has a name of its own up to Slurm 23.02. */
typedef __typeof__(slurm_hostlist_create("")) names_t;

int node_names_find(const char *list, const char *node, uint32_t *indexp, uint32_t *n_nodesp)
{
	names_t names = slurm_hostlist_create(list);
	int index, n;

	if (!names)
		return -EINVAL;
	index = slurm_hostlist_find(names, node);
	n = slurm_hostlist_count(names);
	slurm_hostlist_destroy(names);
	if (index < 0 || n <= index)
		return -ENOENT;
	*indexp = (uint32_t)index;
	*n_nodesp = (uint32_t)n;
	return 0;
}

int node_names_print(const char *list, FILE *out)
{
	names_t names = slurm_hostlist_create(list);
	char *name;

	if (!names)
		return -EINVAL;
	while ((name = slurm_hostlist_shift(names))) {
		fprintf(out, "%s\n", name);
		free(name);
	}
	slurm_hostlist_destroy(names);
	return 0;
}
