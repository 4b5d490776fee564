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

/* Waits for the file; src->fd is what came then, and src->landed true. On failure src is as it was
 * and nothing that landed is left. -ECANCELED when ctx was. */
int broadcast_take(struct ctx *ctx, struct source *src, struct error *err);

/* Back to the source itself. Fine where nothing landed. */
void broadcast_leave(struct source *src);

/* Moves what landed to out, which has its size already and gets the source's times: what was copied
 * is freed at once. hash: NULL: none. It can't be read again after this. */
int broadcast_move(struct ctx *ctx, struct source *src, int out, struct hash *hash,
		   struct error *err);

/* How long to wait for a sign of life: well before the dataset counts as stalled. */
uint64_t broadcast_get_patience_ms(uint64_t stall_ms);
