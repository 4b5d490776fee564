#include "common/util/child-bind.h"

#include <sys/prctl.h>
#include <unistd.h>

bool child_bind_to(pid_t parent, int sig)
{
	return prctl(PR_SET_PDEATHSIG, sig, 0, 0, 0) == 0 && getppid() == parent;
}
