/*
 * With versions before 2.32, the caller has to detect that a damaged stream makes the library
 * return again and again without any progress.
 */
#include "daemon/engines/archive/inflate.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>

#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>

#include "common/util/error.h"

struct inflate {
	struct inflate_state state;
	uint32_t wrapper; /* ISAL_GZIP or ISAL_DEFLATE */
};

_Static_assert(sizeof(struct inflate) <= INFLATE_MEMORY, "what is planned with");

static int inflate_make(struct inflate **ip, uint32_t wrapper)
{
	struct inflate *i = malloc(sizeof(*i));

	if (!i)
		return -ENOMEM;
	i->wrapper = wrapper;
	isal_inflate_init(&i->state);
	i->state.crc_flag = wrapper;
	*ip = i;
	return 0;
}

int inflate_new(struct inflate **ip)
{
	return inflate_make(ip, ISAL_GZIP);
}

int inflate_new_raw(struct inflate **ip)
{
	return inflate_make(ip, ISAL_DEFLATE);
}

/* The state contains no pointers except those to input and output, which each call sets, so it can
 * be copied. */
int inflate_clone(struct inflate **copyp, const struct inflate *i)
{
	struct inflate *copy = malloc(sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	*copy = *i;
	*copyp = copy;
	return 0;
}

void inflate_free(struct inflate *i)
{
	free(i);
}

void inflate_reset(struct inflate *i)
{
	isal_inflate_reset(&i->state);
	i->state.crc_flag = i->wrapper;
}

static uint32_t clamp(size_t n)
{
	return n < INT_MAX ? (uint32_t)n : INT_MAX;
}

static const char *describe(int r)
{
	switch (r) {
	case ISAL_INVALID_BLOCK:
		return "invalid block";
	case ISAL_INVALID_SYMBOL:
		return "invalid code";
	case ISAL_INVALID_LOOKBACK:
		return "invalid distance too far back";
	case ISAL_INVALID_WRAPPER:
		return "incorrect header check";
	case ISAL_UNSUPPORTED_METHOD:
		return "unknown compression method";
	case ISAL_INCORRECT_CHECKSUM:
		return "incorrect data check";
	default:
		return "bad data";
	}
}

int inflate_run(struct inflate *i, struct inflate_io *io, struct error *err)
{
	struct inflate_state *s = &i->state;
	bool could_go_on = io->in_size > 0 && io->out_size > 0;
	size_t took, gave;
	int r;

	s->next_in = (uint8_t *)io->in; /* the library does not write to it */
	s->avail_in = clamp(io->in_size);
	s->next_out = io->out;
	s->avail_out = clamp(io->out_size);
	r = isal_inflate(s);
	took = (size_t)(s->next_in - io->in);
	gave = (size_t)(s->next_out - io->out);
	io->in += took;
	io->in_size -= took;
	io->out += gave;
	io->out_size -= gave;
	if (r != ISAL_DECOMP_OK || (could_go_on && took == 0 && gave == 0))
		return error_set(err, EBADMSG, "%s%s", i->wrapper == ISAL_GZIP ? "gzip: " : "",
				 describe(r));
	return s->block_state != ISAL_BLOCK_FINISH;
}

uint32_t inflate_add_crc(uint32_t crc, const void *data, size_t n)
{
	return crc32_gzip_refl(crc, data, n);
}
