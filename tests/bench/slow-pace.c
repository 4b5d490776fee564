#include "tests/bench/slow-pace.h"

#include <time.h>

int64_t slow_pace_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* When n bytes are through what is busy until *busyp. */
static int64_t pass(int64_t *busyp, int64_t now, double rate, size_t n)
{
	if (rate <= 0)
		return now;
	if (*busyp < now)
		*busyp = now;
	*busyp += (int64_t)((double)n / rate * 1e9);
	return *busyp;
}

/* A thread that has no slot yet takes the one that has been idle for longest. */
static int64_t *find_slot(struct slow_stream *stream, pid_t thread)
{
	unsigned oldest = 0;

	for (unsigned i = 0; i < SLOW_STREAMS; i++) {
		if (stream->slots[i].thread == thread)
			return &stream->slots[i].busy;
		if (stream->slots[i].busy < stream->slots[oldest].busy)
			oldest = i;
	}
	stream->slots[oldest].thread = thread;
	return &stream->slots[oldest].busy;
}

int64_t slow_pace_meta(struct slow_pace *p, int64_t now)
{
	p->n_meta++;
	return now + p->meta_ns;
}

int64_t slow_pace_read(struct slow_pace *p, struct slow_stream *stream, pid_t thread, size_t n,
		       int64_t now)
{
	int64_t one = pass(find_slot(stream, thread), now, p->stream_rate, n);
	int64_t all = pass(&p->total_busy, now, p->total_rate, n);

	p->n_reads++;
	p->bytes += n;
	return (one > all ? one : all) + p->read_ns;
}
