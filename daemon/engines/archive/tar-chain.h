/*
 * tar-chain: the headers of a tar whose reads take no time, as from the page cache. One thread
 * reads them in the order of the archive, while another thread checks those before them. Like
 * tar-ahead.h, this module decides nothing: it only provides bytes of the file. All calls are made
 * by one thread, the one that walks.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/util/cleanup.h"

struct tar_chain;

/* Starts the thread at offset `at`, where a header is. size: size of the file. Returns NULL if
 * there is no memory or no thread can be created. */
struct tar_chain *tar_chain_new(int fd, uint64_t size, uint64_t at);
/* Waits for the thread's present read. */
void tar_chain_free(struct tar_chain *c);
DEFINE_FREEP(struct tar_chain, tar_chain_free)

/*
 * Gets the block of the file at `at`, lent until the next call. Returns 1; 0: it is not known, and
 * the caller reads it; -EAGAIN: the thread has worked on it for TAR_CHAIN_WAIT_MS, call again. at
 * never decreases, except by tar_chain_go_to().
 */
int tar_chain_get(struct tar_chain *c, uint64_t at, const unsigned char **datap);
#define TAR_CHAIN_WAIT_MS 100

/* Continues at another offset. Blocks that were read before are forgotten. */
void tar_chain_go_to(struct tar_chain *c, uint64_t at);

/* Returns true if it does not help: the chain was left too often. */
bool tar_chain_is_useless(const struct tar_chain *c);
