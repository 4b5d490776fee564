/*
 * Offsets count bytes from the beginning of the log, so a reader can stop and go on: the ring holds
 * [start, end), and start is always the beginning of a line.
 */
#include "daemon/stagingd/log-ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct log_ring {
	uint64_t start, end;
	char data[LOG_RING_SIZE];
};

int log_ring_new(struct log_ring **ringp)
{
	struct log_ring *ring = calloc(1, sizeof(*ring));

	if (!ring)
		return -ENOMEM;
	*ringp = ring;
	return 0;
}

void log_ring_free(struct log_ring *ring)
{
	free(ring);
}

static char get_byte(const struct log_ring *ring, uint64_t offset)
{
	return ring->data[offset % LOG_RING_SIZE];
}

static void drop_line(struct log_ring *ring)
{
	while (ring->start < ring->end && get_byte(ring, ring->start++) != '\n')
		;
}

void log_ring_add(struct log_ring *ring, const char *line)
{
	size_t n = strnlen(line, LOG_RING_SIZE / 4);

	while (ring->end + n + 1 - ring->start > LOG_RING_SIZE)
		drop_line(ring);
	for (size_t i = 0; i < n; i++)
		ring->data[ring->end++ % LOG_RING_SIZE] = line[i] == '\n' ? ' ' : line[i];
	ring->data[ring->end++ % LOG_RING_SIZE] = '\n';
}

int log_ring_read(const struct log_ring *ring, uint64_t *offsetp, char *buf, size_t size)
{
	uint64_t p = *offsetp > ring->start ? *offsetp : ring->start;
	size_t n = 0;
	char c;

	if (p >= ring->end)
		return -ENODATA;
	while ((c = get_byte(ring, p++)) != '\n')
		if (n + 1 < size)
			buf[n++] = c;
	buf[n] = '\0';
	*offsetp = p;
	return (int)n;
}
