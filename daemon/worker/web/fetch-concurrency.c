#include "daemon/worker/web/fetch-concurrency.h"

#include "daemon/engines/copy/stage-io.h"

#define START 2
#define WINDOW_MS 400

size_t fetch_concurrency_most(size_t max_readers, size_t threads)
{
	size_t most = stage_io_get_most(max_readers, FETCH_CONCURRENCY_USUAL,
					FETCH_CONCURRENCY_MAX);

	return threads && threads < most ? threads : most;
}

void fetch_concurrency_init(struct fetch_concurrency *p, size_t max)
{
	*p = (struct fetch_concurrency){ .max = fetch_concurrency_most(max, 0) };
	p->n = p->max < START ? p->max : START;
}

size_t fetch_concurrency_get(const struct fetch_concurrency *p)
{
	return p->n;
}

static void decide(struct fetch_concurrency *p, uint64_t rate)
{
	if (p->last_rate && rate < p->last_rate + p->last_rate / 5) {
		p->n = p->n / 2;
		p->settled = true;
	} else if (p->n >= p->max) {
		p->settled = true;
	} else {
		p->last_rate = rate;
		p->n = 2 * p->n < p->max ? 2 * p->n : p->max;
	}
	p->since_ms = 0;
}

/* A measurement begins only when all connections are busy, so that it measures this number. */
void fetch_concurrency_note(struct fetch_concurrency *p, uint64_t now_ms, uint64_t bytes,
			    size_t n_busy)
{
	if (p->settled)
		return;
	if (n_busy < p->n) {
		p->since_ms = 0;
		return;
	}
	if (p->since_ms == 0) {
		p->since_ms = now_ms;
		p->bytes = 0;
		return;
	}
	p->bytes += bytes;
	if (now_ms - p->since_ms >= WINDOW_MS)
		decide(p, p->bytes * 1000 / (now_ms - p->since_ms));
}
