#include "common/protocol/env-join.h"

#include <stdbool.h>
#include <string.h>

#include "common/util/cleanup.h"
#include "common/util/strutil.h"

static const char *const joined[] = {
	"APPTAINER_BIND",	"APPTAINER_BINDPATH",	  "SINGULARITY_BIND",
	"SINGULARITY_BINDPATH", "PYXIS_CONTAINER_MOUNTS",
};

bool env_join_is_list(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(joined); i++)
		if (!strcmp(name, joined[i]))
			return true;
	return false;
}

/* Returns whether mounts, which may be several, are in the list. An inner step inherits the batch
 * step's variables, so nothing is added twice. */
static bool has_mounts(const char *list, const char *mounts)
{
	size_t n = strlen(mounts);

	for (const char *p = list; n > 0 && (p = strstr(p, mounts)); p += n)
		if ((p == list || p[-1] == ',') && (!p[n] || p[n] == ','))
			return true;
	return n == 0;
}

char *env_join(const char *name, const char *old, const char *value)
{
	if (!env_join_is_list(name) || !old || !*old)
		return strdup(value);
	return has_mounts(old, value) ? strdup(old) : strutil_printf("%s,%s", old, value);
}
