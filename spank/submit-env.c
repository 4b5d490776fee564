#include "spank/submit-env.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/dataset/dataset.h"
#include "common/protocol/rundir.h"
#include "common/util/cleanup.h"

#define MAX_VALUE (sizeof(RUNDIR_NOT_STAGED) + DATASET_NAME_SIZE + 8)

static int set_names(const struct dataset_list *list)
{
	_cleanup_(freep) char *names = calloc(list->n_items + 1, DATASET_NAME_SIZE + 1);
	char *end = names;

	if (!names)
		return -ENOMEM;
	for (size_t i = 0; i < list->n_items; i++)
		end += sprintf(end, "%s%s", i ? " " : "", list->items[i].name);
	return setenv("STAGE_DATA_NAMES", names, 1) < 0 ? -ENOMEM : 0;
}

static int set_path(const struct dataset *d, const char *prefix, const char *file)
{
	char name[DATASET_NAME_SIZE + 32], value[MAX_VALUE];

	dataset_env_name(d, prefix, name, sizeof(name));
	snprintf(value, sizeof(value), "%s/%s%s", RUNDIR_NOT_STAGED, file, d->name);
	return setenv(name, value, 1) < 0 ? -ENOMEM : 0;
}

int submit_env_set(const struct dataset_list *list)
{
	int r = set_names(list);

	if (r == 0 && setenv("STAGE_DATA_DIR", RUNDIR_NOT_STAGED, 1) < 0)
		r = -ENOMEM;
	for (size_t i = 0; i < list->n_items && r == 0; i++) {
		r = set_path(&list->items[i], "STAGE_DATA_PATH_", "");
		if (r == 0 && list->items[i].is_set)
			r = set_path(&list->items[i], "STAGE_DATA_LIST_", "list.");
	}
	return r;
}
