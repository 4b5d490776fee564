#include "daemon/stagingd/identity.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/strutil.h"

static char *number_to_string(unsigned id)
{

	return strutil_printf("%u", id);
}

static char *get_group_name(gid_t gid)
{
	const struct group *g = getgrgid(gid);

	return g ? strdup(g->gr_name) : number_to_string((unsigned)gid);
}

static char *get_user_name(uid_t uid)
{
	const struct passwd *p = getpwuid(uid);

	return p ? strdup(p->pw_name) : number_to_string((unsigned)uid);
}

/* Puts the effective group first, because it may be missing among the supplementary groups. */
static int read_groups(struct identity *id)
{
	int n = getgroups(0, NULL);
	_cleanup_(freep) gid_t *gids = NULL;

	if (n < 0)
		return -errno;
	gids = calloc((size_t)n + 1, sizeof(*gids));
	id->groups = calloc((size_t)n + 1, sizeof(*id->groups));
	if (!gids || !id->groups)
		return -ENOMEM;
	gids[0] = getegid();
	n = n > 0 ? getgroups(n, gids + 1) : 0;
	for (int i = 0; i <= n; i++) {
		id->groups[id->n_groups] = get_group_name(gids[i]);
		if (!id->groups[id->n_groups++])
			return -ENOMEM;
	}
	return 0;
}

int identity_init(struct identity *id)
{
	*id = (struct identity){ 0 };
	id->user = get_user_name(geteuid());
	id->group = get_group_name(getegid());
	if (!id->user || !id->group || read_groups(id) < 0) {
		identity_deinit(id);
		return -ENOMEM;
	}
	return 0;
}

void identity_deinit(struct identity *id)
{
	for (size_t i = 0; i < id->n_groups; i++)
		free(id->groups[i]);
	free(id->groups);
	free(id->user);
	free(id->group);
	*id = (struct identity){ 0 };
}
