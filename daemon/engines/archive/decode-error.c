#include "daemon/engines/archive/decode-error.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/sandbox/data-rlimit.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/strutil.h"
#include "daemon/engines/archive/damage.h"

/* Returns true if the text says that the input ends too early. libarchive has the same code for
 * this and for damage. */
static bool is_cut_off(const char *text)
{
	static const char *const words[] = { "truncated", "premature", "unexpected end",
					     "incomplete", "no progress" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		for (const char *s = text; *s; s++) {
			if (strutil_begin(s, words[i]))
				return true;
		}
	}
	return false;
}

/* libarchive itself needs little memory, so the header has asked for a large dictionary. */
static int refuse_size(struct error *err)
{
	error_set(err, ENOMEM, "unpacking it needs more than %u MiB of memory, or than there is",
		  DATA_RLIMIT_MIB);
	return error_set_hint(err, -ENOMEM,
			      "pack it again with a smaller dictionary (xz -9 has 64 MiB)");
}

/* libarchive has one text for a dictionary that is too large and for a damaged header. */
static int refuse_lzma(struct error *err)
{
	error_set(err, EINVAL,
		  "the lzma header of a member is damaged, or asks for more than %u MiB of memory",
		  DATA_RLIMIT_MIB);
	return error_set_hint(err, -EINVAL,
			      "unpack it elsewhere (7z x) and make it again by zip -r; if 7z "
			      "finds errors, copy it again");
}

/* method: such as "(9: deflation-64-bit)", or NULL */
static int refuse_method(const char *method, struct error *err)
{
	error_set(err, EINVAL, "the zip is packed by a method that can't be unpacked here %s",
		  method ? method : "");
	return error_set_hint(err, -EINVAL,
			      "unpack it elsewhere (unzip, or 7z x for rare methods) and make "
			      "it again by zip -r");
}

/* libarchive's limit is 1 MiB. Names cannot be so long, so this is an attribute or a comment. */
static int refuse_special_header(struct error *err)
{
	error_set(err, EINVAL, "the attributes of a member are larger than 1 MiB");
	return error_set_hint(err, -EINVAL, "pack it again without them (tar without --xattrs)");
}

/* text: "... (read 1000, expected 10)" and a line end */
static int refuse_wrong_size(const char *text, struct error *err)
{
	unsigned long long n = 0, said = 0;
	const char *numbers = strstr(text, "(read ");

	if (numbers)
		sscanf(numbers, "(read %llu, expected %llu", &n, &said);
	return error_set(err, EBADMSG, "a file is %s " DAMAGE_ZIP_SIZE ": %llu of %llu bytes",
			 n < said ? "shorter" : "longer", n, said);
}

int decode_error_set(int e, const char *text, struct error *err)
{
	if (e == ENOMEM)
		return refuse_size(err);
	if (!text)
		return error_set(err, EBADMSG, "no sound archive");
	if (strstr(text, "Unsupported ZIP compression method"))
		return refuse_method(strchr(text, '('), err);
	if (!strcmp(text, "lzma stream initialization error"))
		return refuse_lzma(err);
	if (strstr(text, "compressed data is wrong size"))
		return refuse_wrong_size(text, err);
	if (!strcmp(text, "Special header too large"))
		return refuse_special_header(err);
	/* The text is inside a sentence, so it begins in lower case, except for "ZIP". Some texts
	 * have a line end. */
	return error_set(err, is_cut_off(text) ? ENODATA : EBADMSG, "%c%.*s",
			 text[0] && strutil_lower(text[1]) == text[1] ? strutil_lower(text[0])
								      : text[0],
			 text[0] ? (int)strcspn(text + 1, "\n") : 0, text[0] ? text + 1 : "");
}
