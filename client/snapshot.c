#include "client/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/json.h"
#include "common/protocol/proto.h"
#include "common/util/error.h"
#include "common/util/fnv.h"

int snapshot_from_kv(struct snapshot *s, struct kv **kvp)
{
	struct kv *kv = *kvp;
	enum stage_state state;

	if (!kv_get_or_empty(kv, "name")[0] ||
	    stage_state_from_string(kv_get_or_empty(kv, "state"), &state) < 0)
		return -EPROTO;
	*s = (struct snapshot){
		.kv = kv,
		.name = kv_get(kv, "name"),
		.source = kv_get_or_empty(kv, "source"),
		.dest = kv_get_or_empty(kv, "dest"),
		.method = kv_get_or_empty(kv, "method"),
		.tier = kv_get_or_empty(kv, "tier"),
		.path = kv_get_or_empty(kv, "path"),
		.kind = kv_get_or_empty(kv, "kind"),
		.reason = kv_get_or_empty(kv, "reason"),
		.cause = kv_get_or_empty(kv, "cause"),
		.rule = kv_get_or_empty(kv, "rule"),
		.format = kv_get_or_empty(kv, "format"),
		.plan = kv_get_or_empty(kv, "plan"),
		.why = kv_get_or_empty(kv, "why"),
		.warning = kv_get_or_empty(kv, "warning"),
		.waits = kv_get_or_empty(kv, "waits"),
		.node = kv_get_or_empty(kv, "node"),
		.state = state,
		.bytes = kv_get_u64(kv, "bytes", 0),
		.total = kv_get_u64(kv, "total", 0),
		.files = kv_get_u64(kv, "files", 0),
		.n_files = kv_get_u64(kv, "nfiles", 0),
		.rate = kv_get_u64(kv, "rate", 0),
		.eta_ms = kv_get_u64(kv, "eta", 0),
		.elapsed_ms = kv_get_u64(kv, "elapsed", 0),
		.pid = kv_get_u64(kv, "pid", 0),
		.code = (int)(kv_get_u64(kv, "code", 0) & 0xff),
	};
	*kvp = NULL;
	return 0;
}

void snapshot_deinit(struct snapshot *s)
{
	kv_free(s->kv);
	*s = (struct snapshot){ 0 };
}

const char *snapshot_get_state(const struct snapshot *s, char buf[static SNAPSHOT_STATE_TEXT])
{
	snprintf(buf, SNAPSHOT_STATE_TEXT, "%s%s%.32s", stage_state_to_string(s->state),
		 *s->waits ? ": " : "", s->waits);
	return buf;
}

int snapshot_get_percent(const struct snapshot *s)
{
	uint64_t percent;

	if (s->state == STAGE_READY)
		return 100;
	if (s->total == 0)
		return -1;
	percent = (uint64_t)((__uint128_t)s->bytes * 100 / s->total);
	return percent > 99 ? 99 : (int)percent;
}

void snapshot_to_json(const struct snapshot *s, struct json *j)
{
	json_put_text(j, "name", s->name);
	json_put_text(j, "node", s->node);
	json_put_text(j, "state", stage_state_to_string(s->state));
	json_put_text(j, "source", s->source);
	json_put_text(j, "dest", s->dest);
	json_put_text(j, "method", s->method);
	json_put_text(j, "tier", s->tier);
	json_put_text(j, "path", s->path);
	json_put_text(j, "kind", s->kind);
	json_put_text(j, "format", s->format);
	json_put_u64(j, "bytes", s->bytes);
	json_put_known(j, "total", s->total);
	json_put_u64(j, "files", s->files);
	json_put_known(j, "nfiles", s->n_files);
	json_put_u64(j, "rate", s->rate);
	json_put_known(j, "eta_ms", s->eta_ms);
	json_put_u64(j, "elapsed_ms", s->elapsed_ms);
	json_put_u64(j, "code", (uint64_t)s->code);
	json_put_text(j, "reason", s->reason);
	json_put_text(j, "cause", s->cause);
	json_put_text(j, "rule", s->rule);
	json_put_text(j, "plan", s->plan);
	json_put_text(j, "why", s->why);
	json_put_text(j, "warning", s->warning);
	json_put_text(j, "waits", s->waits);
	json_put_known(j, "pid", s->pid);
}

/* ---- the list ---- */

/* A job of 1,000 nodes has up to 64,000 items, and each message looks for one. Two thirds of the
 * table at most are in use. A slot has the position of its item + 1, or 0. */
static size_t *find_slot(const struct snapshot_list *l, const struct snapshot *s)
{
	const uint64_t hash = fnv_add_text(fnv_add(FNV_INIT, s->node, strlen(s->node) + 1),
					   s->name);

	for (size_t i = hash % l->n_slots;; i = (i + 1) % l->n_slots) {
		const struct snapshot *item = l->slots[i] ? &l->items[l->slots[i] - 1] : NULL;

		if (!item || (!strcmp(item->name, s->name) && !strcmp(item->node, s->node)))
			return &l->slots[i];
	}
}

static void drop_slots(struct snapshot_list *l)
{
	free(l->slots);
	l->slots = NULL;
	l->n_slots = 0;
}

/* Makes sure that the table has all items, and room for one more. */
static int make_slots(struct snapshot_list *l)
{
	size_t *slot;

	if (3 * (l->n_items + 1) <= 2 * l->n_slots)
		return 0;
	drop_slots(l);
	l->slots = calloc(3 * l->n_items + 16, sizeof(*l->slots));
	if (!l->slots)
		return -ENOMEM;
	l->n_slots = 3 * l->n_items + 16;
	for (size_t i = 0; i < l->n_items; i++) {
		slot = find_slot(l, &l->items[i]);
		if (!*slot) /* snapshot_list_add() may have added an item twice */
			*slot = i + 1;
	}
	return 0;
}

/* Makes room for one more item. Grows the array when its length is a power of two. */
static int make_room(struct snapshot_list *l)
{
	const size_t n = l->n_items;
	struct snapshot *items;

	if (n & (n - 1))
		return 0;
	items = reallocarray(l->items, n ? 2 * n : 1, sizeof(*items));
	if (!items)
		return -ENOMEM;
	l->items = items;
	return 0;
}

/* Takes the content of s when it returns 0. */
static int append(struct snapshot_list *l, const struct snapshot *s)
{
	if (make_room(l) < 0)
		return -ENOMEM;
	l->items[l->n_items++] = *s;
	return 0;
}

int snapshot_list_add(struct snapshot_list *l, struct kv **kvp)
{
	struct snapshot s;
	int r = snapshot_from_kv(&s, kvp);

	if (r == 0)
		r = append(l, &s);
	if (r == -ENOMEM)
		*kvp = s.kv;
	drop_slots(l);
	return r;
}

int snapshot_list_update(struct snapshot_list *l, struct kv **kvp, const struct snapshot **sp)
{
	struct snapshot s;
	size_t *slot;
	int r = snapshot_from_kv(&s, kvp);

	if (r < 0)
		return r;
	r = make_slots(l);
	slot = r == 0 ? find_slot(l, &s) : NULL;
	if (slot && *slot) {
		snapshot_deinit(&l->items[*slot - 1]);
		l->items[*slot - 1] = s;
	} else if (slot && append(l, &s) == 0) {
		*slot = l->n_items;
	} else {
		*kvp = s.kv;
		return -ENOMEM;
	}
	if (sp)
		*sp = &l->items[*slot - 1];
	return 0;
}

static int by_node(const void *a, const void *b)
{
	const struct snapshot *x = a, *y = b;
	int r = strverscmp(x->node, y->node);

	return r ? r : strcmp(x->name, y->name);
}

void snapshot_list_sort(struct snapshot_list *l)
{
	if (l->n_items)
		qsort(l->items, l->n_items, sizeof(*l->items), by_node);
	drop_slots(l);
}

void snapshot_list_on_message(void *arg, const char *op, struct kv **kvp)
{
	if (!strcmp(op, PROTO_OP_DATASET))
		snapshot_list_update(arg, kvp, NULL);
}

void snapshot_list_deinit(struct snapshot_list *l)
{
	for (size_t i = 0; i < l->n_items; i++)
		snapshot_deinit(&l->items[i]);
	free(l->items);
	drop_slots(l);
	*l = (struct snapshot_list){ 0 };
}

int snapshot_list_get_exit(const struct snapshot_list *l)
{
	size_t n_ready = 0, n_released = 0;

	for (size_t i = 0; i < l->n_items; i++) {
		if (l->items[i].state == STAGE_FAILED)
			return l->items[i].code ? l->items[i].code : STAGE_EXIT_FAILED;
		n_ready += l->items[i].state == STAGE_READY;
		n_released += l->items[i].state == STAGE_RELEASED;
	}
	if (n_ready + n_released == l->n_items && (n_ready || !l->n_items))
		return STAGE_EXIT_OK;
	return STAGE_EXIT_NOT_READY;
}

/* If both have the same ETA or none, the lower percentage is slower. */
static bool is_slower(const struct snapshot *a, const struct snapshot *b)
{
	if (a->eta_ms != b->eta_ms)
		return a->eta_ms > b->eta_ms;
	return snapshot_get_percent(a) < snapshot_get_percent(b);
}

const struct snapshot *snapshot_list_get_slowest(const struct snapshot_list *l,
						 size_t *n_unfinishedp)
{
	const struct snapshot *slowest = NULL;
	size_t n = 0;

	for (size_t i = 0; i < l->n_items; i++) {
		if (stage_state_is_final(l->items[i].state))
			continue;
		n++;
		if (!slowest || is_slower(&l->items[i], slowest))
			slowest = &l->items[i];
	}
	if (n_unfinishedp)
		*n_unfinishedp = n;
	return slowest;
}
