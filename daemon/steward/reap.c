#include "daemon/steward/reap.h"

#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/rundir.h"
#include "daemon/steward/breaker.h"
#include "daemon/steward/clean.h"
#include "daemon/steward/jobdir.h"
#include "daemon/steward/tier.h"

#define REAP_TIMEOUT_MS 30000

static int reap_one(void *arg, const struct jobdir_id *id)
{
	const struct clean_options o = { .timeout_ms = REAP_TIMEOUT_MS };
	struct error err = ERROR_INIT;
	int *result = arg;
	int r = clean_job(id, &o, &err);

	if (r < 0) {
		log_error("job %u: %s", id->job_id, err.text);
		*result = r;
	}
	return 0;
}

static int reap_one_aside(void *arg, const struct jobdir_id *id)
{
	return id->aside_ms ? reap_one(arg, id) : 0;
}

void reap_aside(void)
{
	int left;

	(void)jobdir_for_each(reap_one_aside, &left, NULL);
}

int reap_all(struct error *err)
{
	_cleanup_(fd_closep) int base = jobdir_open_base(false, err);
	int r, left = 0;

	if (base < 0)
		return base;
	r = jobdir_for_each(reap_one, &left, err);
	tier_sweep(clock_ms() + REAP_TIMEOUT_MS);
	breaker_reset();
	if (r == 0 && left < 0)
		r = error_errno(err, -left, "something is left in %s", STAGE_RUN_DIR);
	return r;
}
