/*
 * log-ring: the last 64 KiB of log lines, for `stagectl log`.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/util/cleanup.h"

#define LOG_RING_SIZE (64 * 1024)

struct log_ring;

int log_ring_new(struct log_ring **ringp);
void log_ring_free(struct log_ring *ring);
DEFINE_FREEP(struct log_ring, log_ring_free)

/* Adds a line. Lines longer than a quarter of the ring are cut. */
void log_ring_add(struct log_ring *ring, const char *line);

/* Copies the line at *offsetp (0: the oldest) into buf, without its newline, and sets *offsetp to
 * the next line. If the line at *offsetp is already overwritten, the oldest one is read. Returns
 * the length of the text in buf (a line that does not fit is cut), or -ENODATA at the end. */
int log_ring_read(const struct log_ring *ring, uint64_t *offsetp, char *buf, size_t size);
