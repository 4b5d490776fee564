#include "common/util/number.h"

#include <errno.h>

int parse_uint64(const char *s, uint64_t *valuep)
{
	uint64_t v = 0;

	if (!*s)
		return -EINVAL;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return -EINVAL;
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
			return -ERANGE;
	}
	*valuep = v;
	return 0;
}

int parse_uint32(const char *s, uint32_t *valuep)
{
	uint64_t v = 0;
	int r = parse_uint64(s, &v);

	if (r < 0 || v > UINT32_MAX)
		return r < 0 ? r : -ERANGE;
	*valuep = (uint32_t)v;
	return 0;
}
