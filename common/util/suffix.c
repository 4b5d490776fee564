#include "common/util/suffix.h"

#include <string.h>
#include <strings.h>

/* clang-format off */
const struct suffix suffixes[] = {
	{ ".tar",       SUFFIX_TAR,    false },
	{ ".tar.gz",    SUFFIX_TAR,    true },
	{ ".tar.gzip",  SUFFIX_TAR,    true },
	{ ".tgz",       SUFFIX_TAR,    true },
	{ ".tar.Z",     SUFFIX_TAR,    true },
	{ ".taz",       SUFFIX_TAR,    true },
	{ ".tar.zst",   SUFFIX_TAR,    true },
	{ ".tar.zstd",  SUFFIX_TAR,    true },
	{ ".tzst",      SUFFIX_TAR,    true },
	{ ".tar.xz",    SUFFIX_TAR,    true },
	{ ".txz",       SUFFIX_TAR,    true },
	{ ".tar.bz2",   SUFFIX_TAR,    true },
	{ ".tar.bzip2", SUFFIX_TAR,    true },
	{ ".tbz2",      SUFFIX_TAR,    true },
	{ ".tbz",       SUFFIX_TAR,    true },
	{ ".tb2",       SUFFIX_TAR,    true },
	{ ".tz2",       SUFFIX_TAR,    true },
	{ ".tar.lz4",   SUFFIX_TAR,    true },
	{ ".tar.lzma",  SUFFIX_TAR,    true },
	{ ".tar.lz",    SUFFIX_TAR,    true },
	{ ".tar.lzip",  SUFFIX_TAR,    true },
	{ ".tlz",       SUFFIX_TAR,    true },
	{ ".tar.lzo",   SUFFIX_TAR,    true },
	{ ".tzo",       SUFFIX_TAR,    true },
	{ ".zip",       SUFFIX_ZIP,    false },
	{ ".sqsh",      SUFFIX_IMAGE,  false },
	{ ".sqfs",      SUFFIX_IMAGE,  false },
	{ ".squashfs",  SUFFIX_IMAGE,  false },
	{ ".squash",    SUFFIX_IMAGE,  false },
	{ ".sfs",       SUFFIX_IMAGE,  false },
	{ ".gz",        SUFFIX_STREAM, true },
	{ ".Z",         SUFFIX_STREAM, true },
	{ ".zst",       SUFFIX_STREAM, true },
	{ ".xz",        SUFFIX_STREAM, true },
	{ ".bz2",       SUFFIX_STREAM, true },
	{ ".lz4",       SUFFIX_STREAM, true },
	{ ".lzma",      SUFFIX_STREAM, true },
	{ ".lz",        SUFFIX_STREAM, true },
	{ ".lzo",       SUFFIX_STREAM, true },
	{ ".br",        SUFFIX_STREAM, true },
	{ NULL,         SUFFIX_STREAM, false },
};
/* clang-format on */

const struct suffix *suffix_find(const char *name, size_t n)
{
	const struct suffix *found = NULL;
	size_t longest = 0;

	for (const struct suffix *s = suffixes; s->text; s++) {
		size_t m = strlen(s->text);

		if (m <= longest || n <= m || strncasecmp(name + n - m, s->text, m))
			continue;
		longest = m;
		found = s;
	}
	return found;
}
