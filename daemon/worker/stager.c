#include "daemon/worker/stager.h"

#include <stddef.h>

const struct stager *stager_find(enum dataset_method method, const struct facts *facts)
{
	for (size_t i = 0; stagers[i]; i++) {
		if (stagers[i]->accepts(method, facts))
			return stagers[i];
	}
	return NULL;
}
