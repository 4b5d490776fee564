#include "daemon/keeper/keeper.h"

#include <errno.h>

int act_give(struct call *c, int fd)
{
	if (fd < 0)
		return -errno;
	c->out[c->n_out++] = fd;
	return 0;
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
		[ACT_FOLLOW] = act_follow, [ACT_MAKE_GROUP] = act_make_group,
		[ACT_REMOVE_GROUP] = act_remove_group, [ACT_JOIN_GROUP] = act_join_group,
		[ACT_OPEN_LOG] = act_open_log, [ACT_TEXT] = act_text,
	};
	/* clang-format on */
	struct act *a = c->a;

	c->dir = a->dir < ACT_N_DIRS ? k->dirs[a->dir] : -1;
	c->dir2 = a->dir2 < ACT_N_DIRS ? k->dirs[a->dir2] : -1;
	act_print_name(c->name, a->name, a->n);
	a->text[sizeof(a->text) - 1] = '\0';
	a->r = a->kind < ACT_N && acts[a->kind] ? acts[a->kind](k, c) : -ENOSYS;
}
