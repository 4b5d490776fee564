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

int error_exit(struct error *err, enum stage_exit exit_code, int errnum, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = error_setv(err, errnum, fmt, ap);
	va_end(ap);
	if (err)
		err->exit_code = exit_code;
	return r;
}

void error_prefix(struct error *err, const char *fmt, ...)
{
	char prefix[ERROR_MAX_SIZE], old[ERROR_MAX_SIZE];
	enum stage_exit exit_code;
	bool has_hint;
	va_list ap;

	if (!err)
		return;
	va_start(ap, fmt);
	if (vsnprintf(prefix, sizeof(prefix), fmt, ap) < 0)
		prefix[0] = '\0';
	va_end(ap);
	/* The old text is escaped already. Escaping it again changes nothing, because backslashes
	 * are not escaped. */
	memcpy(old, err->text, sizeof(old));
	exit_code = err->exit_code;
	has_hint = err->has_hint;
	error_set(err, -err->code, "%s: %s", prefix, old);
	err->exit_code = exit_code;
	err->has_hint = has_hint;
}

int error_set_hint(struct error *err, int r, const char *fmt, ...)
{
	char hint[ERROR_MAX_SIZE / 2], clean[ERROR_MAX_SIZE / 2];
	size_t n, room;
	va_list ap;

	if (!err || err->has_hint)
		return r;
	va_start(ap, fmt);
	if (vsnprintf(hint, sizeof(hint), fmt, ap) < 0)
		hint[0] = '\0';
	va_end(ap);
	n = text_escape(clean, sizeof(clean), hint, strlen(hint));
	room = sizeof(err->text) - n - sizeof("; ");
	if (strlen(err->text) > room)
		memcpy(err->text + room - 3, "...", sizeof("..."));
	strcat(strcat(err->text, "; "), clean);
	err->has_hint = true;
	return r;
}

enum stage_exit error_to_exit(const struct error *err)
{
	if (err->exit_code)
		return err->exit_code;
	switch (-err->code) {
	case 0:
		return STAGE_EXIT_OK;
	case ENOSPC:
	case EDQUOT:
	case ENOMEM:
		return STAGE_EXIT_NO_SPACE;
	case EPERM:
		return STAGE_EXIT_REFUSED;
	case ETIMEDOUT:
		return STAGE_EXIT_TIMEOUT;
	default:
		return STAGE_EXIT_FAILED;
	}
}
