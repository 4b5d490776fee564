/*
 * Appending a record is one write: two that count at once both count. Times are of the boot
 * clock; a record that lies in its future is from an earlier boot.
 */
#include "daemon/keeper/breaker.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/fd.h"
#include "common/log.h"

#define BREAKER_TEXT                                                                               \
	"stage-keeper has crashed several times on this node; staging is off here for an hour\n"

static int count_recent(int base_fd)
{
	_cleanup_(fd_closep) int fd = openat(base_fd, BREAKER_COUNT_FILE,
					     O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	uint64_t record[64], now = clock_ms();
	/* the last of them: where there are fewer, this fails at the first */
	ssize_t n = (lseek(fd, -(off_t)sizeof(record), SEEK_END), read(fd, record, sizeof(record)));
	int count = 0;

	for (ssize_t i = 0; i < n / (ssize_t)sizeof(*record); i++)
		count += record[i] <= now && now - record[i] < BREAKER_WINDOW_MS;
	return count;
}

void breaker_count(int base_fd)
{
	const int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC;
	_cleanup_(fd_closep) int fd = openat(base_fd, BREAKER_COUNT_FILE, flags | O_APPEND, 0600);
	_cleanup_(fd_closep) int breaker = -1;
	uint64_t now = clock_ms();

	if (fd < 0 || write(fd, &now, sizeof(now)) < 0 || count_recent(base_fd) < BREAKER_LIMIT)
		return;
	breaker = openat(base_fd, BREAKER_FILE, flags | O_EXCL, 0644);
	if (breaker < 0)
		return;
	fd_write_all(breaker, BREAKER_TEXT, strlen(BREAKER_TEXT));
	log_error("%d keepers crashed within an hour: no staging on this node for now",
		  BREAKER_LIMIT);
}

void breaker_reset(int base_fd)
{
	if (count_recent(base_fd) > 0)
		return;
	unlinkat(base_fd, BREAKER_COUNT_FILE, 0);
	unlinkat(base_fd, BREAKER_FILE, 0);
}
