#include "tests/bench/slow-pace.h"

#include <time.h>

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void slow_pace_init(struct slow_pace *p)
{
	pthread_mutex_init(&p->lock, NULL);
}

void slow_pace_deinit(struct slow_pace *p)
{
	pthread_mutex_destroy(&p->lock);
}

/* With p->lock held on entry, without at the end. */
static void wait_until(struct slow_pace *p, int64_t end)
{
	struct timespec ts = { .tv_sec = end / 1000000000, .tv_nsec = end % 1000000000 };

	if (++p->n_waiting > p->max_waiting)
		p->max_waiting = p->n_waiting;
	pthread_mutex_unlock(&p->lock);
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
	pthread_mutex_lock(&p->lock);
	p->n_waiting--;
	pthread_mutex_unlock(&p->lock);
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

void slow_pace_meta(struct slow_pace *p)
{
	int64_t end = now_ns() + p->meta_ns;

	pthread_mutex_lock(&p->lock);
	p->n_meta++;
	wait_until(p, end);
}

void slow_pace_read(struct slow_pace *p, struct slow_stream *stream, pid_t thread, size_t n)
{
	int64_t now = now_ns(), one, all;

	pthread_mutex_lock(&p->lock);
	p->n_reads++;
	p->bytes += n;
	one = pass(find_slot(stream, thread), now, p->stream_rate, n);
	all = pass(&p->total_busy, now, p->total_rate, n);
	wait_until(p, (one > all ? one : all) + p->read_ns);
}
