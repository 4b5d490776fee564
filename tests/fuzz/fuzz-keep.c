/*
 * The record of a kept dataset, incomplete or from another boot, and the names beside it. The first
 * byte says whether the input is the whole file, a file that begins with this boot, the fields of a
 * record that is written and read back, or a name.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <sys/stat.h>

#include "common/keep/keep-internal.h"

static char dir[64], boot[64];
static int top = -1; /* of dir */

static void remove_dir(void)
{
	unlinkat(top, "record", 0);
	rmdir(dir);
}

static void begin(void)
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, boot, sizeof(boot) - 1);

	FUZZ_CHECK(n > 0);
	boot[strcspn(boot, "\n")] = '\0';
	close(fd);
	strcpy(dir, "/dev/shm/fuzz-keep-XXXXXX");
	FUZZ_CHECK(mkdtemp(dir));
	top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FUZZ_CHECK(top >= 0);
	atexit(remove_dir);
}

/* What is taken is of this boot, and says when it was used. */
static int read_entry(struct keep_entry *e)
{
	struct stat st;
	int r;

	*e = (struct keep_entry){ dup(top), NULL, 0 };
	r = keep_entry_read(e);
	FUZZ_CHECK(r == 0 || r == -ESTALE);
	if (r < 0)
		return r;
	FUZZ_CHECK(e->record && !strcmp(kv_get_or_empty(e->record, "boot"), boot));
	FUZZ_CHECK(fstatat(top, "record", &st, 0) == 0 &&
		   e->used_ms == (uint64_t)st.st_mtim.tv_sec * 1000 +
					 (uint64_t)st.st_mtim.tv_nsec / 1000000);
	return 0;
}

static void read_file(const uint8_t *data, size_t size, bool with_boot)
{
	int fd = openat(top, "record", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct keep_entry e;

	FUZZ_CHECK(fd >= 0);
	if (with_boot)
		FUZZ_CHECK(dprintf(fd, "boot=%s%c", boot, 0) > 0);
	FUZZ_CHECK(write(fd, data, size) == (ssize_t)size);
	close(fd);
	read_entry(&e);
	keep_entry_deinit(&e);
}

static void write_and_read(const uint8_t *data, size_t size)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	const char *key, *value;
	struct keep_entry e;
	size_t n = 0;
	int r;

	if (kv_new_from_data(&kv, data, size) != 0)
		return;
	r = keep_write_record(top, kv);
	FUZZ_CHECK(r == 0 || r == -E2BIG);
	if (r == 0)
		FUZZ_CHECK(read_entry(&e) == 0);
	for (; r == 0 && kv_get_field(kv, n, &key, &value); n++)
		FUZZ_CHECK(!strcmp(key, "boot") || !strcmp(kv_get_or_empty(e.record, key), value));
	if (r == 0)
		keep_entry_deinit(&e);
}

/* A lease is used by who has a run directory, and here nobody has one. */
static void look_at_name(const char *name)
{
	const struct keep k = { top, dir };
	struct keep_entry e = { top, NULL, 0 };
	bool is_name = name[0] && strlen(name) < 256 && !strchr(name, '/') && strcmp(name, ".") &&
		       strcmp(name, "..");
	int fd;

	FUZZ_CHECK(!keep_is_sum(name) || (strlen(name) == KEEP_NAME_SIZE - 1 &&
					  strspn(name, "0123456789abcdef") == strlen(name)));
	if (!is_name || !strcmp(name, "record"))
		return;
	fd = openat(top, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	close(fd);
	FUZZ_CHECK(!keep_entry_is_used(&k, &e));
	FUZZ_CHECK(!keep_entry_settle(&k, &e));
	FUZZ_CHECK((faccessat(top, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0) ==
		   !strncmp(name, "job.", 4));
	unlinkat(top, name, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *text = NULL;

	if (top < 0)
		begin();
	if (size == 0)
		return 0;
	switch (data[0] % 4) {
	case 0:
	case 1:
		read_file(data + 1, size - 1, data[0] % 4);
		break;
	case 2:
		write_and_read(data + 1, size - 1);
		break;
	default:
		text = fuzz_text(data + 1, size - 1);
		look_at_name(text);
	}
	return 0;
}
