#include "daemon/manager/leftover.h"

#include <errno.h>
#include <stdlib.h>

#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "common/util/error.h"
#include "daemon/manager/jobdir.h"
#include "daemon/manager/privops.h"

#define TELL_EVERY_MS 3600000
#define TIMER_WITHIN_MS 90000 /* the timer starts a run at least once in this time */

void leftover_read(const struct jobdir *d, struct leftover_marks *m)
{
	struct privop a = { .kind = PRIVOP_LOCK, .dir = d->dir, .n = { PRIVOP_LOCK_READ } };
	const uint64_t now_ms = clock_ms();

	*m = (struct leftover_marks){ 0 };
	if (privops_do(&a, NULL, NULL) == 0)
		*m = (struct leftover_marks){ (uint64_t)a.n[1], (uint64_t)a.n[2] };
	if (m->turn_ms > now_ms)
		m->turn_ms = 0;
}

static void write_marks(const struct jobdir_id *id, const struct leftover_marks *m)
{
	_cleanup_(jobdir_deinit) struct jobdir d = JOBDIR_INIT;

	if (jobdir_open(&d, id, NULL) == 0)
		(void)privops_do_name(PRIVOP_LOCK, d.dir, 0, PRIVOP_LOCK_WRITE, (int64_t)m->turn_ms,
				      (int64_t)m->told_ms);
}

void leftover_begin_turn(const struct jobdir_id *id, struct leftover_marks *m)
{
	m->turn_ms = clock_ms();
	write_marks(id, m);
}

void leftover_note_told(const struct jobdir_id *id, struct leftover_marks *m)
{
	m->told_ms = clock_ms();
	write_marks(id, m);
}

bool leftover_is_told(const struct leftover_marks *m)
{
	return m->told_ms && clock_ms() - m->told_ms < TELL_EVERY_MS;
}

bool leftover_may_be_told(uint64_t since_ms)
{
	const uint64_t now_ms = clock_ms();
	const uint64_t begin_ms = since_ms > now_ms ? 0 : since_ms; /* of an earlier boot */

	return (now_ms - begin_ms) % TELL_EVERY_MS < TIMER_WITHIN_MS;
}

struct entry {
	struct jobdir_id id;
	uid_t uid; /* owner by root's mark; 0: not known */
	uint64_t turn_ms;
	size_t rank; /* position among the user's directories */
};

struct list {
	struct entry *entries;
	size_t n;
	bool is_cut; /* there was no memory for all */
};

static void list_deinit(struct list *l)
{
	free(l->entries);
}

/* A directory that has disappeared is added, too; fn treats it as gone. */
static int add_entry(void *arg, const struct jobdir_id *id)
{
	_cleanup_(jobdir_deinit) struct jobdir d = JOBDIR_INIT;
	struct leftover_marks marks = { 0 };
	struct list *l = arg;
	struct entry *entries = reallocarray(l->entries, l->n + 1, sizeof(*entries));

	if (!entries) {
		l->is_cut = true;
		return -ENOMEM;
	}
	l->entries = entries;
	if (jobdir_open(&d, id, NULL) == 0)
		leftover_read(&d, &marks);
	entries[l->n++] = (struct entry){ .id = *id, .uid = d.uid, .turn_ms = marks.turn_ms };
	return 0;
}

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare_in_user(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return compare_numbers(x->uid, y->uid) ?: compare_numbers(x->turn_ms, y->turn_ms);
}

static int compare_ranks(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return compare_numbers(x->rank, y->rank) ?: compare_numbers(x->turn_ms, y->turn_ms);
}

static void sort(struct list *l)
{
	if (!l->n)
		return;
	qsort(l->entries, l->n, sizeof(*l->entries), compare_in_user);
	for (size_t i = 1; i < l->n; i++)
		if (l->entries[i].uid == l->entries[i - 1].uid)
			l->entries[i].rank = l->entries[i - 1].rank + 1;
	qsort(l->entries, l->n, sizeof(*l->entries), compare_ranks);
}

int leftover_for_each(int (*fn)(void *arg, const struct jobdir_id *id), void *arg, size_t max,
		      struct error *err)
{
	_cleanup_(list_deinit) struct list l = { 0 };
	int listed = jobdir_for_each(add_entry, &l, err), r = 0;

	if (l.is_cut) /* the others have their turn when these are gone */
		listed = l.n > 0 ? 0 : error_set(err, ENOMEM, "out of memory");
	sort(&l);
	for (size_t i = 0; r == 0 && i < l.n && i < max; i++)
		r = fn(arg, &l.entries[i].id);
	return r < 0 ? r : listed;
}
