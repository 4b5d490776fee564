#include "daemon/stagingd/cause.h"

#include <errno.h>

/* clang-format off */
static const char *const names[STAGE_N_CAUSES] = {
	[STAGE_CAUSE_NONE] = "",
	[STAGE_CAUSE_RULES] = "rules",     [STAGE_CAUSE_SPACE] = "space",
	[STAGE_CAUSE_TIME] = "time",       [STAGE_CAUSE_MISSING] = "missing",
	[STAGE_CAUSE_DENIED] = "denied",   [STAGE_CAUSE_IO] = "io",
	[STAGE_CAUSE_CONTENT] = "content", [STAGE_CAUSE_DIED] = "died",
	[STAGE_CAUSE_OTHER] = "other",
};

static const struct { int errnum; enum stage_cause cause; } errors[] = {
	{ ENOENT,       STAGE_CAUSE_MISSING },
	{ ENOTDIR,      STAGE_CAUSE_MISSING },
	{ EACCES,       STAGE_CAUSE_DENIED  },
	{ ENOKEY,       STAGE_CAUSE_DENIED  },
	{ EIO,          STAGE_CAUSE_IO      },
	{ ESTALE,       STAGE_CAUSE_IO      },
	{ ENXIO,        STAGE_CAUSE_IO      },
	{ ENOTCONN,     STAGE_CAUSE_IO      },
	{ ECONNREFUSED, STAGE_CAUSE_IO      },
	{ ECONNRESET,   STAGE_CAUSE_IO      },
	{ EHOSTUNREACH, STAGE_CAUSE_IO      },
	{ ENETUNREACH,  STAGE_CAUSE_IO      },
	{ EREMOTEIO,    STAGE_CAUSE_IO      },
	{ EINVAL,       STAGE_CAUSE_CONTENT },
	{ EBADMSG,      STAGE_CAUSE_CONTENT },
	{ EPROTO,       STAGE_CAUSE_CONTENT },
	{ EILSEQ,       STAGE_CAUSE_CONTENT },
};
/* clang-format on */

const char *cause_to_string(enum stage_cause cause)
{
	return names[cause];
}

static enum stage_cause by_errno(int errnum)
{
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		if (errors[i].errnum == errnum)
			return errors[i].cause;
	return STAGE_CAUSE_OTHER;
}

enum stage_cause cause_find(enum stage_event ev, enum stage_exit code, int errnum)
{
	if (ev == STAGE_EV_DIED)
		return STAGE_CAUSE_DIED;
	switch (code) {
	case STAGE_EXIT_REFUSED:
		return STAGE_CAUSE_RULES;
	case STAGE_EXIT_NO_SPACE:
		return STAGE_CAUSE_SPACE;
	case STAGE_EXIT_TIMEOUT:
		return STAGE_CAUSE_TIME;
	default:
		return by_errno(errnum);
	}
}
