/*
 * mounts: the job's tmpfs and its FUSE slots, mounted and taken away by root.
 *
 * What is mounted lies in root's directories below the run directory, is nosuid and nodev, and
 * can be entered by the job's user alone, not even by root: so nothing of root's ever waits for a
 * user's file system. All targets are reached by descriptor; options are made of integers only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct error;
struct statx;

struct mounts_memory {
	uid_t uid;
	gid_t gid;
	uint64_t size;
	uint64_t inodes;
};

/* Mounts the tmpfs on t, the user's, and makes .stage, .stage/tmp and data in it as the user. */
int mounts_memory(int dirfd, const struct mounts_memory *m, struct error *err);

/* Makes the tmpfs smaller, or larger. -EINVAL: more than that is in it. */
int mounts_resize_memory(int dirfd, uint64_t size);

/* Mounts m/<slot> and gives n_fds descriptors of its connection, the caller's, O_CLOEXEC. Fails
 * with nothing left. */
int mounts_slot(int dirfd, unsigned slot, uid_t uid, gid_t gid, int *fds, size_t n_fds,
		struct error *err);

/* Detaches whatever is mounted on name. */
int mounts_detach(int dirfd, const char *name, struct error *err);

/* Detaches what a user has mounted on name in the directory of root's, on what is in it, and on its name with
 * a dot and more behind it: nothing can be removed there as long as something is, nobody else can
 * look under it, and who asks it waits as long as its server likes. */
void mounts_detach_in(int dirfd, const char *name);

/* Opens (O_PATH) the job's tmpfs, having detached what the user may have mounted on top of it, and
 * says whose it is: root asks about the tmpfs without asking a file system of the user's. -ENOENT:
 * there is none. */
int mounts_open_memory(int dirfd, struct statx *st);

/* Writes "m/<slot>". */
#define MOUNTS_SLOT_SIZE 8
void mounts_slot_name(char buf[static MOUNTS_SLOT_SIZE], unsigned slot);

/*
 * Repeats the mount on name in the mount namespace that the file ns_path stands for (none: 0), at
 * the same path, where that leads to the same directory. Forks; takes a second at most. -ENOSYS
 * before Linux 5.6: an older kernel can't hand a mount to another namespace, or open a path there without
 * following links.
 */
int mounts_repeat(int dirfd, const char *name, const char *ns_path, struct error *err);
