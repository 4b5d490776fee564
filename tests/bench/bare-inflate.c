/*
 * The blocks of an image with one file follow each other after the superblock. Their positions are
 * found before the time is measured, because a server has them from the image's tables. Each thread
 * decompresses every n-th block and writes it to its own pipe. The reader takes the blocks from the
 * pipes in the order of the file. So each byte is copied into the kernel and out of it, as between
 * a FUSE server and its reader, and nothing else is done with it.
 */
#include "bare.h"

#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <libdeflate.h>

#define MAX_INFLATERS 64
#define MAX_BLOCKS (1 << 20)
#define SUPER_SIZE 96
#define BLOCK_SIZE (1 << 20) /* at most */
#define PIPE_SIZE (1 << 20)
#define ALIGN 64

static struct {
	int n_threads, n_blocks;
	const uint8_t *image;
	struct {
		size_t at, in, out;
	} * blocks;
	int pipes[MAX_INFLATERS][2];
} image;

static void *new_block(void)
{
	void *buf = aligned_alloc(ALIGN, BLOCK_SIZE);

	if (!buf)
		err(1, "memory");
	return buf;
}

static struct libdeflate_decompressor *new_inflater(void)
{
	struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();

	if (!d)
		err(1, "memory");
	return d;
}

/* Up to what is no stream of zlib's: the tables. */
static void find_blocks(size_t size)
{
	struct libdeflate_decompressor *d = new_inflater();
	size_t at = SUPER_SIZE, in, out;
	void *buf = new_block();

	image.blocks = calloc(MAX_BLOCKS, sizeof(*image.blocks));
	if (!image.blocks)
		err(1, "memory");
	while (image.n_blocks < MAX_BLOCKS &&
	       libdeflate_zlib_decompress_ex(d, image.image + at, size - at, buf, BLOCK_SIZE, &in,
					     &out) == LIBDEFLATE_SUCCESS) {
		image.blocks[image.n_blocks].at = at;
		image.blocks[image.n_blocks].in = in;
		image.blocks[image.n_blocks++].out = out;
		at += in;
	}
	free(buf);
	libdeflate_free_decompressor(d);
}

static void *inflate_thread(void *arg)
{
	struct libdeflate_decompressor *d = new_inflater();
	int me = (int)(intptr_t)arg;
	char *buf = new_block();

	for (int i = me; i < image.n_blocks; i += image.n_threads) {
		size_t size = image.blocks[i].out;

		if (libdeflate_zlib_decompress(d, image.image + image.blocks[i].at,
					       image.blocks[i].in, buf, size,
					       NULL) != LIBDEFLATE_SUCCESS)
			errx(1, "a block is damaged");
		for (size_t done = 0; done < size;) {
			ssize_t n = write(image.pipes[me][1], buf + done, size - done);

			if (n < 0)
				err(1, "write");
			done += (size_t)n;
		}
	}
	free(buf);
	libdeflate_free_decompressor(d);
	return NULL;
}

static uint64_t read_blocks(void)
{
	char *buf = new_block();
	uint64_t all = 0;

	for (int i = 0; i < image.n_blocks; i++) {
		for (size_t done = 0; done < image.blocks[i].out;) {
			ssize_t n = read(image.pipes[i % image.n_threads][0], buf + done,
					 image.blocks[i].out - done);

			if (n <= 0)
				err(1, "read");
			done += (size_t)n;
		}
		all += image.blocks[i].out;
	}
	free(buf);
	return all;
}

static void open_image(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size <= SUPER_SIZE)
		err(1, "open %s", path);
	image.image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (image.image == MAP_FAILED)
		err(1, "map %s", path);
	close(fd);
	find_blocks((size_t)st.st_size);
}

int bare_inflate(int argc, char **argv)
{
	pthread_t threads[MAX_INFLATERS];
	struct timespec begin, end;
	uint64_t bytes;

	image.n_threads = argc < 2 ? 0 : atoi(argv[0]);
	if (image.n_threads < 1 || image.n_threads > MAX_INFLATERS)
		errx(2, "usage: probe inflate N IMAGE, N up to %d", MAX_INFLATERS);
	open_image(argv[1]);
	for (int i = 0; i < image.n_threads; i++) {
		if (pipe2(image.pipes[i], O_CLOEXEC) < 0)
			err(1, "pipe");
		(void)fcntl(image.pipes[i][1], F_SETPIPE_SZ, PIPE_SIZE);
	}
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (intptr_t i = 0; i < image.n_threads; i++)
		if (pthread_create(&threads[i], NULL, inflate_thread, (void *)i))
			errx(1, "no thread");
	bytes = read_blocks();
	clock_gettime(CLOCK_MONOTONIC, &end);
	for (int i = 0; i < image.n_threads; i++)
		pthread_join(threads[i], NULL);
	printf("%.6f %" PRIu64 "\n",
	       (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9,
	       bytes);
	return 0;
}
