/*
 * What is compressed: the first byte says how. One in sixteen is unpacked by threads: starting them
 * takes longer than an input.
 */
#include "tests/fuzz/fuzz.h"

#include "daemon/worker/unpack/ordered.h"
#include "daemon/worker/unpack/stream.h"
#include "daemon/worker/unpack/unfilter.h"

#define MAX_BYTES (4 << 20)

static const enum facts_filter filters[] = {
	FILTER_GZIP, FILTER_ZSTD, FILTER_LZ4, FILTER_XZ, FILTER_BZIP2,
};

static size_t n_threads;

size_t __wrap_ordered_get_default_threads(void);

size_t __wrap_ordered_get_default_threads(void)
{
	return n_threads;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error err = ERROR_INIT;
	struct stream *in, *s = NULL;
	const void *piece;
	size_t total = 0;
	ssize_t n;
	int r;

	if (size < 2)
		return 0;
	n_threads = size % 16 ? 0 : 2;
	FUZZ_CHECK(stream_new_memory(&in, data + 1, size - 1, data[0] & 0x80 ? 7 : 0) == 0);
	r = unfilter_new(&s, in, filters[(data[0] & 0x7f) % ARRAY_SIZE(filters)], &err);
	if (r < 0) {
		fuzz_check_error(r, &err);
		stream_close(in);
		return 0;
	}
	while ((n = stream_next(s, &piece, &err)) > 0 && (total += (size_t)n) < MAX_BYTES)
		;
	if (n < 0)
		fuzz_check_error((int)n, &err);
	stream_close(s);
	return 0;
}
