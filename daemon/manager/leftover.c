#include "daemon/manager/leftover.h"

#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "daemon/manager/jobdir.h"
#include "daemon/manager/privops.h"

#define TELL_EVERY_MS 3600000
#define TIMER_WITHIN_MS 90000 /* the timer comes at least once in this time */

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

	return now_ms < since_ms || (now_ms - since_ms) % TELL_EVERY_MS < TIMER_WITHIN_MS;
}
