/*
 * broadcast: a source that is read once for all nodes of a job. The first node calls Slurm's
 * sbcast, which copies the source to every node, including the first. The copy is in the job's
 * tmpfs, in a directory that only the user may enter, and the stager reads from it. The nodes do
 * not communicate with each other. Before the data, a note is sent to every node. When it could be
 * written, all nodes are waiting for the data. After the data, another note says that it is
 * complete. A node that receives nothing for some time, or sees another file at the source, reads
 * the source itself.
 */
#pragma once

#include <stdint.h>

struct ctx;
struct error;
struct hash;
struct source;

/* Waits for the file. On success, src->fd is the received file and src->landed is true. On failure,
 * src is unchanged and nothing is left of the received data. Returns -ECANCELED if ctx was
 * cancelled. */
int broadcast_take(struct ctx *ctx, struct source *src, struct error *err);

/* Makes src refer to the source itself again. Does nothing if no file was received. */
void broadcast_leave(struct source *src);

/* Moves the received data to out, which already has its final size and gets the source's times.
 * Memory is freed as soon as it is copied, so the data cannot be read again. hash: NULL: none. */
int broadcast_move(struct ctx *ctx, struct source *src, int out, struct hash *hash,
		   struct error *err);

/* Returns how long a node waits without a sign of life. It is well below the stall limit of the
 * dataset. */
uint64_t broadcast_get_patience_ms(uint64_t stall_ms);
