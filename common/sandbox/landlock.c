#include "common/sandbox/landlock.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util/cleanup.h"

/* The numbers are the same on all architectures. They are defined here because older systems lack
 * them and linux/landlock.h. */
#define NR_CREATE_RULESET 444
#define NR_RESTRICT_SELF 446
#define CREATE_RULESET_VERSION 1
#define WRITE_FILE (1U << 1)
#define REMOVE_AND_MAKE (0x1ffU << 4) /* REMOVE_DIR to MAKE_SYM, for all kinds of files */
#define TRUNCATE (1U << 14)
#define TRUNCATE_VERSION 3

int landlock_get_version(void)
{
	const long r = syscall(NR_CREATE_RULESET, NULL, 0, CREATE_RULESET_VERSION);

	return r < 0 ? -errno : (int)r;
}

/* Handled operations that no rule allows are refused; there are no rules. */
int landlock_forbid_writing(void)
{
	uint64_t handled = WRITE_FILE | REMOVE_AND_MAKE;
	_cleanup_(fd_closep) int fd = -1;

	/* A kernel rejects bits that it does not know. */
	if (landlock_get_version() >= TRUNCATE_VERSION)
		handled |= TRUNCATE;
	fd = (int)syscall(NR_CREATE_RULESET, &handled, sizeof(handled), 0);
	return fd < 0 || syscall(NR_RESTRICT_SELF, fd, 0) < 0 ? -errno : 0;
}
