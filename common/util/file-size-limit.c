#include "common/util/file-size-limit.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>

#include "common/util/error.h"

static void do_nothing(int sig)
{
}

void file_size_limit_catch(void)
{
	const struct sigaction catch = { .sa_handler = do_nothing, .sa_flags = SA_RESTART };
	struct sigaction old;

	if (sigaction(SIGXFSZ, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
		sigaction(SIGXFSZ, &catch, NULL);
}

void file_size_limit_raise(struct rlimit *oldp)
{
	struct rlimit raised;

	*oldp = (struct rlimit){ RLIM_INFINITY, RLIM_INFINITY };
	(void)getrlimit(RLIMIT_FSIZE, oldp);
	raised = (struct rlimit){ oldp->rlim_max, oldp->rlim_max };
	(void)setrlimit(RLIMIT_FSIZE, &raised);
}

void file_size_limit_restore(const struct rlimit *old)
{
	(void)setrlimit(RLIMIT_FSIZE, old);
}

void file_size_limit_explain(struct error *err)
{
	struct rlimit limit;

	if (err->code == -EFBIG && getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
	    limit.rlim_cur != RLIM_INFINITY)
		error_set_hint(err, err->code, FILE_SIZE_LIMIT_HINT);
}
