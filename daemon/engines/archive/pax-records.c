#include "daemon/engines/archive/pax-records.h"

#include <string.h>

#define MAX_TIME (1LL << 40)
#define NS_PER_SECOND 1000000000L

bool pax_read_digits(const char *s, size_t n, uint64_t *vp)
{
	uint64_t v = 0;

	if (n == 0 || n > 18)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return false;
		v = v * 10 + (uint64_t)(s[i] - '0');
	}
	*vp = v;
	return true;
}

bool pax_read_time(const char *s, size_t n, int64_t *secp, long *nsp)
{
	bool negative = n > 0 && *s == '-', more = false;
	const char *dot = memchr(s, '.', n);
	size_t whole = (dot ? (size_t)(dot - s) : n) - negative;
	size_t rest = dot ? n - negative - whole - 1 : 0;
	uint64_t sec, ns = 0;

	if (!pax_read_digits(s + negative, whole, &sec) || sec > MAX_TIME)
		return false;
	if (rest > 9) {
		if (strspn(dot + 1, "0123456789") < rest)
			return false;
		more = strspn(dot + 10, "0") < rest - 9;
		rest = 9;
	}
	if (dot && !pax_read_digits(dot + 1, rest, &ns))
		return false;
	for (; rest < 9; rest++)
		ns *= 10;
	*secp = negative ? -(int64_t)sec : (int64_t)sec;
	*nsp = (long)ns;
	if (negative && (ns > 0 || more)) { /* the nanoseconds always count forward */
		--*secp;
		*nsp = NS_PER_SECOND - (long)ns - more;
	}
	return true;
}

/* The number at the beginning of a record includes its own digits. */
bool pax_records_next(const char **datap, size_t *sizep, struct pax_record *rec)
{
	const char *data = *datap, *equals;
	const char *blank = memchr(data, ' ', *sizep < 8 ? *sizep : 8);
	size_t width = blank ? (size_t)(blank - data) : 0;
	uint64_t n;

	if (!blank || !pax_read_digits(data, width, &n) || n > *sizep || n < width + 4 ||
	    data[n - 1] != '\n')
		return false;
	equals = memchr(blank + 1, '=', n - width - 2);
	if (!equals || equals == blank + 1)
		return false;
	*rec = (struct pax_record){
		.key = blank + 1,
		.key_size = (size_t)(equals - blank - 1),
		.value = equals + 1,
		.value_size = (size_t)(data + n - 1 - equals - 1),
	};
	*datap += n;
	*sizep -= n;
	return true;
}

bool pax_record_is(const struct pax_record *rec, const char *key)
{
	return rec->key_size == strlen(key) && !memcmp(rec->key, key, rec->key_size);
}

bool pax_record_is_passed_over(const struct pax_record *rec)
{
	static const char *const names[] = {
		"atime",      "ctime",	      "uid",	       "gid",
		"uname",      "gname",	      "comment",       "SCHILY.dev",
		"SCHILY.ino", "SCHILY.nlink", "SCHILY.fflags", "LIBARCHIVE.creationtime"
	};
	static const char *const prefixes[] = { "SCHILY.xattr.", "LIBARCHIVE.xattr.", "SCHILY.acl.",
						"RHT.security." };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (pax_record_is(rec, names[i]))
			return true;
	}
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++) {
		size_t n = strlen(prefixes[i]);

		if (rec->key_size >= n && !memcmp(rec->key, prefixes[i], n))
			return true;
	}
	return false;
}
