/*
 * Compressed data. The first byte says the format. One in sixteen inputs is decompressed by
 * threads, because starting threads takes longer than an input. The limit on memory is not tried
 * with each input, because sanitizers use far more memory than it allows. Blocks are mapped once.
 */
#include "tests/fuzz/fuzz.h"

#include <pthread.h>
#include <sanitizer/asan_interface.h>

#include "common/sandbox/data-rlimit.h"
#include "daemon/engines/archive/ordered.h"
#include "daemon/engines/archive/stream.h"
#include "daemon/engines/archive/decompress.h"
#include "daemon/engines/copy/block.h"

#define MAX_BYTES (4 << 20)
#define MAX_FREE 4

static const enum facts_filter filters[] = {
	FILTER_GZIP, FILTER_ZSTD, FILTER_LZ4, FILTER_XZ, FILTER_BZIP2, FILTER_LZMA, FILTER_LZIP,
};

static size_t n_threads;

static struct {
	pthread_mutex_t lock;
	void *free[MAX_FREE];
	size_t n;
} blocks = { .lock = PTHREAD_MUTEX_INITIALIZER };

size_t __wrap_ordered_get_default_threads(void);
void __wrap_data_rlimit_set(unsigned threads);
void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t size);
void *__real_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t size);

size_t __wrap_ordered_get_default_threads(void)
{
	return n_threads;
}

void __wrap_data_rlimit_set(unsigned threads)
{
}

void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
	void *block = NULL;

	pthread_mutex_lock(&blocks.lock);
	if (size == BLOCK_SIZE && blocks.n > 0)
		block = blocks.free[--blocks.n];
	pthread_mutex_unlock(&blocks.lock);
	if (!block)
		return __real_mmap(at, size, prot, flags, fd, offset);
	ASAN_UNPOISON_MEMORY_REGION(block, size);
	return block;
}

/* Who uses it still is found, as by a fault. */
int __wrap_munmap(void *at, size_t size)
{
	bool kept = false;

	pthread_mutex_lock(&blocks.lock);
	if (size == BLOCK_SIZE && blocks.n < MAX_FREE) {
		ASAN_POISON_MEMORY_REGION(at, size);
		blocks.free[blocks.n++] = at;
		kept = true;
	}
	pthread_mutex_unlock(&blocks.lock);
	return kept ? 0 : __real_munmap(at, size);
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
	r = decompress_new(&s, in, filters[(data[0] & 0x7f) % ARRAY_SIZE(filters)], &err);
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
