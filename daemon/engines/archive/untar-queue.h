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
struct range_copy;
struct queue;

#define JOB_MAX_IOVS 16

enum job_flags {
	JOB_BEGIN = 1, /* make the file */
	JOB_END = 2,   /* finish the file, and put its place */
	JOB_LINK = 4,  /* make a symbolic link */
	JOB_LEFT = 8,  /* copy the data from the archive's file */
};

/* A file, a part of a file, or a link. The jobs of one file follow each other in one queue. */
struct job {
	uint64_t number; /* number among all jobs, in the order of the archive */
	size_t room;	 /* private to untar-queue.c */
	unsigned flags, n_iovs;
	bool sparse;
	struct tree_place place;
	struct tree_meta meta;
	uint64_t size, offset;	/* size of the file; offset of the data in it */
	int in;			/* JOB_LEFT: descriptor of the archive */
	uint64_t in_at, n_left; /* JOB_LEFT: offset and size there */
	size_t path_size;	/* including the NUL */
};

/* The earliest error of several queues. Later jobs are skipped. */
struct failure {
	_Atomic uint64_t number; /* number of the job; FAILURE_NONE: no error */
	pthread_mutex_t lock;
	struct error error;
};
#define FAILURE_NONE UINT64_MAX

void failure_note(struct failure *f, uint64_t number, const struct error *err);
/* Returns the error's code, and copies the error to err. */
int failure_tell(struct failure *f, struct error *err);

/* Makes a queue with its thread. All arguments still belong to the caller; io may be NULL. ranges
 * is shared by the queues that help each other. Returns 0 or -errno. */
int queue_new(struct queue **qp, struct tree *tree, struct stage_io *io, struct failure *failure,
	      struct range_copy *ranges);
/* Must be called after the last job was put. */
void queue_end(struct queue *q);
/* Ends the queue, and waits for its jobs, and for those of other queues that it may have to
 * help. */
void queue_free(struct queue *q);

/*
 * Adds a job with its texts, which are copied (link: the target, or NULL), and with data, whose
 * blocks are held until the job is done. The job may not begin before queue_give(). May wait for
 * room. Returns 0 or -ENOMEM.
 */
int queue_put(struct queue *q, struct job *job, const struct iovec *iovs,
	      struct block *const *blocks, const char *path, const char *link);
void queue_give(struct queue *q);

/* queue_get_n_put() returns the number of added jobs; queue_is_done() whether the first nth of them
 * are done; queue_wait() starts all jobs and waits until these are done. */
uint64_t queue_get_n_put(const struct queue *q);
bool queue_is_done(const struct queue *q, uint64_t nth);
void queue_wait(struct queue *q, uint64_t nth);

/* Returns the work that the queue has, in bytes; making a file counts as some bytes. */
uint64_t queue_get_cost(const struct queue *q);
