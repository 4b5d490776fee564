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

void user_fill_value(char *buf, size_t size, const char *text, const char *instead)
{
	const size_t n = strlen(text);
	bool is_usable = n > 0 && n < size;

	for (size_t i = 0; is_usable && i < n; i++)
		is_usable = (unsigned char)text[i] >= ' ' && text[i] != 0x7f;
	snprintf(buf, size, "%s", is_usable ? text : instead);
}

void user_look_up(struct helper_user *a, uid_t uid, gid_t gid)
{
	const struct passwd *pw = getpwuid(uid);
	int n = HELPER_MAX_GROUPS;
	char number[16];

	memset(a, 0, sizeof(*a));
	a->known = pw;
	a->groups[0] = gid;
	a->n_groups = 1;
	snprintf(number, sizeof(number), "%u", uid);
	user_fill_value(a->name, sizeof(a->name), pw ? pw->pw_name : "", number);
	user_fill_value(a->home, sizeof(a->home), pw && *pw->pw_dir == '/' ? pw->pw_dir : "", "/");
	if (!pw)
		return;
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
