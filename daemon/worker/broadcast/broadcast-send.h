/*
 * broadcast-send: the worker's side of stage-broadcast, the process beside the worker on a job's
 * first node that runs sbcast. One order at a time.
 *
 *   to stage-broadcast  op=send program= job= path= [text=], and without text the descriptor of
 *                       the file
 *   from it             op=done
 *                       op=fail code= text=
 *
 * A stage-broadcast whose connection ends, ends, and takes its sbcast along.
 */
#pragma once

#include <stdbool.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"

#define BROADCAST_PROGRAM "stage-broadcast"

struct broadcast_send;

/* Before the sandbox and before any thread. program: sbcast, a name or a path. */
int broadcast_send_new(struct broadcast_send **sp, const char *program, const char *job,
		       struct error *err);
void broadcast_send_free(struct broadcast_send *s);
DEFINE_FREEP(struct broadcast_send, broadcast_send_free)

/* Both put something at path on every node of the job: the file that fd (the caller's) is open of,
 * or a small one with that text. */
int broadcast_send_file(struct broadcast_send *s, int fd, const char *path, struct error *err);
int broadcast_send_text(struct broadcast_send *s, const char *text, const char *path,
			struct error *err);

/* Waits timeout_ms at most. 1: the order is done, and *why says why it failed (code 0: it did not,
 * -ENOENT: there is no such program); 0: not yet; -EIO: stage-broadcast is gone. */
int broadcast_send_poll(struct broadcast_send *s, int timeout_ms, struct error *why,
			struct error *err);
