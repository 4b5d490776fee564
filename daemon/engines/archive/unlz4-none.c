#include "daemon/engines/archive/unlz4.h"

#include <errno.h>

int unlz4_new(struct stream **sp, struct stream *in, struct error *err)
{
	return -ENOTSUP;
}
