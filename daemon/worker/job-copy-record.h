/*
 * job-copy-record: what the nodes of a job say to each other of the copy that they share. It is a
 * file in the copy's directory: which node makes the copy, how far it is, and how it ended.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/worker/job-copy-place.h"

#define JOB_COPY_STATE "state" /* the file */
#define JOB_COPY_MAX_TEXT 600

struct job_copy_record {
	char maker[JOB_COPY_NODE_SIZE]; /* "": it is being written for the first time */
	char text[JOB_COPY_MAX_TEXT];
	char state[16];
	uint64_t beat, bytes, files;
};

/* Writes it to the file fd. -errno. */
int job_copy_record_write(int fd, const struct job_copy_record *record);

/* Reads the file name in dir. 0; -ENOENT: there is none; -EAGAIN: its first writer is not done yet,
 * or another node has just removed it (ESTALE of NFS). After an error the record is empty. */
int job_copy_record_read(int dir, const char *name, struct job_copy_record *record);

/* Has its maker written nothing between the two? */
bool job_copy_record_is_same(const struct job_copy_record *a, const struct job_copy_record *b);

/*
 * Removes the record of dir if it still is as the caller, who is node, has seen it. Of the nodes
 * that call this at once, one removes it. A record that is another one stays, and is not there for
 * a moment. 0 for all of these, or -errno. The caller reads again.
 */
int job_copy_record_remove(int dir, const char *node, const struct job_copy_record *seen);
