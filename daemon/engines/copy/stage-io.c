#include "daemon/engines/copy/stage-io.h"

#include <errno.h>
#include <stdarg.h>

#include "common/util/error.h"

void stage_io_warn(struct stage_io *io, const char *fmt, ...)
{
	struct error text = ERROR_INIT;
	va_list ap;

	if (!io || !io->ops->warn)
		return;
	va_start(ap, fmt);
	error_setv(&text, EINVAL, fmt, ap); /* escapes the text and limits its length */
	va_end(ap);
	io->ops->warn(io, text.text);
}
