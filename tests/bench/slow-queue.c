#include "tests/bench/slow-queue.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void slow_queue_deinit(struct slow_queue *q)
{
	while (q->n > 0)
		free(q->heap[--q->n]);
}

static bool is_before(const struct slow_request *a, const struct slow_request *b)
{
	return a->due < b->due || (a->due == b->due && a->seq < b->seq);
}

int slow_queue_push(struct slow_queue *q, int64_t due, const void *data, size_t size)
{
	struct slow_request *r = q->n < SLOW_QUEUE_MAX ? malloc(sizeof(*r) + size) : NULL;
	size_t i, up;

	if (!r)
		return -ENOMEM;
	*r = (struct slow_request){ .due = due, .seq = q->seq++, .size = size };
	memcpy(r->data, data, size);
	for (i = q->n++; i > 0 && is_before(r, q->heap[up = (i - 1) / 2]); i = up)
		q->heap[i] = q->heap[up];
	q->heap[i] = r;
	if (q->n > q->max_n)
		q->max_n = q->n;
	return 0;
}

struct slow_request *slow_queue_pop(struct slow_queue *q, int64_t now)
{
	struct slow_request *first, *last;
	size_t i, down;

	if (slow_queue_get_wait(q, now) != 0)
		return NULL;
	first = q->heap[0];
	last = q->heap[--q->n];
	for (i = 0; (down = 2 * i + 1) < q->n; i = down) {
		if (down + 1 < q->n && is_before(q->heap[down + 1], q->heap[down]))
			down++;
		if (is_before(last, q->heap[down]))
			break;
		q->heap[i] = q->heap[down];
	}
	q->heap[i] = last;
	return first;
}

int64_t slow_queue_get_wait(const struct slow_queue *q, int64_t now)
{
	if (q->n == 0)
		return -1;
	return q->heap[0]->due > now ? q->heap[0]->due - now : 0;
}
