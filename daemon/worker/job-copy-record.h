/*
 * job-copy-record: a file in the directory of a shared copy, by which the nodes of a job inform
 * each other: which node makes the copy, how much of it is done, and how it ended.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/worker/job-copy-place.h"

#define JOB_COPY_STATE "state" /* name of the file */
#define JOB_COPY_MAX_TEXT 600

struct job_copy_record {
	char maker[JOB_COPY_NODE_SIZE]; /* "": it is being written for the first time */
	char text[JOB_COPY_MAX_TEXT];
	char state[16];
	uint64_t beat, bytes, files;
};

/* Writes the record to the file fd. Returns 0 or -errno. */
int job_copy_record_write(int fd, const struct job_copy_record *record);

/* Reads the file `name` in dir. Returns 0; -ENOENT: there is none; -EAGAIN: its first writer has
 * not finished, or another node has just removed it (ESTALE on NFS); or another -errno. After an
 * error, the record is empty. */
int job_copy_record_read(int dir, const char *name, struct job_copy_record *record);

/* Returns whether the maker has written nothing between the two. */
bool job_copy_record_is_same(const struct job_copy_record *a, const struct job_copy_record *b);

/* Removes the record in dir if it is still the one that the caller (node) has seen. If several
 * nodes call this at once, one of them removes it. Another record stays, but its name is missing
 * for a moment. Returns 0 in all of these cases, or -errno. The caller then reads the record
 * again. */
int job_copy_record_remove(int dir, const char *node, const struct job_copy_record *seen);
