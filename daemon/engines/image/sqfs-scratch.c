#include "daemon/engines/image/sqfs-scratch.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/util/buffer.h"

static pthread_once_t scratch_once = PTHREAD_ONCE_INIT;
static pthread_key_t scratch_key;
static _Thread_local size_t scratch_size;

static void scratch_init(void)
{
	if (pthread_key_create(&scratch_key, free) != 0)
		abort();
}

void *sqfs_scratch_get(size_t size)
{
	void *buf;

	pthread_once(&scratch_once, scratch_init);
	buf = pthread_getspecific(scratch_key);
	if (buf && size <= scratch_size)
		return buf;
	free(buf);
	buf = buffer_new(size);
	scratch_size = buf ? size : 0;
	if (pthread_setspecific(scratch_key, buf) == 0)
		return buf;
	free(buf);
	return NULL;
}
