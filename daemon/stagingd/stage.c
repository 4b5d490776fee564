/*
 * The life of a dataset is the table below:
 *
 *   queued -> probing -> preparing -> staging -> ready
 *      |         \__________\____________\_________\____ cancel -> releasing -> released
 *      |                                            \___ died, error, timeout -> undoing -> failed
 *      cancel -> released                                stuck in either: failed
 *
 * An error that the worker reports leads to undoing, like its death. The manifest is then empty and
 * undoing ends at once, but stagingd does not have to trust the worker that it has removed
 * everything.
 */
#include "daemon/stagingd/stage.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/protocol/kv.h"
#include "common/protocol/proto.h"
#include "common/util/log.h"
#include "daemon/stagingd/cause.h"

/* clang-format off */
static const struct { enum stage_state from; enum stage_event ev; enum stage_state to; } table[] = {
	{ STAGE_QUEUED,    STAGE_EV_START,    STAGE_PROBING   },
	{ STAGE_QUEUED,    STAGE_EV_REFUSED,  STAGE_FAILED    },
	{ STAGE_QUEUED,    STAGE_EV_CANCEL,   STAGE_RELEASED  },

	{ STAGE_PROBING,   STAGE_EV_RESTART,  STAGE_QUEUED    },
	{ STAGE_PROBING,   STAGE_EV_FACTS,    STAGE_PREPARING },
	{ STAGE_PROBING,   STAGE_EV_ERROR,    STAGE_UNDOING   },
	{ STAGE_PROBING,   STAGE_EV_DIED,     STAGE_UNDOING   },
	{ STAGE_PROBING,   STAGE_EV_TIMEOUT,  STAGE_UNDOING   },
	{ STAGE_PROBING,   STAGE_EV_CANCEL,   STAGE_RELEASING },

	{ STAGE_PREPARING, STAGE_EV_FACTS,    STAGE_PREPARING },
	{ STAGE_PREPARING, STAGE_EV_PROGRESS, STAGE_STAGING   },
	{ STAGE_PREPARING, STAGE_EV_READY,    STAGE_READY     },
	{ STAGE_PREPARING, STAGE_EV_ERROR,    STAGE_UNDOING   },
	{ STAGE_PREPARING, STAGE_EV_DIED,     STAGE_UNDOING   },
	{ STAGE_PREPARING, STAGE_EV_TIMEOUT,  STAGE_UNDOING   },
	{ STAGE_PREPARING, STAGE_EV_CANCEL,   STAGE_RELEASING },

	{ STAGE_STAGING,   STAGE_EV_FACTS,    STAGE_STAGING   },
	{ STAGE_STAGING,   STAGE_EV_PROGRESS, STAGE_STAGING   },
	{ STAGE_STAGING,   STAGE_EV_READY,    STAGE_READY     },
	{ STAGE_STAGING,   STAGE_EV_ERROR,    STAGE_UNDOING   },
	{ STAGE_STAGING,   STAGE_EV_DIED,     STAGE_UNDOING   },
	{ STAGE_STAGING,   STAGE_EV_TIMEOUT,  STAGE_UNDOING   },
	{ STAGE_STAGING,   STAGE_EV_CANCEL,   STAGE_RELEASING },

	/* Ready, and the worker still runs: it serves a mount, or copies the mounted image
	 * (hydrate). */
	{ STAGE_READY,     STAGE_EV_FACTS,    STAGE_READY     },
	{ STAGE_READY,     STAGE_EV_PROGRESS, STAGE_READY     },
	{ STAGE_READY,     STAGE_EV_READY,    STAGE_READY     },
	{ STAGE_READY,     STAGE_EV_ERROR,    STAGE_UNDOING   },
	{ STAGE_READY,     STAGE_EV_DIED,     STAGE_UNDOING   },
	{ STAGE_READY,     STAGE_EV_CANCEL,   STAGE_RELEASING },

	{ STAGE_RELEASING, STAGE_EV_GONE,     STAGE_RELEASED  },
	{ STAGE_RELEASING, STAGE_EV_STUCK,    STAGE_FAILED    },

	{ STAGE_UNDOING,   STAGE_EV_GONE,     STAGE_FAILED    },
	{ STAGE_UNDOING,   STAGE_EV_STUCK,    STAGE_FAILED    },
	{ STAGE_UNDOING,   STAGE_EV_FALLBACK, STAGE_READY     },
	{ STAGE_UNDOING,   STAGE_EV_CANCEL,   STAGE_RELEASING },
};

static const char *const event_names[STAGE_N_EVENTS] = {
	[STAGE_EV_START] = "start",       [STAGE_EV_RESTART] = "restart",
	[STAGE_EV_FACTS] = "facts",       [STAGE_EV_PROGRESS] = "progress",
	[STAGE_EV_READY] = "ready",       [STAGE_EV_REFUSED] = "refused",
	[STAGE_EV_ERROR] = "error",       [STAGE_EV_DIED] = "died",
	[STAGE_EV_TIMEOUT] = "timeout",   [STAGE_EV_CANCEL] = "cancel",
	[STAGE_EV_GONE] = "gone",         [STAGE_EV_STUCK] = "stuck",
	[STAGE_EV_FALLBACK] = "fallback",
};
/* clang-format on */

const char *stage_event_to_string(enum stage_event ev)
{
	return event_names[ev];
}

int stage_get_next(enum stage_state from, enum stage_event ev, enum stage_state *top)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (table[i].from != from || table[i].ev != ev)
			continue;
		*top = table[i].to;
		return 0;
	}
	return -EINVAL;
}

int stage_new(struct stage **stagep, uint32_t id, struct dataset *d)
{
	_cleanup_(stage_freep) struct stage *s = calloc(1, sizeof(*s));
	struct dataset *copy;

	if (!s)
		return -ENOMEM;
	copy = malloc(sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	*copy = *d;
	*d = (struct dataset){ 0 };
	s->owned = (struct dataset_list){ .items = copy, .n_items = 1 };
	s->dataset = copy;
	s->id = id;
	s->seq = 1;
	strcpy(s->kind, "unknown");
	*stagep = steal_ptr(s);
	return 0;
}

void stage_free(struct stage *s)
{
	if (!s)
		return;
	dataset_list_deinit(&s->owned);
	free(s->rule);
	free(s->rule_match);
	free(s->web);
	free(s->methods);
	free(s->tiers);
	free(s->plan);
	free(s->why);
	free(s->warning);
	free(s->place);
	free(s->note);
	free(s->reason);
	free(s->stuck);
	kv_free(s->message);
	free(s);
}

static void drop_note(struct stage *s)
{
	free(s->note);
	s->note = NULL;
}

bool stage_apply(struct stage *s, enum stage_event ev, uint64_t now_ms, const char *detail)
{
	enum stage_state from = s->state, to;

	if (stage_get_next(from, ev, &to) < 0) {
		log_print(LOG_LEVEL_ERROR, s->dataset->name, "bug: %s while %s",
			  stage_event_to_string(ev), stage_state_to_string(from));
		return false;
	}
	s->seq++;
	if (to == from)
		return true;
	s->state = to;
	history_add_state(&s->history, to, now_ms);
	if (ev == STAGE_EV_START)
		stage_forget_warnings(s);
	if (stage_state_is_final(to))
		drop_note(s);
	if (ev == STAGE_EV_START && !s->start_ms)
		s->start_ms = now_ms;
	s->was_ready |= to == STAGE_READY;
	if (stage_state_is_final(to) && !s->end_ms)
		s->end_ms = now_ms;
	log_print(LOG_LEVEL_INFO, s->dataset->name, "%s -> %s%s%s", stage_state_to_string(from),
		  stage_state_to_string(to), detail ? ": " : "", detail ? detail : "");
	return true;
}

/* Stores at most size bytes of text. If memory is out, the old text stays. */
static void set_text(char **textp, const char *text, size_t size)
{
	char *copy = strndup(text, size);

	if (!copy)
		return;
	free(*textp);
	*textp = copy;
}

static void set_word(char word[static STAGE_TEXT_WORD], const struct kv *kv, const char *key)
{
	const char *value = kv_get(kv, key);

	if (value && *value)
		snprintf(word, STAGE_TEXT_WORD, "%s", value);
}

void stage_set_failure(struct stage *s, enum stage_exit code, const char *reason)
{
	if (s->code != STAGE_EXIT_OK)
		return;
	s->code = code;
	set_text(&s->reason, reason, ERROR_MAX_SIZE);
	s->seq++;
}

static bool has_line(const char *lines, const char *text)
{
	size_t size = strlen(text), n;

	for (const char *line = lines; line && *line; line += n + (line[n] == '\n')) {
		n = strcspn(line, "\n");
		if (n == size && !memcmp(line, text, n))
			return true;
	}
	return false;
}

void stage_add_warning(struct stage *s, const char *text)
{
	size_t n = s->warning ? strlen(s->warning) : 0, size = STAGE_TEXT_WARNING;
	char *lines;

	if (!*text || has_line(s->warning, text) || (n > 0 && n + 1 + strlen(text) >= size))
		return;
	lines = malloc(size);
	if (!lines)
		return;
	snprintf(lines, size, "%s%s%s", n > 0 ? s->warning : "", n > 0 ? "\n" : "", text);
	free(s->warning);
	s->warning = lines;
	s->seq++;
}

void stage_forget_warnings(struct stage *s)
{
	drop_note(s);
	if (s->warning)
		s->warning[s->n_told] = '\0';
	s->seq++;
}

void stage_set_place(struct stage *s, const char *path)
{
	set_text(&s->place, path, PATH_MAX);
	s->seq++;
}

void stage_set_note(struct stage *s, const char *text)
{
	if (stage_state_is_final(s->state))
		return;
	set_text(&s->note, text, STAGE_TEXT_NOTE - 1);
	s->seq++;
}

bool stage_take_warning(struct stage *s, char line[static STAGE_TEXT_WARNING])
{
	const char *next = s->warning ? s->warning + s->n_told : "";
	size_t n;

	next += strspn(next, "\n");
	n = strcspn(next, "\n");
	if (n == 0)
		return false;
	snprintf(line, STAGE_TEXT_WARNING, "%.*s", (int)n, next);
	s->n_told = (size_t)(next - s->warning) + n;
	return true;
}

void stage_set_stuck(struct stage *s, const char *text)
{
	set_text(&s->stuck, text, ERROR_MAX_SIZE);
	stage_add_warning(s, text);
	stage_set_failure(s, STAGE_EXIT_FAILED, text);
}

void stage_set_waits(struct stage *s, const char *what)
{
	s->waits = what;
	s->seq++;
}

void stage_set_facts(struct stage *s, const struct kv *facts)
{
	const char *text;

	set_word(s->kind, facts, "kind");
	set_word(s->format, facts, "format");
	set_word(s->method, facts, "method");
	set_word(s->tier, facts, "tier");
	s->total = kv_get_u64(facts, "total", s->total);
	s->nfiles = kv_get_u64(facts, "nfiles", s->nfiles);
	text = kv_get(facts, "plan");
	if (text)
		set_text(&s->plan, text, STAGE_TEXT_PLAN);
	text = kv_get(facts, "why");
	if (text)
		set_text(&s->why, text, STAGE_TEXT_WHY);
	s->seq++;
}

/* Measures the rate every half second and smooths it: 3/4 of the old value plus 1/4 of the new. */
static void update_rate(struct stage *s, uint64_t now_ms)
{
	uint64_t rate;

	if (!s->rate_ms || s->bytes < s->rate_bytes) {
		s->rate_ms = now_ms;
		s->rate_bytes = s->bytes;
		return;
	}
	if (now_ms - s->rate_ms < 500)
		return;
	rate = (uint64_t)((double)(s->bytes - s->rate_bytes) * 1000 /
			  (double)(now_ms - s->rate_ms));
	s->rate = s->rate ? s->rate - s->rate / 4 + rate / 4 : rate;
	s->rate_ms = now_ms;
	s->rate_bytes = s->bytes;
}

void stage_set_progress(struct stage *s, uint64_t bytes, uint64_t files, uint64_t now_ms)
{
	s->bytes = bytes;
	s->files = files;
	history_add_bytes(&s->history, bytes, now_ms);
	update_rate(s, now_ms);
	s->seq++;
}

static uint64_t get_elapsed(const struct stage *s, uint64_t now_ms)
{
	if (!s->start_ms)
		return 0;
	return (s->end_ms ? s->end_ms : now_ms) - s->start_ms;
}

static void set_optional(struct kv *kv, const char *key, const char *value)
{
	if (value && *value)
		kv_set(kv, key, value);
}

static void set_warning(struct kv *kv, const struct stage *s)
{
	if (s->note && s->warning && *s->warning)
		kv_setf(kv, "warning", "%s\n%s", s->warning, s->note);
	else
		set_optional(kv, "warning", s->note ? s->note : s->warning);
}

static void fill_progress(struct kv *kv, const struct stage *s, uint64_t now_ms)
{
	bool moving = s->state == STAGE_STAGING;

	kv_set_u64(kv, "bytes", s->bytes);
	kv_set_u64(kv, "total", s->total);
	kv_set_u64(kv, "files", s->files);
	kv_set_u64(kv, "nfiles", s->nfiles);
	kv_set_u64(kv, "rate", s->rate);
	if (moving && s->rate && s->total > s->bytes)
		kv_set_u64(kv, "eta",
			   (uint64_t)((double)(s->total - s->bytes) * 1000 / (double)s->rate));
	kv_set_u64(kv, "elapsed", get_elapsed(s, now_ms));
}

static struct kv *build_message(struct stage *s, const char *data_dir, const char *node,
				uint64_t now_ms)
{
	_cleanup_(kv_freep) struct kv *kv = proto_new(PROTO_OP_DATASET);
	char source[DATASET_MAX_ITEM];

	if (!kv)
		return NULL;
	kv_set(kv, "name", s->dataset->name);
	kv_set(kv, "source", dataset_show_source(s->dataset, source, sizeof(source)));
	kv_set(kv, "dest", s->dataset->dest ? s->dataset->dest : "auto");
	kv_set(kv, "state", stage_state_to_string(s->state));
	if (s->place)
		kv_set(kv, "path", s->place);
	else
		kv_setf(kv, "path", "%s/%s", data_dir, s->dataset->name);
	kv_set(kv, "kind", s->kind);
	fill_progress(kv, s, now_ms);
	kv_set_u64(kv, "code", (uint64_t)s->code);
	kv_set_u64(kv, "pid", (uint64_t)s->pid);
	kv_set(kv, "node", node);
	set_optional(kv, "method", s->method);
	set_optional(kv, "tier", s->tier);
	set_optional(kv, "format", s->format);
	set_optional(kv, "reason", s->reason);
	set_optional(kv, "cause", cause_to_string(s->cause));
	set_optional(kv, "rule", s->rule);
	set_optional(kv, "plan", s->plan);
	set_optional(kv, "why", s->why);
	set_warning(kv, s);
	set_optional(kv, "waits", s->state == STAGE_QUEUED ? s->waits : NULL);
	return steal_ptr(kv);
}

struct kv *stage_get_message(struct stage *s, const char *data_dir, const char *node,
			     uint64_t now_ms)
{
	struct kv *kv;

	if (s->message && s->message_seq == s->seq && s->message_ms == now_ms)
		return s->message;
	kv = build_message(s, data_dir, node, now_ms);
	if (!kv)
		return NULL;
	kv_free(s->message);
	s->message = kv;
	s->message_seq = s->seq;
	s->message_ms = now_ms;
	return kv;
}
