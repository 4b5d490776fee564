#include "daemon/keeper/reap.h"

#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/rundir.h"
#include "daemon/keeper/breaker.h"
#include "daemon/keeper/clean.h"
#include "daemon/keeper/jobdir.h"
#include "daemon/keeper/tier.h"

#define REAP_TIMEOUT_MS 30000

static int reap_one(void *arg, int base_fd, const char *name)
{
	const struct clean_options o = { .timeout_ms = REAP_TIMEOUT_MS };
	struct error err = ERROR_INIT;
	int *result = arg;
	int r = clean_job(base_fd, name, &o, &err);

	if (r < 0) {
		log_error("job %s: %s", name, err.text);
		*result = r;
	}
	return 0;
}

static int reap_one_aside(void *arg, int base_fd, const char *name)
{
	return strchr(name, '.') ? reap_one(arg, base_fd, name) : 0;
}

void reap_aside(void)
{
	int left;

	(void)jobdir_for_each(reap_one_aside, &left, NULL);
}

int reap_all(const char *conf_path, struct error *err)
{
	_cleanup_(fd_closep) int base = jobdir_open_base(NULL, err);
	int r, left = 0;

	if (base < 0)
		return base;
	r = jobdir_for_each(reap_one, &left, err);
	tier_sweep(conf_path, base, clock_ms() + REAP_TIMEOUT_MS);
	breaker_reset(base);
	if (r == 0 && left < 0)
		r = error_errno(err, -left, "something is left in %s", STAGE_RUN_DIR);
	return r;
}
