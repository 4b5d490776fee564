#include "common/util/suffix.h"

#include <ctype.h>
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
	{ ".tlz4",      SUFFIX_TAR,    true },
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

static bool is_separator(char c)
{
	return c == '.' || c == '_' || c == '-';
}

/* Returns the length of the suffix that split(1) adds to a part: two or three letters, from aa on,
 * or digits. Suffixes of two and three letters with another meaning (.md, .asc) begin with other
 * letters. */
static size_t get_part_end(const char *name, size_t n)
{
	size_t digits = 0, letters = 0;

	while (digits < n && isdigit((unsigned char)name[n - 1 - digits]))
		digits++;
	if (digits > 0)
		return digits >= 2 && digits <= 5 ? digits : 0;
	while (letters < 3 && letters < n && islower((unsigned char)name[n - 1 - letters]))
		letters++;
	if (letters == 3 && !strncmp(name + n - 3, "aa", 2))
		return 3;
	return letters >= 2 && name[n - 2] >= 'a' && name[n - 2] <= 'f' ? 2 : 0;
}

size_t suffix_find_part(const char *name, char pattern[static SUFFIX_PATTERN_SIZE])
{
	size_t n = strlen(name), end = get_part_end(name, n), whole = n - end, at;

	if (!end || suffix_find(name, n))
		return 0;
	if (whole > 5 && is_separator(name[whole - 1]) && !strncmp(name + whole - 5, "part", 4))
		whole--;
	if (whole > 4 && !strncmp(name + whole - 4, "part", 4))
		whole -= 4;
	if (whole > 1 && is_separator(name[whole - 1]))
		whole--;
	if (!suffix_find(name, whole))
		return 0;
	at = n - end - whole;
	memcpy(pattern, name + whole, at);
	for (size_t i = n - end; i < n; i++, at += 5)
		memcpy(pattern + at, isdigit((unsigned char)name[i]) ? "[0-9]" : "[a-z]", 5);
	pattern[at] = '\0';
	return whole;
}
