/*
 * untar-queue: a thread that makes files and links, one job after the other, in the order in which
 * another thread adds them. Only that other thread calls these functions.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "common/util/error.h"
#include "daemon/engines/copy/tree.h"

struct block;
struct stage_io;
struct left;
struct queue;

#define JOB_MAX_IOVS 16

enum job_flags {
	JOB_BEGIN = 1, /* makes the file */
	JOB_END = 2,   /* ends it, and puts the place */
	JOB_LINK = 4,  /* a symbolic link */
	JOB_LEFT = 8,  /* its data is read from the archive's file */
};

/* A file, a part of one, or a link. Those of one file follow each other in one queue. */
struct job {
	uint64_t number; /* of all, in the order of the archive */
	size_t room;	 /* untar-queue.c's */
	unsigned flags, n_iovs;
	bool sparse;
	struct tree_place place;
	struct tree_meta meta;
	uint64_t size, offset;	/* of the file; of the data in it */
	int in;			/* of JOB_LEFT: from here, */
	uint64_t in_at, n_left; /* there, so much */
	size_t path_size;	/* with its NUL */
};

/* The earliest error of several queues: jobs behind it are passed over. */
struct failure {
	_Atomic uint64_t number; /* of the job; FAILURE_NONE */
	pthread_mutex_t lock;
	struct error error;
};
#define FAILURE_NONE UINT64_MAX

void failure_note(struct failure *f, uint64_t number, const struct error *err);
/* Its code, and its text. */
int failure_tell(struct failure *f, struct error *err);

/* All but qp stay the caller's; io may be NULL. left: shared with the queues that help each other.
 * -errno. */
int queue_new(struct queue **qp, struct tree *tree, struct stage_io *io, struct failure *failure,
	      struct left *left);
/* No more jobs will come. */
void queue_end(struct queue *q);
/* Ends it, waits for what it has, and for what those have whom it may have to help. */
void queue_free(struct queue *q);

/*
 * job with its texts (copied; link: the target, or NULL) and data, for which the blocks are held
 * until it is done. It may stay here until queue_give(). May wait for room. -ENOMEM.
 */
int queue_put(struct queue *q, struct job *job, const struct iovec *iovs,
	      struct block *const *blocks, const char *path, const char *link);
void queue_give(struct queue *q);

/* Jobs put so far; are the first nth done?; give them and wait until they are. */
uint64_t queue_get_n_put(const struct queue *q);
bool queue_is_done(const struct queue *q, uint64_t nth);
void queue_wait(struct queue *q, uint64_t nth);

/* How much it has to do, in bytes; a file by itself counts for some. */
uint64_t queue_get_cost(const struct queue *q);
