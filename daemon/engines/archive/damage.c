/*
 * The text of a library's error decides: an archive that ends too early is incomplete, any other
 * one is damaged.
 */
#include "daemon/engines/archive/damage.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util/error.h"
#include "common/util/parse.h"
#include "daemon/engines/archive/untar-reader.h"

int damage_set_error(struct error *err, int r, const char *what, uint64_t size)
{
	char how[ERROR_MAX_SIZE / 2], text[PARSE_SIZE_TEXT];
	const char *more = "";

	if (r != -ENODATA && r != -EBADMSG)
		return r;
	snprintf(how, sizeof(how), "%.500s", err ? err->text : "");
	if (strstr(how, UNTAR_NO_END))
		more = ", or take it as it is by verify=none";
	else if (r == -EBADMSG && (strstr(how, DAMAGE_ZIP_LIST) || strstr(how, DAMAGE_ZIP_SIZE)))
		more = ", or extract what unzip can read, and make it again by zip -r";
	if (r == -EBADMSG)
		error_set(err, EILSEQ, "%.400s is damaged (%s)", what, how);
	else if (size)
		error_set(err, EILSEQ, "%.400s is cut off after %s (%s)", what,
			  size_to_string(size, text), how);
	else
		error_set(err, EILSEQ, "%.400s is cut off (%s)", what, how);
	return error_set_hint(err, -EILSEQ, "%s%s", DAMAGE_HINT, more);
}

int damage_add_member(struct error *err, int r, const char *last)
{
	char how[ERROR_MAX_SIZE / 2];

	if (!err || !last || (r != -ENODATA && r != -EBADMSG))
		return r;
	snprintf(how, sizeof(how), "%.500s", err->text);
	return error_set(err, -r, "%s, last member %s", how, last);
}
