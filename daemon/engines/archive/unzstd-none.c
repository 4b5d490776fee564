#include "daemon/engines/archive/unzstd.h"

#include <errno.h>

int unzstd_new(struct stream **sp, struct stream *in, struct error *err)
{
	return -ENOTSUP;
}
