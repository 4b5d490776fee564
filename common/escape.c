#include "common/escape.h"

#include <stdio.h>
#include <string.h>

/* Length of the valid UTF-8 sequence at s (RFC 3629: no overlong forms, no surrogates), or 0. */
static size_t utf8_length(const unsigned char *s, size_t n)
{
	size_t len, i;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		len = 2;
	else if ((s[0] & 0xf0) == 0xe0)
		len = 3;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		len = 4;
	else
		return 0;
	if (len > n)
		return 0;
	for (i = 1; i < len; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return len;
}

static bool is_control(const unsigned char *s, size_t len)
{
	if (len == 1)
		return s[0] < 0x20 || s[0] == 0x7f;
	if (len == 2 && s[0] == 0xc2)
		return s[1] < 0xa0; /* C1 */
	/* U+200E, U+200F, U+202A..U+202E, U+2066..U+2069: they reorder what a terminal shows */
	if (len == 3 && s[0] == 0xe2 && s[1] == 0x80)
		return s[2] == 0x8e || s[2] == 0x8f || (s[2] >= 0xaa && s[2] <= 0xae);
	if (len == 3 && s[0] == 0xe2 && s[1] == 0x81)
		return s[2] >= 0xa6 && s[2] <= 0xa9;
	return false;
}

size_t text_escape(char *dst, size_t dst_size, const void *src, size_t src_size)
{
	const unsigned char *s = src;
	size_t n = 0, len;

	while (src_size > 0) {
		len = utf8_length(s, src_size);
		if (len > 0 && !is_control(s, len)) {
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

	while (i < size) {
		len = utf8_length(s + i, size - i);
		if (len == 0 || is_control(s + i, len)) {
			if (badp)
				*badp = i;
			return false;
		}
		i += len;
	}
	return true;
}
