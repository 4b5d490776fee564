/*
 * Each record is appended by one write. So if two processes append at the same time, both records
 * are counted. The times are those of the boot clock. A record whose time is in the future is from
 * an earlier boot.
 */
#include "daemon/manager/breaker.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "common/util/log.h"
#include "daemon/manager/helper-run.h"
#include "daemon/manager/jobdir.h"
#include "daemon/manager/node-metrics.h"
#include "daemon/manager/privops.h"
#include "daemon/manager/state.h"

#define BREAKER_TEXT                                                                               \
	"stage-keeper has crashed several times on this node; staging is off here until the "      \
	"timer of stage-data finds that the last crash was an hour ago\n"

static int count_recent(void)
{
	_cleanup_(fd_closep) int fd = privops_open(PRIVOP_OPEN_FILE, PRIVOP_DIR_RUN,
						   PRIVOP_FILE_CRASHES);
	uint64_t record[64], now = clock_ms();
	int count = 0;
	ssize_t n;

	/* If there are fewer records, lseek() fails, and reading starts at the first record. */
	(void)lseek(fd, -(off_t)sizeof(record), SEEK_END);
	n = read(fd, record, sizeof(record));
	for (ssize_t i = 0; i < n / (ssize_t)sizeof(*record); i++)
		count += record[i] <= now && now - record[i] < BREAKER_WINDOW_MS;
	return count;
}

bool breaker_count(void)
{
	const uint64_t now = clock_ms();

	if (privops_write(PRIVOP_DIR_RUN, PRIVOP_FILE_CRASHES, &now, sizeof(now)) < 0 ||
	    count_recent() < BREAKER_LIMIT)
		return false;
	if (privops_write(PRIVOP_DIR_RUN, PRIVOP_FILE_BREAKER, BREAKER_TEXT, strlen(BREAKER_TEXT)) <
	    0)
		return false;
	log_error("%d keepers crashed within an hour: no staging on this node for now",
		  BREAKER_LIMIT);
	return true;
}

bool breaker_reset(void)
{
	if (count_recent() > 0)
		return false;
	privops_do_name(PRIVOP_REMOVE, PRIVOP_DIR_RUN, PRIVOP_NAME_CRASHES, 0, 0, 0);
	privops_do_name(PRIVOP_REMOVE, PRIVOP_DIR_RUN, PRIVOP_NAME_BREAKER, 0, 0, 0);
	return true;
}

void breaker_report_death(const struct jobdir *d, struct state *st)
{
	static struct helper_site site;

	if (st->ending || st->failed || !st->keeper.pid || !state_is_current(st))
		return;
	helper_get_site_and_log(&site);
	log_set_job(st->job_id);
	log_error("the keeper has died: it stages nothing more, and what it has staged is removed "
		  "when the job ends");
	log_set_job(0);
	st->keeper = (struct state_proc){ 0 };
	if (jobdir_write_state(d, st) < 0)
		return; /* the next clean-up reports and counts it */
	node_metrics_add_death(&site, breaker_count());
}
