/* The keeper's record, torn or of another version. */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>

#include "daemon/keeper/state.h"

static char dir[64];

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
		fd = openat(dirfd, "state", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FUZZ_CHECK(fd >= 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
	FUZZ_CHECK(ftruncate(fd, (off_t)size) == 0);
	if (state_read(dirfd, &st) < 0) {
		FUZZ_CHECK(st.job_id == 0 && st.procs[0].pid == 0);
		return 0;
	}
	close(fd); /* another file gets its name */
	fd = -1;
	for (size_t i = 0; i < STATE_MAX_PROCS; i++)
		FUZZ_CHECK(st.procs[i].pid >= 0 && st.procs[i].pid != 1);
	FUZZ_CHECK(state_write(dirfd, &st) == 0 && state_read(dirfd, &again) == 0);
	FUZZ_CHECK(again.job_id == st.job_id && again.uid == st.uid &&
		   !memcmp(again.procs, st.procs, sizeof(st.procs)));
	return 0;
}
