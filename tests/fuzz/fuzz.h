/*
 * fuzz: what the fuzz targets share. Each target is a file that reads one input; libFuzzer makes
 * the inputs, ASan and UBSan find what goes wrong (tools/fuzz).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A promise that does not hold is a finding. */
#define FUZZ_CHECK(condition)                                                                      \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* The input as a text. Freed by the caller. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	FUZZ_CHECK(text);
	memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

/* The input as a file: one for all inputs. */
static inline int fuzz_file(const uint8_t *data, size_t size)
{
	static int fd = -1;

	if (fd < 0)
		fd = memfd_create("input", MFD_CLOEXEC);
	FUZZ_CHECK(fd >= 0 && ftruncate(fd, 0) == 0);
	FUZZ_CHECK(size == 0 || pwrite(fd, data, size, 0) == (ssize_t)size);
	return fd;
}

/* A refusal says something, in one line. */
static inline void fuzz_check_error(int r, const struct error *err)
{
	FUZZ_CHECK(r >= 0 || err->text[0]);
	FUZZ_CHECK(!strchr(err->text, '\n') && !strchr(err->text, '\x1b'));
}
