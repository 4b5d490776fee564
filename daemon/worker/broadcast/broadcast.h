/*
 * broadcast: a source that is read once for all nodes of a job. The first node has Slurm's sbcast
 * carry it to every node, itself included; there it lands in the job's tmpfs, in a directory that
 * only the user may enter, and is what the stager reads from.
 *
 * The nodes do not talk to each other. Before the file comes a note to every node: that it is
 * written says that all of them wait for it. Behind it comes another, which says that it is whole.
 * Who hears nothing for a while, or sees another file at the source, gives up and reads for itself.
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
