#include "spank/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/util/error.h"
#include "spank/slurm-compat.h"

#define MAX_TEXT (ERROR_MAX_SIZE + 512)

void say_refuse(const char *fmt, ...)
{
	char text[MAX_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	slurm_error("stage-data: %s", text);
	exit(1);
}

void say_warn(const char *fmt, ...)
{
	char text[MAX_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	slurm_spank_log("stage-data: warning: %s", text);
}
