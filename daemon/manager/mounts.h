/*
 * mounts: requests to the keeper to mount and unmount the job's tmpfs and its FUSE slots. name: the
 * number of a slot, or MOUNTS_MEMORY.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/protocol/rundir.h"

struct error;
struct jobdir;
struct statx;

#define MOUNTS_MEMORY RUNDIR_MAX_SLOTS

/* Mounts the tmpfs on t, root's, of that many bytes and inodes, with the user's .stage, .stage/tmp
 * and data in it. */
int mounts_memory(const struct jobdir *d, uint64_t size, uint64_t inodes, struct error *err);

/* Makes the tmpfs smaller, or larger. -EINVAL: more than that is in it. */
int mounts_resize_memory(const struct jobdir *d, uint64_t size);

/* Mounts m/<slot> and gives n_fds descriptors of its connection, the caller's, O_CLOEXEC. Fails
 * with nothing left. */
int mounts_slot(const struct jobdir *d, uint32_t slot, int *fds, size_t n_fds, struct error *err);

/* Detaches whatever is mounted on name. */
int mounts_detach(const struct jobdir *d, uint32_t name, struct error *err);

/* Detaches the mounts of a user on name in the tier dirfd (opened last, PRIVOP_DIR_TIER), inside
 * it, and on names that begin with its name and a dot. While a mount is there, nothing can be
 * removed. */
void mounts_detach_in(int dirfd, const char *name);

/* Has Slurm given the job its own mount namespace? Mounts that are made after that are not visible
 * in it. */
bool mounts_has_namespace(uint32_t job);

/* Bind mounts the directory or file of the user's that fd is on data/<name>, in the mount namespace
 * ns_path, too ("": none). After a failure nothing is mounted there, but after -ETIMEDOUT it may
 * be later. -EDQUOT: too much is mounted in the job's tmpfs; -EBUSY: too many were late.
 * mounts_unplace() detaches it. */
int mounts_place(const struct jobdir *d, const char *name, int fd, bool read_only,
		 const char *ns_path);
int mounts_unplace(const struct jobdir *d, const char *name);

/* Aborts the FUSE connection that is mounted on m/<slot>, which frees processes that wait for its
 * server; 0, or -ENOENT if nothing is mounted there. */
int mounts_abort(const struct jobdir *d, uint32_t slot);

/* Opens the kernel's count of requests that no server has answered yet, to be read once. fd;
 * -ENOENT as above. */
int mounts_open_waiting(const struct jobdir *d, uint32_t slot);

/* Opens (O_PATH) the job's tmpfs, after detaching mounts on top of it (with an earlier version,
 * users could make such mounts). Sends no request to a user's file system. -ENOENT: there is no
 * tmpfs. */
int mounts_open_memory(const struct jobdir *d, uint64_t deadline_ms);

/* Whose the content of that tmpfs is, by its directory data; it is unmounted, so that nothing of
 * the user's is mounted there any more. 0 or -errno. */
int mounts_get_owner(int memory_fd, struct statx *st);

/*
 * Repeats the mount on name in the mount namespace of the file ns_path (0 if there is no such
 * file), at the same path, if it leads to the same directory there. Takes at most a second. -ENOSYS
 * before Linux 5.6: an older kernel cannot move a mount to another namespace, or open a path there
 * without following links.
 */
int mounts_repeat(const struct jobdir *d, uint32_t name, const char *ns_path, struct error *err);
