#include "daemon/manager/death.h"

#include "common/util/log.h"
#include "daemon/manager/breaker.h"
#include "daemon/manager/helper-run.h"
#include "daemon/manager/jobdir.h"
#include "daemon/manager/node-metrics.h"
#include "daemon/manager/state.h"

void death_report(const struct jobdir *d, struct state *st)
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
