#include "daemon/helper/account.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/fd.h"
#include "daemon/helper/helper.h"

/* Copies the text, or "" if it is too long. */
static void copy(char *buf, size_t size, const char *text)
{
	if (snprintf(buf, size, "%s", text) >= (int)size)
		buf[0] = '\0';
}

void user_look_up(struct helper_user *a, uid_t uid, gid_t gid)
{
	const struct passwd *pw = getpwuid(uid);
	int n = HELPER_MAX_GROUPS;

	memset(a, 0, sizeof(*a));
	a->known = pw;
	a->groups[0] = gid;
	a->n_groups = 1;
	if (!pw)
		return;
	copy(a->name, sizeof(a->name), pw->pw_name);
	copy(a->home, sizeof(a->home), pw->pw_dir);
	if (getgrouplist(pw->pw_name, gid, a->groups, &n) < 0 || n < 1)
		a->r = -E2BIG;
	a->n_groups = (uint32_t)n;
}

void helper_answer(const void *answer, size_t size)
{
	if (fd_write_all(HELPER_FD_ANSWER, answer, size) < 0)
		_exit(1);
}

void helper_user(char **argv)
{
	static struct helper_user account;

	user_look_up(&account, (uid_t)strtoul(argv[0], NULL, 10),
		     (gid_t)strtoul(argv[1], NULL, 10));
	helper_answer(&account, sizeof(account));
}
