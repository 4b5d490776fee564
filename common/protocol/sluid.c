#include "common/protocol/sluid.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/util/cleanup.h"

bool sluid_is_valid(const char *text)
{
	return text[0] == 's' && strlen(text) == SLUID_SIZE - 1 &&
	       strspn(text + 1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == SLUID_SIZE - 2;
}

const char *sluid_read_own(char *buf)
{
	_cleanup_(file_closep) FILE *f = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX];
	const char *scope;

	while (f && fgets(line, sizeof(line), f)) {
		scope = strstr(line, "slurmstepd.scope/s");
		if (scope && sscanf(scope, "slurmstepd.scope/%14[^/\n]", buf) == 1 &&
		    sluid_is_valid(buf))
			return buf;
	}
	return NULL;
}
