#include "daemon/engines/archive/ordered.h"
#include "common/util/memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define ORDERED_MAX_THREADS 4

struct ordered {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	ordered_run_fn run;
	void *arg;
	size_t n_slots, n_threads;
	size_t pushed, begun, popped; /* numbers of jobs so far */
	bool closed;
	bool *done; /* index: slot */
	pthread_t threads[ORDERED_MAX_THREADS];
};

static void *ordered_thread(void *arg)
{
	struct ordered *o = arg;
	size_t slot;

	pthread_mutex_lock(&o->lock);
	for (;;) {
		while (o->begun == o->pushed && !o->closed)
			pthread_cond_wait(&o->changed, &o->lock);
		if (o->closed)
			break;
		slot = o->begun++ % o->n_slots;
		pthread_mutex_unlock(&o->lock);
		o->run(o->arg, slot);
		pthread_mutex_lock(&o->lock);
		o->done[slot] = true;
		pthread_cond_broadcast(&o->changed);
	}
	pthread_mutex_unlock(&o->lock);
	return NULL;
}

int ordered_new(struct ordered **op, size_t n_slots, size_t n_threads, ordered_run_fn run,
		void *arg)
{
	struct ordered *o = calloc(1, sizeof(*o));

	if (!o || !(o->done = calloc(n_slots, sizeof(*o->done)))) {
		free(o);
		return -ENOMEM;
	}
	o->run = run;
	o->arg = arg;
	o->n_slots = n_slots;
	pthread_mutex_init(&o->lock, NULL);
	pthread_cond_init(&o->changed, NULL);
	if (n_threads > ORDERED_MAX_THREADS)
		n_threads = ORDERED_MAX_THREADS;
	while (o->n_threads < n_threads &&
	       pthread_create(&o->threads[o->n_threads], NULL, ordered_thread, o) == 0)
		o->n_threads++;
	*op = o;
	return 0;
}

void ordered_free(struct ordered *o)
{
	if (!o)
		return;
	pthread_mutex_lock(&o->lock);
	o->closed = true;
	pthread_cond_broadcast(&o->changed);
	pthread_mutex_unlock(&o->lock);
	for (size_t i = 0; i < o->n_threads; i++)
		pthread_join(o->threads[i], NULL);
	pthread_cond_destroy(&o->changed);
	pthread_mutex_destroy(&o->lock);
	free(o->done);
	free(o);
}

size_t ordered_n_pending(const struct ordered *o)
{
	return o->pushed - o->popped;
}

size_t ordered_get_slot(const struct ordered *o)
{
	return o->pushed % o->n_slots;
}

void ordered_push(struct ordered *o)
{
	size_t slot = ordered_get_slot(o);

	if (o->n_threads == 0)
		o->run(o->arg, slot);
	pthread_mutex_lock(&o->lock);
	o->done[slot] = o->n_threads == 0;
	o->pushed++;
	pthread_cond_broadcast(&o->changed);
	pthread_mutex_unlock(&o->lock);
}

size_t ordered_pop(struct ordered *o)
{
	size_t slot = o->popped % o->n_slots;

	pthread_mutex_lock(&o->lock);
	while (!o->done[slot])
		pthread_cond_wait(&o->changed, &o->lock);
	o->popped++;
	pthread_mutex_unlock(&o->lock);
	return slot;
}

size_t ordered_get_default_threads(void)
{
	unsigned n = memory_count_cpus();

	return n < ORDERED_MAX_THREADS ? n : ORDERED_MAX_THREADS;
}
