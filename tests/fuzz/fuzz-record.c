/*
 * The record of a copy that stage-mover makes. The first byte says whether the input is such a
 * file, or lines that are written and read back.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>

#include "daemon/mover/record.h"

#define MAX_THINGS 64

static char dir[64];
static int top = -1;

/* A line may ask for a sum of each of 2^24 pieces: that is for who has the memory. */
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
	return size && n > (4u << 20) / size ? NULL : __real_calloc(n, size);
}

static void remove_dir(void)
{
	unlinkat(top, "record", 0);
	unlinkat(top, "journal", 0);
	rmdir(dir);
}

static void begin(void)
{
	strcpy(dir, "/dev/shm/fuzz-record-XXXXXX");
	FUZZ_CHECK(mkdtemp(dir));
	top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FUZZ_CHECK(top >= 0);
	atexit(remove_dir);
}

static bool is_sum(const char *text)
{
	return strlen(text) < SUM_TEXT_SIZE && strspn(text, "0123456789abcdef") == strlen(text);
}

static void check_table(const struct record_table *t)
{
	size_t n = 0;

	FUZZ_CHECK(!t->whole || (t->source && t->kind[0]));
	FUZZ_CHECK(strnlen(t->kind, sizeof(t->kind)) < sizeof(t->kind));
	for (const struct record_entry *e = t->last; e; e = e->below, n++) {
		const struct record_entry *found = record_find(t, e->path);

		FUZZ_CHECK(found && !strcmp(found->path, e->path));
		FUZZ_CHECK(strchr("dfhlp", e->type) && (e->n_sums > 0) == (e->sums != NULL));
		FUZZ_CHECK(e->n_sums == 0 ||
			   e->n_sums == (e->size + RECORD_PIECE - 1) / RECORD_PIECE);
		for (size_t i = 0; i < e->n_sums; i++)
			FUZZ_CHECK(is_sum(e->sums[i].text) &&
				   (e->type == 'p' || e->sums[i].text[0]));
	}
	FUZZ_CHECK(n == t->n_entries);
}

static int load(struct record_table **tp, const char *name, size_t max_lines)
{
	struct error err = ERROR_INIT;
	int r = record_load(tp, top, name, max_lines, &err);

	fuzz_check_error(r, &err);
	FUZZ_CHECK(r == 0 || r == -ENOMEM || (r == -E2BIG && max_lines));
	return r;
}

static void read_file(const uint8_t *data, size_t size, size_t max_lines)
{
	_cleanup_(record_table_freep) struct record_table *t = NULL;
	int fd = openat(top, "record", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	close(fd);
	if (load(&t, "record", max_lines) == 0)
		check_table(t);
}

/* ---- written and read back ---- */

struct thing {
	char type, path[64];
	struct stat st;
	struct record_sum sums[3];
	size_t n_sums;
};

/* The next of the input; what it has no bytes for is 0. */
struct input {
	const uint8_t *data;
	size_t size;
};

static uint64_t take(struct input *in, size_t n)
{
	uint64_t v = 0;

	for (; n > 0 && in->size > 0; n--, in->size--)
		v = v << 8 | *in->data++;
	return v;
}

static void take_thing(struct input *in, struct thing *t)
{
	size_t n = take(in, 1) % sizeof(t->path);

	*t = (struct thing){ .type = "dfhlp"[take(in, 1) % 5] };
	for (size_t i = 0; i < n; i++)
		t->path[i] = (char)(take(in, 1) % 255 + 1);
	if (!n)
		strcpy(t->path, ".");
	if (t->type == 'f' || t->type == 'h' || t->type == 'p')
		t->st.st_size = (off_t)(take(in, 4) % (3 * RECORD_PIECE)) + (t->type == 'p');
	t->st.st_mtim.tv_sec = (time_t)(take(in, 8) >> 1) * (take(in, 1) % 2 ? -1 : 1);
	if (t->type == 'd' || t->type == 'f' || t->type == 'h')
		t->st.st_mode = (mode_t)(t->st.st_mtim.tv_sec & RECORD_MODE);
	t->st.st_mtim.tv_nsec = (long)(take(in, 4) % 1000000000);
	if (t->type == 'f')
		t->n_sums = ((size_t)t->st.st_size + RECORD_PIECE - 1) / RECORD_PIECE;
	for (size_t i = 0; i < 3; i++)
		snprintf(t->sums[i].text, sizeof(t->sums[i].text), "%llx",
			 (unsigned long long)take(in, 8));
}

static void add(struct record *r, const struct thing *t)
{
	int code = t->type == 'p'
			   ? record_add_piece(r, &t->st, 0, &t->sums[0], t->path, NULL)
			   : record_add(r, t->type, &t->st, t->sums, t->n_sums, t->path, NULL);

	FUZZ_CHECK(code == 0);
}

static bool is_same(const struct record_entry *e, const struct thing *t)
{
	bool same = e->type == t->type && !strcmp(e->path, t->path) && e->n_sums >= t->n_sums &&
		    record_entry_is(e, &t->st) && record_entry_has_mode(e, &t->st);

	for (size_t i = 0; same && i < t->n_sums; i++)
		same = !strcmp(e->sums[i].text, t->sums[i].text);
	return same && (t->type != 'p' || !strcmp(e->sums[0].text, t->sums[0].text));
}

/* The journal has all of them, and the manifest all but pieces, the last of a path first. */
static void write_and_read(struct input in)
{
	static struct thing things[MAX_THINGS];
	_cleanup_(record_table_freep) struct record_table *t = NULL, *journal = NULL;
	_cleanup_(record_closep) struct record *r = NULL;
	const struct record_entry *e;
	struct thing source;
	size_t n = 0;

	unlinkat(top, "journal", 0);
	take_thing(&in, &source);
	FUZZ_CHECK(record_open(&r, top, "journal", "dir", source.path, NULL) == 0);
	for (; n < MAX_THINGS && in.size > 0; n++) {
		take_thing(&in, &things[n]);
		add(r, &things[n]);
	}
	FUZZ_CHECK(record_write_manifest(r, top, "record", "dir", source.path, NULL) == 0);
	FUZZ_CHECK(load(&t, "record", 0) == 0 && t->whole);
	check_table(t);
	FUZZ_CHECK(!strcmp(t->source, source.path) && !strcmp(t->kind, "dir"));
	e = t->last;
	for (size_t i = n; i-- > 0;) {
		if (things[i].type == 'p')
			continue;
		FUZZ_CHECK(e && is_same(e, &things[i]));
		e = e->below;
	}
	FUZZ_CHECK(!e);
	FUZZ_CHECK(load(&journal, "journal", 0) == 0 && !journal->whole);
	check_table(journal);
	if (n > 0)
		FUZZ_CHECK(record_find(journal, things[n - 1].path));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (top < 0)
		begin();
	if (size == 0)
		return 0;
	if (data[0] & 1)
		write_and_read((struct input){ data + 1, size - 1 });
	else
		read_file(data + 1, size - 1, data[0] / 16);
	return 0;
}
