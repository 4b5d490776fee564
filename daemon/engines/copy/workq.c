#include "daemon/engines/copy/workq.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define WORKQ_MAX_THREADS 256

struct workq {
	void *arg;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct work *top;
	size_t n_running; /* threads in run() now */
	size_t n_threads; /* created threads, without the caller of workq_run() */
	pthread_t threads[WORKQ_MAX_THREADS];

	/* These are written with the lock held. */
	_Atomic size_t n_queued, n_waiting;
};

int workq_new(struct workq **qp, void *arg)
{
	struct workq *q = calloc(1, sizeof(*q));

	if (!q)
		return -ENOMEM;
	q->arg = arg;
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->changed, NULL);
	*qp = q;
	return 0;
}

void workq_free(struct workq *q)
{
	if (!q)
		return;
	pthread_cond_destroy(&q->changed);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

static void workq_count(_Atomic size_t *n, size_t by)
{
	atomic_fetch_add_explicit(n, by, memory_order_relaxed);
}

size_t workq_get_queued(const struct workq *q)
{
	return atomic_load_explicit(&q->n_queued, memory_order_relaxed);
}

size_t workq_get_waiting(const struct workq *q)
{
	return atomic_load_explicit(&q->n_waiting, memory_order_relaxed);
}

void workq_push(struct workq *q, struct work *work)
{
	pthread_mutex_lock(&q->lock);
	work->next = q->top;
	q->top = work;
	workq_count(&q->n_queued, 1);
	if (workq_get_waiting(q))
		pthread_cond_signal(&q->changed);
	pthread_mutex_unlock(&q->lock);
}

/* Runs work. If the queue is empty and no work is running, all threads end. */
static void *work_thread(void *arg)
{
	struct workq *q = arg;
	struct work *work;

	pthread_mutex_lock(&q->lock);
	for (;;) {
		work = q->top;
		if (work) {
			q->top = work->next;
			workq_count(&q->n_queued, -(size_t)1);
			q->n_running++;
			pthread_mutex_unlock(&q->lock);
			work->run(work, q->arg);
			pthread_mutex_lock(&q->lock);
			q->n_running--;
		} else if (q->n_running == 0) {
			break;
		} else {
			workq_count(&q->n_waiting, 1);
			pthread_cond_wait(&q->changed, &q->lock);
			workq_count(&q->n_waiting, -(size_t)1);
		}
	}
	pthread_cond_broadcast(&q->changed);
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

void workq_grow(struct workq *q, size_t n_threads)
{
	if (n_threads > WORKQ_MAX_THREADS)
		n_threads = WORKQ_MAX_THREADS;
	pthread_mutex_lock(&q->lock);
	while (q->n_threads + 1 < n_threads) {
		if (pthread_create(&q->threads[q->n_threads], NULL, work_thread, q))
			break;
		q->n_threads++;
	}
	pthread_mutex_unlock(&q->lock);
}

void workq_run(struct workq *q, size_t n_threads)
{
	workq_grow(q, n_threads);
	work_thread(q);
	/* no work is running, so workq_grow() is not called any more */
	for (size_t i = 0; i < q->n_threads; i++)
		pthread_join(q->threads[i], NULL);
	q->n_threads = 0;
}
