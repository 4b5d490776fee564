#include "daemon/hand/account.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

/* The texts of an environment, each with its NUL, one more at the end. */
static int make_env(struct hand_account *a, uid_t uid, const struct passwd *pw)
{
	char number[16];
	const char *name = pw ? pw->pw_name : number;
	int n;

	snprintf(number, sizeof(number), "%u", uid);
	n = snprintf(a->env, sizeof(a->env) - 1,
		     "PATH=/usr/local/bin:/usr/bin:/bin%cLANG=C.UTF-8%cHOME=%s%cUSER=%s%cLOGNAME=%s",
		     0, 0, pw ? pw->pw_dir : "/", 0, name, 0, name);
	return n >= (int)sizeof(a->env) - 1 ? -ENAMETOOLONG : 0;
}

void account_look_up(struct hand_account *a, uid_t uid, gid_t gid)
{
	const struct passwd *pw = getpwuid(uid);
	int n = HAND_MAX_GROUPS;

	memset(a, 0, sizeof(*a));
	a->known = pw;
	a->r = make_env(a, uid, pw);
	a->groups[0] = gid;
	a->n_groups = 1;
	if (a->r < 0 || !pw)
		return;
	if (getgrouplist(pw->pw_name, gid, a->groups, &n) < 0 || n < 1)
		a->r = -E2BIG;
	a->n_groups = (uint32_t)n;
}
