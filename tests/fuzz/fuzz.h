/*
 * fuzz: what the fuzz targets share. Each target is a file that reads one input; libFuzzer makes
 * the inputs, ASan and UBSan find what goes wrong (tools/fuzz).
 */
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"

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
	FUZZ_CHECK(fd >= 0 && (size == 0 || pwrite(fd, data, size, 0) == (ssize_t)size));
	FUZZ_CHECK(ftruncate(fd, (off_t)size) == 0); /* behind it, so that its pages stay */
	return fd;
}

/* The input as a file with a name. */
static inline void fuzz_write_file(const char *path, const void *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	close(fd);
}

/* How many descriptors are open: as many before as after, or one was lost. Descriptors above
 * FUZZ_MAX_FDS are not counted, because a look at each takes time. */
#define FUZZ_MAX_FDS 128
static inline int fuzz_count_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < FUZZ_MAX_FDS; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* One packet with n_fds descriptors beside it. 0, or -1: the other end is gone or full. */
static inline int fuzz_send(int sock, const void *data, size_t size, size_t n_fds)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int) * 64)];
	} control = { 0 };
	struct iovec iov = { .iov_base = (void *)data, .iov_len = size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	for (size_t i = 0; i < n_fds; i++)
		memcpy(CMSG_DATA(&control.align) + i * sizeof(int), &sock, sizeof(int));
	if (n_fds > 0) {
		msg.msg_control = control.buf;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
	}
	return sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -1 : 0;
}

/* A refusal says something, in one line. */
static inline void fuzz_check_error(int r, const struct error *err)
{
	FUZZ_CHECK(r >= 0 || err->text[0]);
	FUZZ_CHECK(!strchr(err->text, '\n') && !strchr(err->text, '\x1b'));
}
