/*
 * Stands in for decode.c in a build without libarchive.
 */
#include "daemon/engines/archive/decode.h"

#include <errno.h>

#include "common/util/error.h"

static int refuse(struct error *err)
{
	return error_set(err, EOPNOTSUPP, "this stage-worker was built without libarchive");
}

bool decode_is_available(void)
{
	return false;
}

int decode_decompress(struct stream **sp, struct stream *in, struct error *err)
{
	return refuse(err);
}

bool decode_is_wrapped_twice(const struct stream *s)
{
	return false;
}

uint64_t decode_get_consumed(const struct stream *s)
{
	return 0;
}

int decode_drain_source(struct stream *s, struct error *err)
{
	return refuse(err);
}

int decode_open_tar(struct decode **dp, struct stream *in, struct error *err)
{
	return refuse(err);
}

int decode_open_zip_file(struct decode **dp, struct ctx *ctx, int fd, struct error *err)
{
	return refuse(err);
}

int decode_open_zip_stream(struct decode **dp, struct stream *in, struct error *err)
{
	return refuse(err);
}

void decode_close(struct decode *d)
{
}

int decode_next(struct decode *d, struct member *m, struct error *err)
{
	return refuse(err);
}

int decode_read(struct decode *d, const void **datap, size_t *sizep, uint64_t *offsetp,
		struct error *err)
{
	return refuse(err);
}

int decode_finish(struct decode *d, const char **odd_end, struct error *err)
{
	return refuse(err);
}
