/*
 * place: the directory of one copy in a scratch file system, and the last step into the open.
 *
 *   NAME              the copy, whole or not there
 *   .stage-manifest   what it consists of (record.h)
 *   .stage-partial/   a copy that is being made, called NAME too
 *   .stage-journal    what is in that so far
 *   .stage-lock       held by the mover that is at it
 */
#pragma once

#include <sys/stat.h>

struct error;

#define PLACE_MANIFEST ".stage-manifest"
#define PLACE_PARTIAL ".stage-partial"
#define PLACE_JOURNAL ".stage-journal"
#define PLACE_LOCK ".stage-lock"

struct place {
	int fd, partial_fd, lock_fd; /* partial and lock: of a mover alone */
	const char *name;	     /* lent */
};

#define PLACE_NONE                                                                                 \
	{                                                                                          \
		.fd = -1, .partial_fd = -1, .lock_fd = -1                                          \
	}

/* Opens dir, which exists. name: of the copy. -EINVAL: a name that is ours. */
int place_open(struct place *p, const char *dir, const char *name, struct error *err);
/* Waits until no other mover is at it, and makes the partial directory. A file system without locks
 * has none. */
int place_lock(struct place *p, struct error *err);
void place_close(struct place *p);

/* Writes all to disk; then the partial copy takes the place of the copy, which is removed, and at
 * last the journal goes. A directory gets the mode of st then, and its times. */
int place_sync(const struct place *p, struct error *err);
int place_publish(struct place *p, const struct stat *st, struct error *err);
