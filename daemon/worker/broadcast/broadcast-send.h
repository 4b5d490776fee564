/*
 * broadcast-send: the worker's side of stage-broadcast. This process runs sbcast, beside the
 * worker on the first node of a job. It executes one order at a time:
 *
 *   to stage-broadcast  op=send program= job= path= [text=]; without text, the packet has the
 *                       descriptor of the file
 *   from it             op=done
 *                       op=fail code= text=
 *
 * If its connection is closed, stage-broadcast ends sbcast and itself.
 */
#pragma once

#include <stdbool.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"

#define BROADCAST_PROGRAM "stage-broadcast"

struct broadcast_send;

/* Starts stage-broadcast. Call it before the sandbox is entered and before any thread starts.
 * program: sbcast, a name or a path. Returns 0 or an error with err set. */
int broadcast_send_new(struct broadcast_send **sp, const char *program, const char *job,
		       struct error *err);
void broadcast_send_free(struct broadcast_send *s);
DEFINE_FREEP(struct broadcast_send, broadcast_send_free)

/* Both order a copy to path on every node of the job: of the open file fd (which stays the
 * caller's), or of a small file with that text. */
int broadcast_send_file(struct broadcast_send *s, int fd, const char *path, struct error *err);
int broadcast_send_text(struct broadcast_send *s, const char *text, const char *path,
			struct error *err);

/* Waits at most timeout_ms for the end of the order. Returns 1: the order has ended, and *why has
 * the reason if it failed (code 0: it succeeded; -ENOENT: the program is missing); 0: it has not
 * ended yet; -EIO: stage-broadcast has ended. */
int broadcast_send_poll(struct broadcast_send *s, int timeout_ms, struct error *why,
			struct error *err);
