#include "daemon/manager/leftover.h"

#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "daemon/manager/jobdir.h"
#include "daemon/manager/privops.h"

#define TELL_EVERY_MS 3600000
#define TIMER_WITHIN_MS 90000 /* the timer comes at least once in this time */

void leftover_read(const struct jobdir *d, struct leftover_marks *m)
{
	_cleanup_(fd_closep) int fd = privops_open(PRIVOP_OPEN_FILE, d->dir, PRIVOP_FILE_LOCK_LOOK);
	const uint64_t now_ms = clock_ms();

	if (fd < 0 || pread(fd, m, sizeof(*m), 0) != sizeof(*m))
		*m = (struct leftover_marks){ 0 };
	if (m->turn_ms > now_ms)
		m->turn_ms = 0;
}

static void write_marks(const struct jobdir_id *id, const struct leftover_marks *m)
{
	_cleanup_(jobdir_deinit) struct jobdir d = JOBDIR_INIT;
	_cleanup_(fd_closep) int fd = -1;

	if (jobdir_open(&d, id, NULL) != 0)
		return;
	fd = privops_open(PRIVOP_OPEN_FILE, d.dir, PRIVOP_FILE_LOCK);
	(void)!pwrite(fd, m, sizeof(*m), 0);
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
