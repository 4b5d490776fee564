/*
 * oracle: functions that are shared by the programs that stage whole archives and images with the
 * real stagers and check the result: a directory in memory, random numbers that can be repeated,
 * and the environment of a worker without a daemon (oracle.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/dataset/dataset.h"
#include "common/dataset/facts.h"
#include "common/util/error.h"

/* What must not be. Says so, and what it was about, and ends the program; the directory with the
 * input stays. */
#define ORACLE_CHECK(condition, ...)                                                               \
	do {                                                                                       \
		if (!(condition))                                                                  \
			oracle_fail(__FILE__, __LINE__, #condition, __VA_ARGS__);                  \
	} while (0)
void oracle_fail(const char *file, int line, const char *condition, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 4, 5)));

/* Numbers: the same seed gives the same run. */
void oracle_seed(uint64_t seed);
uint32_t oracle_random(uint32_t below);
static inline bool oracle_chance(uint32_t percent)
{
	return oracle_random(100) < percent;
}

/*
 * A fresh directory in memory, removed at a normal end: input (the archive or image), and beneath
 * a few levels, so that ".." does not lead out of it, out/, where target/ is made.
 */
struct oracle {
	char dir[64]; /* the top */
	char input[80];
	char deep[128]; /* the lowest of the levels: has out/ and nothing else of ours */
	int out_fd;
	int target_fd; /* what was made, -1: nothing */
};

#define ORACLE_LEVELS "/1/2/3/4/5"

void oracle_open(struct oracle *o);
void oracle_close(struct oracle *o);

void oracle_write_input(struct oracle *o, const void *data, size_t size);
/* A file's bytes; the caller frees. */
void *oracle_read_file(const char *path, size_t *sizep);

/* Each byte of a squashfs image: does it lie in a block that is compressed by zlib, which brings a
 * sum along? The caller frees. */
bool *oracle_cover_image(const unsigned char *data, size_t size);

/* Stages the input by method=extract, as its first bytes say; 0, or what was said against it. What
 * came of it is target_fd, until oracle_clear(). ds: strip, subdir, nested, verify are its own. */
int oracle_extract(struct oracle *o, struct dataset *ds, struct error *err);
void oracle_clear(struct oracle *o);

/* Calls fn for everything beneath fd, "." first. */
struct stat;
void oracle_walk(int fd,
		 void (*fn)(void *arg, int dirfd, const char *name, const char *path,
			    const struct stat *st),
		 void *arg);

/* A sum over names, kinds, modes, times, links and content beneath fd. */
uint64_t oracle_sum_tree(int fd);
