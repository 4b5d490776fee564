#include "common/util/parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Reads "digits[.digits]" and multiplies it by unit. Fractions are cut to six digits, which is
 * enough for "1.5G". */
static int read_scaled(const char *digits, const char *end, uint64_t unit, uint64_t *valuep)
{
	uint64_t whole = 0, frac = 0, scale = 1, a;
	bool point = false, any = false;

	for (; digits < end; digits++) {
		if (*digits == '.' && !point) {
			point = true;
			continue;
		}
		if (*digits < '0' || *digits > '9')
			return -EINVAL;
		any = true;
		if (!point) {
			if (__builtin_mul_overflow(whole, 10u, &whole) ||
			    __builtin_add_overflow(whole, (uint64_t)(*digits - '0'), &whole))
				return -ERANGE;
		} else if (scale < 1000000) {
			frac = frac * 10 + (uint64_t)(*digits - '0');
			scale *= 10;
		}
	}
	if (!any || end[-1] == '.')
		return -EINVAL;
	if (__builtin_mul_overflow(whole, unit, &a))
		return -ERANGE;
	if (frac && __builtin_add_overflow(a, (uint64_t)((__uint128_t)frac * unit / scale), &a))
		return -ERANGE;
	*valuep = a;
	return 0;
}

static const char *skip_number(const char *s)
{
	while (isdigit((unsigned char)*s) || *s == '.')
		s++;
	return s;
}

int parse_size(const char *s, uint64_t *bytesp)
{
	static const char *const units = "KMGT";
	const char *end = skip_number(s), *u;
	uint64_t unit = 1;

	if (*end) {
		u = strchr(units, toupper((unsigned char)*end));
		if (u)
			unit = 1ULL << (10 * (u - units + 1));
		if (strcasecmp(end + (u ? 1 : 0), "") && strcasecmp(end + (u ? 1 : 0), "B") &&
		    !(u && !strcasecmp(end + 1, "iB")))
			return -EINVAL;
	}
	return read_scaled(s, end, unit, bytesp);
}

int parse_slurm_memory(const char *s, uint64_t *bytesp)
{
	uint64_t bytes;
	int r;

	r = parse_size(s, &bytes);
	if (r < 0)
		return r;
	if (!s[strspn(s, "0123456789.")] && __builtin_mul_overflow(bytes, 1u << 20, &bytes))
		return -ERANGE;
	*bytesp = bytes;
	return 0;
}

int parse_duration(const char *s, uint64_t *msp)
{
	static const struct {
		const char *name;
		uint64_t ms;
	} units[] = {
		{ "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 },
	};
	uint64_t sum = 0, unit, v;
	size_t i, n;
	int r;

	if (!*s)
		return -EINVAL;
	while (*s) {
		const char *end = skip_number(s);

		unit = 1000;
		n = 0;
		for (i = 0; *end && i < sizeof(units) / sizeof(units[0]); i++) {
			n = strlen(units[i].name);
			if (!strncasecmp(end, units[i].name, n) &&
			    !isalpha((unsigned char)end[n])) {
				unit = units[i].ms;
				break;
			}
			n = 0;
		}
		if (*end && n == 0)
			return -EINVAL;
		r = read_scaled(s, end, unit, &v);
		if (r < 0)
			return r;
		if (__builtin_add_overflow(sum, v, &sum))
			return -ERANGE;
		s = end + n;
	}
	*msp = sum;
	return 0;
}

int parse_bool(const char *s, bool *valuep)
{
	static const struct {
		const char *text;
		bool value;
	} words[] = {
		{ "yes", true }, { "true", true },   { "on", true },   { "1", true },
		{ "no", false }, { "false", false }, { "off", false }, { "0", false },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcasecmp(s, words[i].text)) {
			*valuep = words[i].value;
			return 0;
		}
	return -EINVAL;
}

char *size_to_string(uint64_t bytes, char buf[static PARSE_SIZE_TEXT])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double v = (double)bytes;
	size_t u = 0;

	while (v >= 1023.95 && u < 6) {
		v /= 1024;
		u++;
	}
	if (u == 0)
		snprintf(buf, PARSE_SIZE_TEXT, "%u B", (unsigned)bytes);
	else
		snprintf(buf, PARSE_SIZE_TEXT, "%.*f %s", v < 99.95 ? 1 : 0, v, units[u]);
	return buf;
}

char *duration_to_string(uint64_t ms, char buf[static PARSE_DURATION_TEXT])
{
	uint64_t s = (ms + 500) / 1000;

	if (s >= 3600)
		snprintf(buf, PARSE_DURATION_TEXT, "%llu:%02u:%02u", (unsigned long long)(s / 3600),
			 (unsigned)(s / 60 % 60), (unsigned)(s % 60));
	else
		snprintf(buf, PARSE_DURATION_TEXT, "%u:%02u", (unsigned)(s / 60),
			 (unsigned)(s % 60));
	return buf;
}

char *duration_to_tenths(uint64_t ms, char buf[static PARSE_DURATION_TEXT])
{
	if (ms >= 9950)
		return duration_to_string(ms, buf);
	snprintf(buf, PARSE_DURATION_TEXT, "%.1f s", (double)ms / 1000);
	return buf;
}

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
