/*
 * place: the directory of one copy in a scratch file system, and the step that makes the copy
 * visible. It contains:
 *
 *   NAME              the copy; it exists only if it is complete
 *   .stage-manifest   the list of what is in the copy (record.h)
 *   .stage-partial/   a copy that is being made; it is called NAME, too
 *   .stage-journal    the list of what is in the partial copy so far
 *   .stage-lock       locked by the mover that makes the copy
 */
#pragma once

#include <sys/stat.h>

struct error;

#define PLACE_MANIFEST ".stage-manifest"
#define PLACE_PARTIAL ".stage-partial"
#define PLACE_JOURNAL ".stage-journal"
#define PLACE_LOCK ".stage-lock"

struct place {
	int fd, partial_fd, lock_fd; /* partial_fd and lock_fd are used by a mover only */
	const char *name;	     /* lent */
};

#define PLACE_NONE                                                                                 \
	{                                                                                          \
		.fd = -1, .partial_fd = -1, .lock_fd = -1                                          \
	}

/* Opens dir, which must exist. name: name of the copy. Returns 0 or an error with err set; -EINVAL:
 * the name is reserved. */
int place_open(struct place *p, const char *dir, const char *name, struct error *err);
/* Waits until no other mover works here, and makes the partial directory. If the file system does
 * not support locks, it does not wait. */
int place_lock(struct place *p, struct error *err);
void place_close(struct place *p);

/* place_sync() writes all data to disk. Then place_publish() replaces the copy by the partial one,
 * removes the old copy and, at last, the journal. A directory gets the mode and the times of st. */
int place_sync(const struct place *p, struct error *err);
int place_publish(struct place *p, const struct stat *st, struct error *err);
