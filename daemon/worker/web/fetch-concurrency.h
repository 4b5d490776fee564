/*
 * fetch-concurrency: the number of connections to use at the same time. It begins with two, doubles
 * as long as that makes the fetch a fifth faster, and undoes the last step that did not. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FETCH_CONCURRENCY_USUAL 16 /* used if the site sets no limit */
#define FETCH_CONCURRENCY_MAX 64

struct fetch_concurrency {
	size_t n, max;
	bool settled;
	uint64_t since_ms, bytes; /* the current measurement; since_ms 0: none has begun */
	uint64_t last_rate;	  /* rate with half as many connections; 0: not measured */
};

/* Returns the most requests at the same time. max_readers: of the site; 0 means
 * FETCH_CONCURRENCY_USUAL. threads: of the user, who can only lower it; 0: none given. */
size_t fetch_concurrency_most(size_t max_readers, size_t threads);

/* max: 0 means FETCH_CONCURRENCY_USUAL; values above FETCH_CONCURRENCY_MAX are lowered to it. */
void fetch_concurrency_init(struct fetch_concurrency *p, size_t max);

size_t fetch_concurrency_get(const struct fetch_concurrency *p);

/* Adds `bytes`, which were received by now_ms while n_busy connections were busy. */
void fetch_concurrency_note(struct fetch_concurrency *p, uint64_t now_ms, uint64_t bytes,
			    size_t n_busy);
