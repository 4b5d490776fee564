/*
 * servers: how much of the job's memory the servers of mounted images may take for blocks that they
 * keep. They are charged to the job, and last as long as it does.
 */
#pragma once

#include <stdint.h>

struct job;

/* CacheSize, or less, so that all servers together keep a quarter of the job's memory at most. */
uint64_t servers_get_cache(const struct job *job);
/* The same for one that begins now; little as long as the job's memory is not known. */
uint64_t servers_get_first(const struct job *job);
/* What they may come to, all together. */
uint64_t servers_get_memory(const struct job *job);
/* Tells those that serve how much they may keep, if that has changed. */
void servers_tell(struct job *job);
