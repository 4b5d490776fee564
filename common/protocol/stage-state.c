#include "common/protocol/stage-state.h"

#include <errno.h>
#include <string.h>

static const char *const names[STAGE_N_STATES] = {
	[STAGE_QUEUED] = "queued",   [STAGE_PROBING] = "probing",   [STAGE_PREPARING] = "preparing",
	[STAGE_STAGING] = "staging", [STAGE_READY] = "ready",	    [STAGE_RELEASING] = "releasing",
	[STAGE_UNDOING] = "undoing", [STAGE_RELEASED] = "released", [STAGE_FAILED] = "failed",
};

const char *stage_state_to_string(enum stage_state s)
{
	return (unsigned)s < STAGE_N_STATES ? names[s] : "unknown";
}

int stage_state_from_string(const char *s, enum stage_state *sp)
{
	for (int i = 0; i < STAGE_N_STATES; i++)
		if (!strcmp(s, names[i])) {
			*sp = (enum stage_state)i;
			return 0;
		}
	return -EINVAL;
}

bool stage_state_is_final(enum stage_state s)
{
	return s == STAGE_READY || s == STAGE_RELEASED || s == STAGE_FAILED;
}
