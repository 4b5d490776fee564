#include "client/env-join.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/config/conf.h"
#include "common/util/cleanup.h"
#include "common/util/strutil.h"

static const char *const joined[] = {
	"APPTAINER_BIND",	"APPTAINER_BINDPATH",	  "SINGULARITY_BIND",
	"SINGULARITY_BINDPATH", "PYXIS_CONTAINER_MOUNTS",
};

static bool is_joined(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(joined); i++)
		if (!strcmp(name, joined[i]))
			return true;
	return false;
}

char *env_join(const char *name, const char *value)
{
	const char *old = is_joined(name) ? getenv(name) : NULL;

	if (!old || !*old)
		return strdup(value);
	if (!*value || conf_list_has(old, value))
		return strdup(old);
	return strutil_printf("%s,%s", old, value);
}
