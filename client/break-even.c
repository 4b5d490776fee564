#include "client/break-even.h"

#include <stdio.h>
#include <string.h>

#include "client/json.h"
#include "common/protocol/kv.h"
#include "common/util/parse.h"

/* Limit of printed times. Longer times result from typing errors. */
#define MAX_MS (1000ULL * 86400 * 365 * 100)
#define MAX_NODES 1000000

static uint64_t at_most(uint64_t value, uint64_t limit)
{
	return value < limit ? value : limit;
}

static uint64_t ms_of(uint64_t bytes, uint64_t rate)
{
	double ms = (double)bytes * 1000 / (double)rate;

	return ms < (double)MAX_MS ? (uint64_t)ms : MAX_MS;
}

/* Returns whether staging reads the whole source first: it copies, extracts, or copies an image.
 * The source must be a path, which the job could read itself. */
static bool is_read_first(const struct kv *facts, const char *source)
{
	const char *method = kv_get_or_empty(facts, "method"),
		   *tier = kv_get_or_empty(facts, "tier");

	return source[0] == '/' &&
	       (!strcmp(method, "copy") || !strcmp(method, "extract") ||
		!strcmp(method, "mount")) &&
	       *tier && strcmp(tier, "source") &&
	       strncmp(kv_get_or_empty(facts, "plan"), "kept ", 5);
}

bool break_even_init(struct break_even *w, const struct kv *facts, const char *source,
		     const struct break_even_asked *asked, uint64_t max_rate)
{
	uint64_t rate = asked->rate ? asked->rate : max_rate;

	*w = (struct break_even){
		.bytes = kv_get_u64(facts, "total", 0),
		.epoch_ms = at_most(asked->epoch_ms, MAX_MS),
		.nodes = asked->nodes ? at_most(asked->nodes, MAX_NODES) : 1,
	};
	if (!is_read_first(facts, source) || w->bytes == 0)
		return false;
	if (!asked->rate && !strcmp(kv_get_or_empty(facts, "state"), "ready")) {
		w->read_ms = at_most(kv_get_u64(facts, "elapsed", 0), MAX_MS);
		w->known = BREAK_EVEN_MEASURED;
	}
	if (w->read_ms == 0 && rate > 0) {
		w->read_ms = ms_of(w->bytes, rate);
		w->known = BREAK_EVEN_RATE;
	}
	if (w->read_ms == 0)
		w->known = BREAK_EVEN_NOTHING;
	return true;
}

uint64_t break_even_get_epochs(const struct break_even *w)
{
	/* E * T > T + E * C */
	return w->known && w->read_ms > w->epoch_ms ? w->read_ms / (w->read_ms - w->epoch_ms) + 1
						    : 0;
}

static double node_hours(const struct break_even *w, uint64_t ms)
{
	return (double)ms * (double)w->nodes / 3600000;
}

/* Prints 0.04, 2.3 or 120. */
static const char *hours_text(double hours, char buf[static 32])
{
	int n_digits = 0;

	if (hours < 1)
		n_digits = 2;
	else if (hours < 100)
		n_digits = 1;
	snprintf(buf, 32, "%.*f node-hours", n_digits, hours);
	return buf;
}

/* Prints the cost of staging itself. */
static size_t put_cost(const struct break_even *w, char *buf, size_t size)
{
	char bytes[PARSE_SIZE_TEXT], took[PARSE_DURATION_TEXT], hours[32];
	int n;

	size_to_string(w->bytes, bytes);
	if (!w->known)
		n = snprintf(buf, size,
			     "Staging does not help a job that reads its data once: it reads %s "
			     "in any case.\nUse --rate and --epoch to see from how many epochs on "
			     "staging is faster.\n",
			     bytes);
	else
		n = snprintf(buf, size,
			     "Staging %s %s for %s, %s of waiting.\n"
			     "A job that reads its data only once is faster without staging.\n",
			     w->known == BREAK_EVEN_MEASURED ? "took" : "takes",
			     duration_to_tenths(w->read_ms, took), bytes,
			     hours_text(node_hours(w, w->read_ms), hours));
	return n > 0 && (size_t)n < size ? (size_t)n : size - 1;
}

void break_even_get_text(const struct break_even *w, char *buf, size_t size)
{
	size_t n = put_cost(w, buf, size);
	char hours[32];

	if (!w->known)
		return;
	if (!w->epoch_ms)
		snprintf(buf + n, size - n,
			 "If computing takes little time, a job that reads its data at least "
			 "twice is faster\nwith staging. Use --epoch to give the time that "
			 "computing "
			 "an epoch takes.\n");
	else if (!break_even_get_epochs(w))
		snprintf(buf + n, size - n,
			 "Computing an epoch takes longer than reading: staging saves no time. "
			 "The source is\nread once instead of once for each epoch.\n");
	else
		snprintf(buf + n, size - n,
			 "Staging is faster from %llu epochs on. Each epoch saves %s.\n",
			 (unsigned long long)break_even_get_epochs(w),
			 hours_text(node_hours(w, w->read_ms - w->epoch_ms), hours));
}

void break_even_to_json(const struct break_even *w, struct json *j)
{
	static const char *const by[] = { NULL, "rate", "measured" };

	json_open_object(j, "worth");
	json_put_text(j, "by", by[w->known]);
	json_put_u64(j, "bytes", w->bytes);
	json_put_u64(j, "nodes", w->nodes);
	json_put_known(j, "read_ms", w->read_ms);
	json_put_known(j, "epoch_ms", w->epoch_ms);
	json_put_known(j, "from_epochs", break_even_get_epochs(w));
	json_put_known(j, "wait_node_ms", w->read_ms * w->nodes);
	json_close_object(j);
}
