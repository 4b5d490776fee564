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

/* Mounts the tmpfs on t, with a limit of size bytes and the given number of inodes. Its top
 * directory belongs to root; the directories .stage, .stage/tmp and data in it belong to the user.
 * Returns 0 or -errno. */
int mounts_memory(const struct jobdir *d, uint64_t size, uint64_t inodes, struct error *err);

/* Changes the size of the tmpfs. Returns 0 or -errno. -EINVAL: it contains more than size bytes. */
int mounts_resize_memory(const struct jobdir *d, uint64_t size);

/* Mounts m/<slot> and sets fds to n_fds descriptors of its connection, which are O_CLOEXEC and
 * belong to the caller. Returns 0 or -errno; after a failure, nothing is mounted. */
int mounts_slot(const struct jobdir *d, uint32_t slot, int *fds, size_t n_fds, struct error *err);

/* Detaches all mounts on name. Returns 0, also if there is none, or -errno. */
int mounts_detach(const struct jobdir *d, uint32_t name, struct error *err);

/* Detaches the mounts of a user on name in the tier dirfd, inside it, and on names that begin with
 * name and a dot. dirfd must be the tier that was opened last (PRIVOP_DIR_TIER). While something is
 * mounted on a directory, it cannot be removed. */
void mounts_detach_in(int dirfd, const char *name);

/* Returns true if Slurm has given the job its own mount namespace. Later mounts are not visible in
 * it. */
bool mounts_has_namespace(uint32_t job);

/* Bind mounts fd, a directory or file of the user, on data/<name>, and does the same in the mount
 * namespace ns_path ("": none). Returns 0 or -errno. After a failure, nothing is mounted there,
 * except that after -ETIMEDOUT the mount may still appear. -EDQUOT: the job's tmpfs contains too
 * many mounts; -EBUSY: too many earlier mounts were late. */
int mounts_place(const struct jobdir *d, const char *name, int fd, bool read_only,
		 const char *ns_path);
int mounts_unplace(const struct jobdir *d, const char *name);

/* Aborts the FUSE connection that is mounted on m/<slot>. Processes that wait for its server can
 * then continue. Returns 0; -ENOENT if nothing is mounted there. */
int mounts_abort(const struct jobdir *d, uint32_t slot);

/* Opens the kernel's file with the number of requests that wait for the server. It can be read
 * once. Returns an fd; -ENOENT as above. */
int mounts_open_waiting(const struct jobdir *d, uint32_t slot);

/* Opens (O_PATH) the job's tmpfs, after detaching mounts on top of it. Sends no request to a user's
 * file system. Returns an fd or -errno. -ENOENT: there is no tmpfs; -ETIMEDOUT: new mounts appeared
 * until the deadline. */
int mounts_open_memory(const struct jobdir *d, uint64_t deadline_ms);

/* Finds the owner of the content of the tmpfs, by its directory data. Returns 0 and fills st, or
 * -errno. -EXDEV: a mount of the user is still on it; all mounts must be detached before. */
int mounts_get_owner(int memory_fd, struct statx *st);

/*
 * Repeats the mount on name at the same path in the mount namespace of the file ns_path, if the
 * path leads to the same directory there. Takes at most a second. Returns 0, also if there is no
 * such file, or -errno. -ENOSYS before Linux 5.2: an older kernel cannot copy a mount to another
 * namespace.
 */
int mounts_repeat(const struct jobdir *d, uint32_t name, const char *ns_path, struct error *err);
