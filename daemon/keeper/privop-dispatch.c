#include "daemon/keeper/keeper.h"

#include <errno.h>

int privop_give(struct call *c, int fd)
{
	if (fd < 0)
		return -errno;
	c->out[c->n_out++] = fd;
	return 0;
}

/* Objects with these names exist only in these directories. */
bool privop_is_place(uint32_t dir, uint32_t name)
{
	/* clang-format off */
	enum { RUN = 1 << PRIVOP_DIR_RUN, TRASH = 1 << PRIVOP_DIR_TRASH, TIER = 1 << PRIVOP_DIR_TIER, JOB = 1 << PRIVOP_DIR_FREE };
	static const uint8_t places[PRIVOP_N_NAMES] = {
		[PRIVOP_NAME_SOCK] = JOB, [PRIVOP_NAME_FAILED] = JOB, [PRIVOP_NAME_STATE] = JOB, [PRIVOP_NAME_STATE_NEW] = JOB,
		[PRIVOP_NAME_LOCK] = JOB, [PRIVOP_NAME_MOUNTS] = JOB, [PRIVOP_NAME_MEMORY] = JOB, [PRIVOP_NAME_SLOT] = JOB,
		[PRIVOP_NAME_CRASHES] = RUN, [PRIVOP_NAME_BREAKER] = RUN,
		[PRIVOP_NAME_JOB] = RUN | TRASH, [PRIVOP_NAME_JOB_ASIDE] = TRASH,
		[PRIVOP_NAME_TIER] = TIER, [PRIVOP_NAME_TIER_ASIDE] = TIER, [PRIVOP_NAME_KEEP] = TIER,
	};
	/* clang-format on */

	return name < PRIVOP_N_NAMES &&
	       places[name] >> (dir < PRIVOP_DIR_FREE ? dir : PRIVOP_DIR_FREE) & 1;
}

bool privop_is_others(const struct keeper *k, uint32_t dir)
{
	if (!k->uid || dir < PRIVOP_DIR_FREE || dir >= PRIVOP_N_DIRS)
		return false;
	return k->jobs[dir] != k->job && k->marks[dir].uid != k->uid;
}

bool privop_is_ours(const struct keeper *k, const struct privop *a)
{
	if (!k->job)
		return true;
	/* With these files, a job's manager could turn staging off, or on, for all jobs of the
	 * node. */
	if (a->dir == PRIVOP_DIR_RUN &&
	    (a->name == PRIVOP_NAME_CRASHES || a->name == PRIVOP_NAME_BREAKER))
		return false;
	if (privop_is_others(k, a->dir))
		return false;
	if (a->dir >= PRIVOP_DIR_FREE && a->dir < PRIVOP_N_DIRS)
		return k->jobs[a->dir] == k->job || a->kind == PRIVOP_REMOVE ||
		       a->kind == PRIVOP_DETACH || a->kind == PRIVOP_RENAME;
	if (a->name == PRIVOP_NAME_KEEP)
		return (uint32_t)a->n[0] == k->uid;
	if (a->kind != PRIVOP_MAKE_DIR && a->name != PRIVOP_NAME_JOB && a->name != PRIVOP_NAME_TIER)
		return true;
	return (uint32_t)a->n[0] == k->job;
}

bool privop_is_users(const struct keeper *k, uid_t uid, gid_t *gidp)
{
	bool is = k->uid && uid == k->uid;
	struct rundir_mark mark = { .gid = k->gid };

	if (!uid || uid == k->system_uid)
		return false;
	/* If the owner was not known when the directory was opened, its keeper was just starting.
	 * Then look again. */
	for (int i = PRIVOP_DIR_FREE; !k->uid && !is && i < PRIVOP_N_DIRS; i++) {
		mark = k->marks[i];
		is = k->dirs[i] >= 0 && uid == (mark.uid ?: dir_find_owner(k->dirs[i], &mark));
	}
	if (is)
		*gidp = mark.gid;
	return is;
}

void privop_do(struct keeper *k, struct call *c)
{
	/* clang-format off */
	enum { TIERS = 1, ALL };
	/* waits: whether the operation is done in a child: TIERS: only if it changes a tier; ALL:
	 * always. Reason: users may list a tier, their own directories in it, and a job's
	 * cgroups. */
	static const struct { privop_fn fn; int waits; } privops[PRIVOP_N] = {
		[PRIVOP_OPEN_BASE] = { privop_open_base }, [PRIVOP_OPEN_TIER] = { privop_open_tier },
		[PRIVOP_OPEN_DIR] = { privop_open_dir }, [PRIVOP_CLOSE_DIR] = { privop_close_dir },
		[PRIVOP_CHECK_DIR] = { privop_check_dir, TIERS }, [PRIVOP_MAKE_DIR] = { privop_make_dir, TIERS },
		[PRIVOP_RENAME] = { privop_rename, TIERS }, [PRIVOP_REMOVE] = { privop_remove, TIERS },
		[PRIVOP_OPEN_FILE] = { privop_open_file }, [PRIVOP_WRITE] = { privop_write }, [PRIVOP_LOCK] = { privop_lock },
		[PRIVOP_BIND] = { privop_bind }, [PRIVOP_MEMORY] = { privop_memory }, [PRIVOP_RESIZE] = { privop_resize },
		[PRIVOP_SLOT] = { privop_slot }, [PRIVOP_DETACH] = { privop_detach },
		[PRIVOP_DETACH_BELOW] = { privop_detach_below, ALL }, [PRIVOP_REPEAT] = { privop_repeat, ALL },
		[PRIVOP_PLACE] = { privop_place },
		[PRIVOP_OPEN_WAITING] = { privop_open_waiting }, [PRIVOP_ABORT] = { privop_abort },
		[PRIVOP_OPEN_PROC] = { privop_open_proc }, [PRIVOP_SITE] = { privop_site }, [PRIVOP_USER] = { privop_user },
		[PRIVOP_SPAWN] = { privop_spawn }, [PRIVOP_GO] = { privop_go },
		[PRIVOP_LOOK] = { privop_look }, [PRIVOP_KILL] = { privop_kill }, [PRIVOP_KILL_CHILDREN] = { privop_kill_children },
		[PRIVOP_FOLLOW] = { privop_follow }, [PRIVOP_HOLD_GROUP] = { privop_hold_group },
		[PRIVOP_ENTER_GROUPS] = { privop_enter_groups, ALL }, [PRIVOP_REMOVE_GROUP] = { privop_remove_group, ALL },
		[PRIVOP_JOIN_GROUP] = { privop_join_group, ALL }, [PRIVOP_OPEN_LOG] = { privop_open_log },
		[PRIVOP_TEXT] = { privop_text }, [PRIVOP_LOG] = { privop_log }, [PRIVOP_ANSWER] = { privop_answer },
		[PRIVOP_LIST] = { privop_list },
	};
	/* clang-format on */
	struct privop *a = c->a;
	const bool makes = a->kind == PRIVOP_MAKE_DIR && a->name != PRIVOP_NAME_KEEP;
	const bool starts = a->kind == PRIVOP_SPAWN || a->kind == PRIVOP_PLACE;
	pid_t *const child = starts ? child_find(k, 0) : NULL;
	const privop_fn fn = a->kind < PRIVOP_N ? privops[a->kind].fn : NULL;
	const int waits = fn ? privops[a->kind].waits : 0;

	c->dir = a->dir < PRIVOP_N_DIRS ? k->dirs[a->dir] : -1;
	c->dir2 = a->dir2 < PRIVOP_N_DIRS ? k->dirs[a->dir2] : -1;
	privop_print_name(c->name,
			  privop_is_place(a->dir, a->name) && privop_is_ours(k, a) ? a->name
										   : PRIVOP_N_NAMES,
			  a->n);
	a->text[sizeof(a->text) - 1] = '\0';
	if (makes && k->n_made >= PRIVOP_MAX_DIRS)
		a->r = -EDQUOT;
	else if (starts && !child)
		a->r = -EAGAIN;
	else if (waits == ALL || (waits == TIERS && a->dir == PRIVOP_DIR_TIER))
		a->r = child_do(k, c, fn);
	else
		a->r = fn ? fn(k, c) : -ENOSYS;
	/* A failed operation may have made its directory, so it counts as well. */
	k->n_made += makes && a->r != -EEXIST;
	if (starts && a->r > 0)
		*child = a->r;
}
