#include "daemon/worker/stager.h"

#include <stddef.h>

/* The first one that accepts a source is used. stager_fetch is before stager_copy, which does not
 * read from the web. */
/* clang-format off */
static const struct stager *const stagers[] = {
	&stager_fetch,
	&stager_copy,
	&stager_link,
	&stager_extract,
#if WITH_SQUASHFS
	&stager_squashfs,
#endif
};
/* clang-format on */

const struct stager *stager_find(enum dataset_method method, const struct facts *facts)
{
	for (size_t i = 0; i < sizeof(stagers) / sizeof(*stagers); i++) {
		if (stagers[i]->accepts(method, facts))
			return stagers[i];
	}
	return NULL;
}

bool stager_has_images(void)
{
	return WITH_SQUASHFS;
}
