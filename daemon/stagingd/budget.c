#include "daemon/stagingd/budget.h"

#include <errno.h>
#include <string.h>

#include "common/util/list.h"

struct grant {
	struct list node;
	uint32_t owner;
	char *tier;
	uint64_t bytes, files, written;
};

struct budget {
	struct list grants;
};

int budget_new(struct budget **bp)
{
	struct budget *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	list_init(&b->grants);
	*bp = b;
	return 0;
}

static void grant_free(struct grant *g)
{
	list_remove(&g->node);
	free(g->tier);
	free(g);
}

void budget_free(struct budget *b)
{
	struct list *pos, *tmp;

	if (!b)
		return;
	list_for_each_safe (pos, tmp, &b->grants)
		grant_free(list_entry(pos, struct grant, node));
	free(b);
}

static struct grant *budget_find(const struct budget *b, uint32_t owner, const char *tier)
{
	struct list *pos;

	list_for_each (pos, &b->grants) {
		struct grant *g = list_entry(pos, struct grant, node);

		if (g->owner == owner && !strcmp(g->tier, tier))
			return g;
	}
	return NULL;
}

/* Returns the newest grant of the owner. The bytes that it writes count for this grant. */
static struct grant *find_last(const struct budget *b, uint32_t owner)
{
	struct grant *last = NULL;
	struct list *pos;

	list_for_each (pos, &b->grants) {
		struct grant *g = list_entry(pos, struct grant, node);

		if (g->owner == owner)
			last = g;
	}
	return last;
}

static uint64_t budget_sum(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

int budget_grant(struct budget *b, uint32_t owner, const char *tier, uint64_t bytes, uint64_t files)
{
	struct grant *g = budget_find(b, owner, tier);

	if (!g) {
		g = calloc(1, sizeof(*g));
		if (!g)
			return -ENOMEM;
		list_init(&g->node);
		g->owner = owner;
		g->tier = strdup(tier);
		if (!g->tier) {
			grant_free(g);
			return -ENOMEM;
		}
	}
	list_remove(&g->node);
	list_append(&b->grants, &g->node);
	g->bytes = budget_sum(g->bytes, bytes);
	g->files = budget_sum(g->files, files);
	return 0;
}

void budget_set_written(struct budget *b, uint32_t owner, uint64_t bytes)
{
	struct grant *g = find_last(b, owner);

	if (g)
		g->written = bytes < g->bytes ? bytes : g->bytes;
}

void budget_give_back(struct budget *b, uint32_t owner, uint64_t bytes)
{
	struct grant *g = find_last(b, owner);

	if (!g)
		return;
	g->bytes = bytes < g->bytes ? g->bytes - bytes : 0;
	if (g->written > g->bytes)
		g->written = g->bytes;
}

/* Releases the owner's grants in all tiers but `tier`. NULL: in all tiers. */
static void give_back_others(struct budget *b, uint32_t owner, const char *tier)
{
	struct list *pos, *tmp;

	list_for_each_safe (pos, tmp, &b->grants) {
		struct grant *g = list_entry(pos, struct grant, node);

		if (g->owner == owner && !(tier && !strcmp(g->tier, tier)))
			grant_free(g);
	}
}

void budget_return(struct budget *b, uint32_t owner)
{
	give_back_others(b, owner, NULL);
}

void budget_move(struct budget *b, uint32_t owner, const char *tier)
{
	give_back_others(b, owner, tier);
}

uint64_t budget_get_reserved(const struct budget *b, const char *tier)
{
	const struct list *pos;
	uint64_t sum = 0;

	list_for_each (pos, &b->grants) {
		const struct grant *g = list_entry(pos, struct grant, node);

		if (!tier || !strcmp(g->tier, tier))
			sum = budget_sum(sum, g->bytes);
	}
	return sum;
}

uint64_t budget_get_unwritten(const struct budget *b, const char *tier)
{
	const struct list *pos;
	uint64_t sum = 0;

	list_for_each (pos, &b->grants) {
		const struct grant *g = list_entry(pos, struct grant, node);

		if (!tier || !strcmp(g->tier, tier))
			sum = budget_sum(sum, g->bytes - g->written);
	}
	return sum;
}

uint64_t budget_get_files(const struct budget *b)
{
	const struct list *pos;
	uint64_t sum = 0;

	list_for_each (pos, &b->grants)
		sum = budget_sum(sum, list_entry(pos, struct grant, node)->files);
	return sum;
}
