/*
 * A name is decoded like by Python's zipfile and Info-ZIP's unzip, in this order: as UTF-8 if the
 * entry says so; by the extra field of Info-ZIP, which has the name in UTF-8, if its checksum is
 * that of this name; from code page 437 if the entry was made on DOS; without a change if it was
 * made on Unix. A name with both kinds of slashes is not changed, like by unzip.
 */
#include "daemon/engines/archive/zip-entry-name.h"

#include <string.h>

#include "common/util/le.h"

#define FLAG_UTF8 0x0800u
#define EXTRA_UNICODE_PATH 0x7075u
#define SYSTEM_DOS 0
#define SYSTEM_HPFS 6
#define SYSTEM_NTFS 11
#define VERSION_PKZIP 50 /* on NTFS, this version writes names as on DOS */

static const uint16_t cp437[128] = {
	0x00c7, 0x00fc, 0x00e9, 0x00e2, 0x00e4, 0x00e0, 0x00e5, 0x00e7, 0x00ea, 0x00eb, 0x00e8,
	0x00ef, 0x00ee, 0x00ec, 0x00c4, 0x00c5, 0x00c9, 0x00e6, 0x00c6, 0x00f4, 0x00f6, 0x00f2,
	0x00fb, 0x00f9, 0x00ff, 0x00d6, 0x00dc, 0x00a2, 0x00a3, 0x00a5, 0x20a7, 0x0192, 0x00e1,
	0x00ed, 0x00f3, 0x00fa, 0x00f1, 0x00d1, 0x00aa, 0x00ba, 0x00bf, 0x2310, 0x00ac, 0x00bd,
	0x00bc, 0x00a1, 0x00ab, 0x00bb, 0x2591, 0x2592, 0x2593, 0x2502, 0x2524, 0x2561, 0x2562,
	0x2556, 0x2555, 0x2563, 0x2551, 0x2557, 0x255d, 0x255c, 0x255b, 0x2510, 0x2514, 0x2534,
	0x252c, 0x251c, 0x2500, 0x253c, 0x255e, 0x255f, 0x255a, 0x2554, 0x2569, 0x2566, 0x2560,
	0x2550, 0x256c, 0x2567, 0x2568, 0x2564, 0x2565, 0x2559, 0x2558, 0x2552, 0x2553, 0x256b,
	0x256a, 0x2518, 0x250c, 0x2588, 0x2584, 0x258c, 0x2590, 0x2580, 0x03b1, 0x00df, 0x0393,
	0x03c0, 0x03a3, 0x03c3, 0x00b5, 0x03c4, 0x03a6, 0x0398, 0x03a9, 0x03b4, 0x221e, 0x03c6,
	0x03b5, 0x2229, 0x2261, 0x00b1, 0x2265, 0x2264, 0x2320, 0x2321, 0x00f7, 0x2248, 0x00b0,
	0x2219, 0x00b7, 0x221a, 0x207f, 0x00b2, 0x25a0, 0x00a0,
};

static uint32_t crc32_of(const unsigned char *p, size_t n)
{
	uint32_t crc = ~0u;

	for (; n > 0; n--, p++) {
		crc ^= *p;
		for (int i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return ~crc;
}

static size_t put_utf8(char *to, unsigned c)
{
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	to[0] = (char)(0xe0 | c >> 12);
	to[1] = (char)(0x80 | (c >> 6 & 0x3f));
	to[2] = (char)(0x80 | (c & 0x3f));
	return 3;
}

static size_t put_cp437(char *to, const unsigned char *name, size_t n)
{
	size_t size = 0;

	for (size_t i = 0; i < n; i++)
		size += put_utf8(to + size, name[i] < 128 ? name[i] : cp437[name[i] - 128]);
	return size;
}

/* Returns the name in Info-ZIP's extra field, of *np bytes. NULL: there is none, or it belongs to
 * another name. A field without a name says that the entry's own name is UTF-8. */
static const unsigned char *find_unicode_path(const struct zip_entry_name *t, size_t *np)
{
	const unsigned char *p = t->extra, *end = t->extra + t->n_extra, *field;
	size_t n;

	while (end - p >= 4 && (size_t)(end - p) - 4 >= le_u16(p + 2)) {
		field = p + 4;
		n = le_u16(p + 2);
		p = field + n;
		if (le_u16(field - 4) != EXTRA_UNICODE_PATH || n < 5 || field[0] != 1 ||
		    le_u32(field + 1) != crc32_of(t->name, t->n_name))
			continue;
		*np = n > 5 ? n - 5 : t->n_name;
		return n > 5 ? field + 5 : t->name;
	}
	return NULL;
}

static bool is_of_dos(const struct zip_entry_name *t)
{
	return t->system == SYSTEM_DOS || t->system == SYSTEM_HPFS ||
	       (t->system == SYSTEM_NTFS && t->version == VERSION_PKZIP);
}

size_t zip_entry_name_read(const struct zip_entry_name *t, char *to)
{
	const unsigned char *unicode;
	size_t n = t->n_name;

	unicode = find_unicode_path(t, &n);
	if (!unicode && !(t->flags & FLAG_UTF8) && is_of_dos(t)) {
		n = put_cp437(to, t->name, n);
	} else if (unicode) {
		memcpy(to, unicode, n);
	} else {
		memcpy(to, t->name, n);
	}
	to[n] = '\0';
	n = strlen(to);
	if (t->system == SYSTEM_DOS && !strchr(to, '/')) {
		for (char *p = to; (p = strchr(p, '\\')); p++)
			*p = '/';
	}
	return n;
}
