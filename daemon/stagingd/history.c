#include "daemon/stagingd/history.h"

#include <stdio.h>
#include <time.h>

#include "common/protocol/kv.h"

#define FIRST_STEP_MS 250
#define PAIR_TEXT 48 /* "<20 digits>:<20 digits> " */

void history_add_state(struct history *h, enum stage_state state, uint64_t now_ms)
{
	size_t i = h->n_states < HISTORY_MAX_STATES ? h->n_states++ : HISTORY_MAX_STATES - 1;

	/* The loop's time is the time of its last event, so it may be earlier than a time read
	 * since. */
	if (i > 0 && now_ms < h->states[i - 1].ms)
		now_ms = h->states[i - 1].ms;
	h->states[i].state = state;
	h->states[i].ms = now_ms;
}

static void halve(struct history *h)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n_points; i += 2)
		h->points[n++] = h->points[i];
	h->n_points = n;
	h->step_ms *= 2;
}

void history_add_bytes(struct history *h, uint64_t bytes, uint64_t now_ms)
{
	size_t n = h->n_points;

	if (!h->step_ms)
		h->step_ms = FIRST_STEP_MS;
	if (n < 2 || now_ms - h->points[n - 2].ms >= h->step_ms) {
		if (n == HISTORY_MAX_POINTS)
			halve(h);
		n = ++h->n_points;
	}
	h->points[n - 1].ms = now_ms;
	h->points[n - 1].bytes = bytes;
}

static void set_states(const struct history *h, struct kv *kv)
{
	char text[HISTORY_MAX_STATES * PAIR_TEXT] = "";
	size_t n = 0;

	for (size_t i = 0; i < h->n_states; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s:%llu", i ? " " : "",
				      stage_state_to_string(h->states[i].state),
				      (unsigned long long)(h->states[i].ms - h->states[0].ms));
	kv_set(kv, "states", text);
}

static void set_series(const struct history *h, struct kv *kv)
{
	char text[HISTORY_MAX_POINTS * PAIR_TEXT] = "";
	size_t n = 0;

	for (size_t i = 0; i < h->n_points; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%llu:%llu", i ? " " : "",
				      (unsigned long long)(h->points[i].ms - h->states[0].ms),
				      (unsigned long long)h->points[i].bytes);
	kv_set(kv, "series", text);
}

uint64_t history_get_unix_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Returns now_ms, or the time of the last state in h if that is later: see history_add_state(). */
static uint64_t get_end(const struct history *h, uint64_t now_ms)
{
	const uint64_t last_ms = h->states[h->n_states - 1].ms;

	return now_ms < last_ms ? last_ms : now_ms;
}

void history_to_kv(const struct history *h, struct kv *kv, uint64_t now_ms, uint64_t unix_ms)
{
	if (!h->n_states)
		return;
	now_ms = get_end(h, now_ms);
	kv_set_u64(kv, "begun", unix_ms - (now_ms - h->states[0].ms));
	kv_set_u64(kv, "age", now_ms - h->states[0].ms);
	set_states(h, kv);
	set_series(h, kv);
	if (h->read_ms)
		kv_set_u64(kv, "lastread", h->read_ms - h->states[0].ms);
}
