#include "common/util/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util/escape.h"

int error_setv(struct error *err, int errnum, const char *fmt, va_list ap)
{
	char text[ERROR_MAX_SIZE];
	size_t n;

	if (!err)
		return -errnum;
	if (vsnprintf(text, sizeof(text), fmt, ap) < 0)
		text[0] = '\0';
	err->code = -errnum;
	err->has_hint = false;
	n = text_escape(err->text, sizeof(err->text), text, strlen(text));
	if (n == sizeof(err->text) - 1)
		memcpy(err->text + n - 3, "...", 3);
	return -errnum;
}

int error_set(struct error *err, int errnum, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = error_setv(err, errnum, fmt, ap);
	va_end(ap);
	if (err)
		err->exit_code = 0;
	return r;
}

int error_errno(struct error *err, int errnum, const char *fmt, ...)
{
	char text[ERROR_MAX_SIZE];
	va_list ap;

	va_start(ap, fmt);
	if (vsnprintf(text, sizeof(text), fmt, ap) < 0)
		text[0] = '\0';
	va_end(ap);
	return error_set(err, errnum, "%s: %s", text, strerror(errnum));
}
