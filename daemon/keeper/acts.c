#include "daemon/keeper/keeper.h"

#include <errno.h>

int act_give(struct call *c, int fd)
{
	if (fd < 0)
		return -errno;
	c->out[c->n_out++] = fd;
	return 0;
}

/* What is called so stands in these directories and nowhere else. */
bool act_is_place(uint32_t dir, uint32_t name)
{
	enum { RUN = 1 << ACT_DIR_RUN, TRASH = 1 << ACT_DIR_TRASH, TIER = 1 << ACT_DIR_TIER, JOB = 1 << ACT_DIR_FREE };
	/* clang-format off */
	static const uint8_t places[ACT_N_NAMES] = {
		[ACT_NAME_SOCK] = JOB, [ACT_NAME_FAILED] = JOB, [ACT_NAME_STATE] = JOB, [ACT_NAME_STATE_NEW] = JOB,
		[ACT_NAME_LOCK] = JOB, [ACT_NAME_MOUNTS] = JOB, [ACT_NAME_MEMORY] = JOB, [ACT_NAME_SLOT] = JOB,
		[ACT_NAME_CRASHES] = RUN, [ACT_NAME_BREAKER] = RUN,
		[ACT_NAME_JOB] = RUN | TRASH, [ACT_NAME_JOB_ASIDE] = TRASH,
		[ACT_NAME_TIER] = TIER, [ACT_NAME_TIER_ASIDE] = TIER, [ACT_NAME_KEEP] = TIER,
	};
	/* clang-format on */

	return name < ACT_N_NAMES && places[name] >> (dir < ACT_DIR_FREE ? dir : ACT_DIR_FREE) & 1;
}

bool act_is_ours(const struct keeper *k, const struct act *a)
{
	if (!k->job)
		return true;
	if (a->dir >= ACT_DIR_FREE && a->dir < ACT_N_DIRS)
		return k->jobs[a->dir] == k->job || a->kind == ACT_REMOVE || a->kind == ACT_DETACH || a->kind == ACT_RENAME;
	if (a->name == ACT_NAME_KEEP)
		return (uint32_t)a->n[0] == k->uid;
	if (a->kind != ACT_MAKE_DIR && a->name != ACT_NAME_JOB && a->name != ACT_NAME_TIER)
		return true;
	return (uint32_t)a->n[0] == k->job;
}

bool act_is_users(const struct keeper *k, uid_t uid, gid_t *gidp)
{
	bool is = k->uid && uid == k->uid;
	gid_t gid = k->gid;

	if (!uid || uid == k->system_uid)
		return false;
	/* Where it was not known when the directory was opened, its keeper was only beginning. */
	for (int i = ACT_DIR_FREE; !k->uid && !is && i < ACT_N_DIRS; i++) {
		gid = k->owner_gids[i];
		is = k->dirs[i] >= 0 && uid == (k->owners[i] ?: dir_find_owner(k->dirs[i], &gid));
	}
	if (is)
		*gidp = gid;
	return is;
}

void act_do(struct keeper *k, struct call *c)
{
	/* clang-format off */
	static const act_fn acts[ACT_N] = {
		[ACT_OPEN_BASE] = act_open_base, [ACT_OPEN_TIER] = act_open_tier,
		[ACT_OPEN_DIR] = act_open_dir, [ACT_CLOSE_DIR] = act_close_dir,
		[ACT_CHECK_DIR] = act_check_dir, [ACT_MAKE_DIR] = act_make_dir,
		[ACT_RENAME] = act_rename, [ACT_REMOVE] = act_remove, [ACT_OPEN_FILE] = act_open_file,
		[ACT_BIND] = act_bind, [ACT_MEMORY] = act_memory, [ACT_RESIZE] = act_resize,
		[ACT_SLOT] = act_slot, [ACT_DETACH] = act_detach,
		[ACT_DETACH_BELOW] = act_detach_below, [ACT_REPEAT] = act_repeat,
		[ACT_OPEN_WAITING] = act_open_waiting, [ACT_ABORT] = act_abort,
		[ACT_OPEN_PROC] = act_open_proc, [ACT_SITE] = act_site, [ACT_ACCOUNT] = act_account,
		[ACT_SPAWN] = act_spawn, [ACT_CHECK_PROGRAM] = act_check_program, [ACT_GO] = act_go,
		[ACT_LOOK] = act_look, [ACT_KILL] = act_kill, [ACT_KILL_CHILDREN] = act_kill_children,
		[ACT_FOLLOW] = act_follow, [ACT_HOLD_GROUP] = act_hold_group,
		[ACT_ENTER_GROUPS] = act_enter_groups,
		[ACT_REMOVE_GROUP] = act_remove_group, [ACT_JOIN_GROUP] = act_join_group,
		[ACT_OPEN_LOG] = act_open_log, [ACT_TEXT] = act_text,
	};
	/* clang-format on */
	struct act *a = c->a;

	c->dir = a->dir < ACT_N_DIRS ? k->dirs[a->dir] : -1;
	c->dir2 = a->dir2 < ACT_N_DIRS ? k->dirs[a->dir2] : -1;
	act_print_name(c->name, act_is_place(a->dir, a->name) && act_is_ours(k, a) ? a->name : ACT_N_NAMES, a->n);
	a->text[sizeof(a->text) - 1] = '\0';
	a->r = a->kind < ACT_N && acts[a->kind] ? acts[a->kind](k, c) : -ENOSYS;
}
