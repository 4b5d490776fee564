/*
 * slow-pace: computes how long a slow file system takes. Requests wait independently, so requests
 * at the same time overlap, as on a file system whose time is spent in the network. The bandwidth
 * is a queue: each stream, and all streams together, pass a fixed number of bytes a second, one
 * request after the other. Times are ns of CLOCK_MONOTONIC. It is used by one thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct slow_pace {
	int64_t meta_ns, read_ns;	 /* of each metadata operation, of each read */
	double stream_rate, total_rate;	 /* bytes a second, 0: no limit */
	int64_t total_busy;		 /* until then */
	uint64_t n_meta, n_reads, bytes; /* so far */
};

/* What one open file has of streams: one for each thread that reads it, as a striped file has. */
enum { SLOW_STREAMS = 64 };
struct slow_stream {
	struct {
		pid_t thread;
		int64_t busy;
	} slots[SLOW_STREAMS];
};

int64_t slow_pace_now(void);

/* When a metadata operation that has come now is answered. */
int64_t slow_pace_meta(struct slow_pace *p, int64_t now);
/* When thread has n bytes of the file that it asks for now. */
int64_t slow_pace_read(struct slow_pace *p, struct slow_stream *stream, pid_t thread, size_t n,
		       int64_t now);
