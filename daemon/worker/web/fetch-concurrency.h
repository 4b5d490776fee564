/*
 * fetch-concurrency: the number of connections to use at the same time. It begins with two, doubles
 * as long as that makes the fetch a fifth faster, and undoes the last step that did not. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FETCH_CONCURRENCY_USUAL 16 /* where the site sets no limit */
#define FETCH_CONCURRENCY_MAX 64

struct fetch_concurrency {
	size_t n, max;
	bool settled;
	uint64_t since_ms, bytes; /* of the measurement at hand; 0: none has begun */
	uint64_t last_rate;	  /* with half as many */
};

/* max: 0 for FETCH_CONCURRENCY_USUAL; more than FETCH_CONCURRENCY_MAX is as many. */
void fetch_concurrency_init(struct fetch_concurrency *p, size_t max);

size_t fetch_concurrency_get(const struct fetch_concurrency *p);

/* bytes came by now_ms, when n_busy were at work. */
void fetch_concurrency_note(struct fetch_concurrency *p, uint64_t now_ms, uint64_t bytes,
			    size_t n_busy);
