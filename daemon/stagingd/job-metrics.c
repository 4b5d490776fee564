/*
 * A dataset is counted by its last result: a dataset that was ready and failed later counts as
 * failed. So each dataset remembers how it was counted, and that count is subtracted first. A
 * dataset that was released after it was ready counts as ready.
 */
#include "daemon/stagingd/job-metrics.h"

#include <string.h>

#include "common/util/log.h"
#include "common/util/url.h"
#include "daemon/stagingd/cause.h"
#include "daemon/stagingd/job-end.h"
#include "daemon/stagingd/job-info.h"
#include "daemon/stagingd/job-runs.h"
#include "daemon/stagingd/launcher.h"
#include "daemon/stagingd/stage.h"

#define N_METHODS 4
#define MAX_SOURCE 512 /* maximum bytes of a source in the log */

static const char *const methods[N_METHODS] = { "copy", "extract", "mount", "link" };

/* The figures of methods and causes are found by adding to the first one. A method or a cause more
 * would be counted as another figure. */
_Static_assert(DATASET_METHOD_LINK - DATASET_METHOD_COPY == N_METHODS - 1 &&
		       COUNT_BY_LINK - COUNT_BY_COPY == N_METHODS - 1 &&
		       COUNT_BYTES_LINK - COUNT_BYTES_COPY == N_METHODS - 1 &&
		       COUNT_MS_LINK - COUNT_MS_COPY == N_METHODS - 1,
	       "each method has its figures");
_Static_assert(STAGE_CAUSE_OTHER == STAGE_N_CAUSES - 1 &&
		       COUNT_CAUSE_OTHER - COUNT_CAUSE_RULES ==
			       STAGE_CAUSE_OTHER - STAGE_CAUSE_RULES,
	       "each cause has its figure");

static uint64_t get_ms(const struct stage *s)
{
	return s->start_ms && s->end_ms > s->start_ms ? s->end_ms - s->start_ms : 0;
}

/* Returns the bytes that were really read. A dataset that is only mounted or linked was not read
 * completely, whatever its size. */
static uint64_t get_bytes(const struct stage *s)
{
	bool is_linked = !strcmp(s->method, "link");
	bool is_mounted = !strcmp(s->method, "mount") && !s->dataset->hydrate;

	return s->was_ready && (is_linked || is_mounted) ? s->moved : s->bytes;
}

static enum stage_result get_result(const struct stage *s)
{
	if (s->state == STAGE_READY)
		return STAGE_RESULT_READY;
	if (s->state == STAGE_FAILED || s->cause)
		return STAGE_RESULT_FAILED;
	return s->was_ready ? STAGE_RESULT_READY : STAGE_RESULT_CANCELLED;
}

static void count_ready(const struct stage *s, uint64_t *counts)
{
	counts[COUNT_READY] = 1;
	counts[COUNT_FILES] = s->files;
	for (size_t i = 0; i < N_METHODS; i++) {
		if (strcmp(methods[i], s->method) != 0)
			continue;
		counts[COUNT_BY_COPY + i] = 1;
		counts[COUNT_BYTES_COPY + i] = get_bytes(s);
		counts[COUNT_MS_COPY + i] = get_ms(s);
	}
}

void job_metrics_count(const struct stage *s, uint64_t *counts)
{
	const enum stage_cause cause = s->cause ?: STAGE_CAUSE_OTHER;

	memset(counts, 0, COUNT_N * sizeof(*counts));
	counts[COUNT_MOUNTS] = s->n_mounts;
	switch (get_result(s)) {
	case STAGE_RESULT_READY:
		count_ready(s, counts);
		break;
	case STAGE_RESULT_FAILED:
		counts[COUNT_FAILED] = 1;
		counts[COUNT_CAUSE_RULES + (cause - STAGE_CAUSE_RULES)] = 1;
		break;
	default:
		counts[COUNT_CANCELLED] = 1;
	}
}

static void job_metrics_say(const struct job_metrics *t, const struct stage *s,
			    enum stage_result result)
{
	static const char *const words[] = { [STAGE_RESULT_READY] = "ready",
					     [STAGE_RESULT_FAILED] = "failed",
					     [STAGE_RESULT_CANCELLED] = "cancelled" };
	const uint64_t ms = get_ms(s), bytes = get_bytes(s);
	const char *cause = cause_to_string(s->cause), *source = s->dataset->source;
	/* The query may contain a secret. */
	size_t n_source = url_scheme_of(source) ? strcspn(source, "?") : strlen(source);

	log_print(
		LOG_LEVEL_INFO, s->dataset->name,
		"end user=%s result=%s method=%s tier=%s bytes=%llu files=%llu seconds=%llu.%03llu "
		"rate=%.0f cause=%s rule=%s source=%.*s",
		t->info->identity.user ?: "-", words[result], s->method[0] ? s->method : "-",
		s->tier[0] ? s->tier : "-", (unsigned long long)bytes, (unsigned long long)s->files,
		(unsigned long long)ms / 1000, (unsigned long long)ms % 1000,
		ms ? (double)bytes * 1000 / (double)ms : 0.0, *cause ? cause : "-", s->rule ?: "-",
		(int)(n_source < MAX_SOURCE ? n_source : MAX_SOURCE), source);
}

static bool is_settled(const struct stage *s)
{
	return s->state == STAGE_READY || s->state == STAGE_FAILED || s->state == STAGE_RELEASED;
}

static void settle(struct job_metrics *t, struct stage *s)
{
	const enum stage_result result = get_result(s);
	uint64_t counts[COUNT_N];

	job_metrics_count(s, counts);
	for (size_t i = 0; i < COUNT_N; i++) {
		t->counts[i] += counts[i] - s->counted[i];
		s->counted[i] = counts[i];
	}
	/* A mounted image that is still being copied (hydrated) has no final result yet. */
	if (result == s->said || (s->hydrating && s->state == STAGE_READY && !t->end->begun))
		return;
	s->said = result;
	job_metrics_say(t, s, result);
}

void job_metrics_tell(struct job_metrics *t)
{
	struct launcher *l = t->launcher;

	for (uint32_t i = 0; l && l->ops->count && i < COUNT_N; i++) {
		const uint64_t max = i < COUNT_N_THINGS ? COUNT_MAX_THINGS : COUNT_MAX_AMOUNT;
		const uint64_t value = t->counts[i] < max ? t->counts[i] : max;

		if (value != t->told[i])
			l->ops->count(l, i, value);
		t->told[i] = value;
	}
}

void job_metrics_look(struct job_metrics *t)
{
	for (size_t i = 0; i < t->runs->n; i++)
		if (is_settled(job_runs_get_stage(t->runs, i)))
			settle(t, job_runs_get_stage(t->runs, i));
	if (!t->end->begun)
		job_metrics_tell(t);
}
