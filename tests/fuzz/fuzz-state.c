/* The keeper's record, incomplete or of another version. */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>

#include "tests/unit/unit-state.h"

static char dir[64];

static int open_at(int dirfd, int flags)
{
	return openat(dirfd, "state", flags | O_CLOEXEC, 0600);
}

static int read_record(int dirfd, struct state *st)
{
	_cleanup_(fd_closep) int fd = open_at(dirfd, O_RDONLY);

	return state_read(fd, st);
}

static void remove_dir(void)
{
	char path[80];

	snprintf(path, sizeof(path), "%s/state", dir);
	unlink(path);
	rmdir(dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct state st, again;
	static int dirfd = -1, fd = -1;

	if (dirfd < 0) {
		strcpy(dir, "/dev/shm/fuzz-state-XXXXXX");
		FUZZ_CHECK(mkdtemp(dir));
		atexit(remove_dir);
		dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (fd < 0)
		fd = open_at(dirfd, O_WRONLY | O_CREAT | O_TRUNC);
	FUZZ_CHECK(fd >= 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	FUZZ_CHECK(ftruncate(fd, (off_t)size) == 0);
	if (read_record(dirfd, &st) < 0) {
		FUZZ_CHECK(st.job_id == 0 && st.procs[0].pid == 0);
		return 0;
	}
	for (size_t i = 0; i < STATE_MAX_PROCS; i++)
		FUZZ_CHECK(st.procs[i].pid >= 0 && st.procs[i].pid != 1);
	FUZZ_CHECK(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
	FUZZ_CHECK(unit_write_state(fd, &st) == 0 && read_record(dirfd, &again) == 0);
	FUZZ_CHECK(lseek(fd, 0, SEEK_SET) == 0);
	FUZZ_CHECK(again.job_id == st.job_id && again.uid == st.uid &&
		   !memcmp(again.procs, st.procs, sizeof(st.procs)));
	return 0;
}
