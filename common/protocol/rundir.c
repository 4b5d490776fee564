#include "common/protocol/rundir.h"

#include <errno.h>
#include <stdio.h>

int rundir_path(char *buf, size_t size, uint32_t job_id, const char *name)
{
	int n = snprintf(buf, size, "%s/%u%s%s", STAGE_RUN_DIR, job_id, name ? "/" : "",
			 name ? name : "");

	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : n;
}
