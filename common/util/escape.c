#include "common/util/escape.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Returns the length of the valid UTF-8 sequence at s (RFC 3629: no overlong forms, no surrogates),
 * or 0. */
static size_t decode(const unsigned char *s, size_t n, uint32_t *cp)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const size_t len = s[0] < 0x80	 ? 1
			   : s[0] < 0xc0 ? 0
			   : s[0] < 0xe0 ? 2
			   : s[0] < 0xf0 ? 3
			   : s[0] < 0xf8 ? 4
					 : 0;

	if (len == 0 || len > n)
		return 0;
	*cp = s[0] & (len == 1 ? 0x7fU : 0x7fU >> len);
	for (size_t i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		*cp = *cp << 6 | (s[i] & 0x3fU);
	}
	return *cp < least[len] || *cp > 0x10ffff || (*cp >= 0xd800 && *cp < 0xe000) ? 0 : len;
}

/* Returns whether cp is in C0 or C1, DEL, a line separator, or in Unicode's Bidi_Control, which
 * changes the order of text on a terminal. */
static bool is_control(uint32_t cp)
{
	return cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || cp == 0x61c || cp == 0x200e ||
	       cp == 0x200f || (cp >= 0x2028 && cp <= 0x202e) || (cp >= 0x2066 && cp <= 0x2069);
}

size_t text_escape(char *dst, size_t dst_size, const void *src, size_t src_size)
{
	const unsigned char *s = src;
	size_t n = 0, len;
	uint32_t cp;

	while (src_size > 0) {
		len = decode(s, src_size, &cp);
		if (len > 0 && !is_control(cp)) {
			if (n + len >= dst_size)
				break;
			memcpy(dst + n, s, len);
			n += len;
		} else {
			if (n + 4 >= dst_size)
				break;
			snprintf(dst + n, 5, "\\x%02x", s[0]);
			n += 4;
			len = 1;
		}
		s += len;
		src_size -= len;
	}
	dst[n] = '\0';
	return n;
}

bool text_is_clean(const void *src, size_t size, size_t *badp)
{
	const unsigned char *s = src;
	size_t i = 0, len;
	uint32_t cp;

	while (i < size) {
		len = decode(s + i, size - i, &cp);
		if (len == 0 || is_control(cp)) {
			if (badp)
				*badp = i;
			return false;
		}
		i += len;
	}
	return true;
}
