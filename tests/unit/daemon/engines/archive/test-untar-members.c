/* Our reader against libarchive: whatever the archive, the same members, or none. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/util/error.h"
#include "daemon/engines/archive/stream.h"
#include "daemon/engines/archive/untar-members.h"
#include "daemon/engines/copy/block.h"

#define BLOCK 512
#define MAX_DUMP (1u << 20)

static const struct members_hook no_hook;

struct dump {
	int r;
	struct error error;
	size_t n;
	char text[MAX_DUMP];
};

static void add(struct dump *d, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (d->n < MAX_DUMP)
		d->n += (size_t)vsnprintf(d->text + d->n, MAX_DUMP - d->n, fmt, ap);
	va_end(ap);
}

/* Sum of the data, by the place of each byte, so that holes and zeros are the same. */
static int dump_data(struct dump *d, struct members *m)
{
	uint64_t sum = 0, end = 0;
	struct piece p;
	int r;

	while ((r = members_read(m, &p, &d->error)) > 0) {
		assert_true(p.size > 0);
		for (size_t i = 0; i < p.size; i++)
			sum += p.data[i] * (p.offset + i + 1);
		end = p.offset + p.size;
	}
	add(d, " %llx %llu\n", (unsigned long long)sum, (unsigned long long)end);
	return r;
}

static void dump_members(struct dump *d, struct members *m)
{
	struct member member;

	while ((d->r = members_next(m, &member, &d->error)) > 0) {
		add(d, "%d %o %lld.%09ld %llu %s -> %s", member.type, (unsigned)member.mode & 07777,
		    (long long)member.mtime, member.mtime_ns,
		    member.type == MEMBER_FILE ? (unsigned long long)member.size : 0, member.path,
		    member.link ? member.link : "");
		d->r = member.type == MEMBER_FILE ? dump_data(d, m) : (add(d, "\n"), 0);
		if (d->r < 0)
			return;
	}
}

static void dump_ours(struct dump *d, const void *data, size_t size, size_t step)
{
	struct stream *in;
	struct members *m;

	d->n = 0;
	d->error.code = 0;
	assert_int_equal(stream_new_memory(&in, data, size, step), 0);
	assert_int_equal(members_open_tar(&m, in, &no_hook, NULL), 0);
	dump_members(d, m);
	members_close(m);
}

static void dump_libarchive(struct dump *d, const void *data, size_t size)
{
	struct stream *in;
	struct decode *decode;
	struct members *m;

	d->n = 0;
	d->error.code = 0;
	assert_int_equal(stream_new_memory(&in, data, size, 0), 0);
	d->r = decode_open_tar(&decode, in, &d->error);
	if (d->r < 0) {
		stream_close(in);
		return;
	}
	assert_int_equal(members_open_decode(&m, decode, &no_hook, NULL), 0);
	dump_members(d, m);
	members_close(m);
}

static struct dump ours, theirs;

/* Accepts nothing that libarchive refuses, and finds the same in what both accept. */
static void compare(const char *what, const void *data, size_t size)
{
	dump_ours(&ours, data, size, 0);
	dump_libarchive(&theirs, data, size);
	if (ours.r == 0 && theirs.r < 0)
		fail_msg("%s: accepted, libarchive says: %s", what, theirs.error.text);
	if (ours.r == 0)
		assert_string_equal(ours.text, theirs.text);
}

static unsigned char *load(const char *dir, const char *name, size_t *sizep)
{
	char path[4096];
	unsigned char *data;
	struct stat st;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fstat(fileno(f), &st), 0);
	data = malloc((size_t)st.st_size);
	*sizep = fread(data, 1, (size_t)st.st_size, f);
	assert_int_equal(*sizep, st.st_size);
	fclose(f);
	return data;
}

static void make_tree(const char *dir)
{
	unit_run_in(
		dir,
		"mkdir -p src/d1/d2 src/empty src/gr\303\274n && cd src && "
		"for i in 1 2 3 4 5 6 7 8 9; do head -c ${i}777 /dev/zero | tr '\\0' $i > d1/f$i; "
		"done && "
		": > d1/none && head -c 512 /dev/urandom > d1/d2/block && chmod 4751 d1/f1 && "
		"printf x > gr\303\274n/e && printf y > \"$(printf 'latin-\\351\\nb')\" && "
		"l=$(printf %0150d 7) && mkdir $l && printf long > $l/$(printf %0200d 8) && "
		"ln d1/f1 hard && ln -s ../nowhere link && ln -s $(printf %0180d 9) longlink && "
		"ln $l/$(printf %0200d 8) longhard && truncate -s 300000 hole && "
		"printf island >> hole && touch -d '1969-05-05' old && touch -d "
		"'@1234567890.123456789' new");
}

/* clang-format off */
static const struct {
	const char *name, *command;
} archives[] = {
	{ "gnu",       "tar --format=gnu -C src -cf gnu ." },
	{ "posix",     "tar --format=posix -C src -cf posix ." },
	{ "oldgnu",    "tar --format=oldgnu -C src -cf oldgnu ." },
	{ "ustar",     "tar --format=ustar -C src -cf ustar d1 gr\303\274n hard link empty" },
	{ "v7",        "tar --format=v7 -C src -cf v7 d1 gr\303\274n hard link empty" },
	{ "sparse",    "tar --format=gnu -S -C src -cf sparse ." },
	{ "sparse00",  "tar --format=posix --sparse-version=0.0 -S -C src -cf sparse00 ." },
	{ "sparse10",  "tar --format=posix --sparse-version=1.0 -S -C src -cf sparse10 ." },
	{ "uid",       "tar --format=gnu --owner=x:2000000000 --group=y:2000000000 -C src -cf uid ." },
	{ "xattr",     "tar --format=posix --pax-option=comment=hello,globexthdr.name=g -C src -cf xattr ." },
	{ "twice",     "tar --format=gnu -C src -cf twice d1 d1/f1 d1 hole" },
	{ "appended",  "tar -C src -cf appended d1 && tar -C src -rf appended hole link" },
	{ "volume",    "tar --format=gnu -V name -C src -cf volume d1" },
	{ "dumpdir",   "tar --format=gnu -g snap -C src -cf dumpdir ." },
	{ "bsd-pax",   "bsdtar --format=pax -C src -cf bsd-pax ." },
	{ "bsd-ustar", "bsdtar --format=ustar -C src -cf bsd-ustar d1 gr\303\274n hard link" },
	{ "bsd-gnu",   "bsdtar --format=gnutar -C src -cf bsd-gnu ." },
	{ "py-pax",    "python3 -c 'import tarfile; t = tarfile.open(\"py-pax\", \"w\", format=2); t.add(\"src\"); t.close()'" },
	{ "py-gnu",    "python3 -c 'import tarfile; t = tarfile.open(\"py-gnu\", \"w\", format=1); t.add(\"src\"); t.close()'" },
};
/* clang-format on */

static bool have_program(const char *command)
{
	char text[256];

	snprintf(text, sizeof(text), "command -v %.*s >/dev/null 2>&1", (int)strcspn(command, " "),
		 command);
	return system(text) == 0;
}

static void test_all_dialects_read_the_same(void **state)
{
	static const size_t steps[] = { 0, 1, 100, 512, 700, 5000 };
	unsigned char *data;
	size_t size, n = 0;

	make_tree(*state);
	for (size_t i = 0; i < ARRAY_SIZE(archives); i++) {
		if (!have_program(archives[i].command))
			continue;
		unit_run_in(*state, archives[i].command);
		data = load(*state, archives[i].name, &size);
		dump_libarchive(&theirs, data, size);
		if (theirs.r < 0)
			fail_msg("%s: libarchive says: %s", archives[i].name, theirs.error.text);
		for (size_t k = 0; k < ARRAY_SIZE(steps); k++) {
			dump_ours(&ours, data, size, steps[k]);
			if (ours.r < 0)
				fail_msg("%s: %s", archives[i].name, ours.error.text);
			assert_string_equal(ours.text, theirs.text);
		}
		/* cut off anywhere it is never whole */
		for (size_t cut = 0; cut < size && ours.r <= 0;
		     cut += cut % BLOCK ? BLOCK - 100 : 100) {
			dump_libarchive(&theirs, data, cut);
			if (theirs.r < 0) {
				dump_ours(&ours, data, cut, 0);
				assert_true(ours.r < 0);
			}
		}
		free(data);
		n++;
	}
	assert_true(n >= 14);
}

static uint64_t rng = 88172645463325252u;

static uint32_t rnd(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 20) % n;
}

/* Gives a header the sum that it ought to have. */
static void hint_sum(unsigned char *h)
{
	unsigned sum = 0;

	memset(h + 148, ' ', 8);
	for (int i = 0; i < BLOCK; i++)
		sum += h[i];
	snprintf((char *)h + 148, 8, "%06o", sum);
}

/* One to four changes; to what looks like a header often with the right sum afterwards. */
static void mutate(unsigned char *data, size_t size)
{
	static const char types[] = "01234567LKxgSVMDNAXZ\0";
	size_t block = rnd((uint32_t)(size / BLOCK)) * BLOCK;
	unsigned char *h = data + block;

	for (uint32_t i = 0, n = 1 + rnd(4); i < n; i++) {
		switch (rnd(4)) {
		case 0:
			h[156] = (unsigned char)types[rnd(sizeof(types) - 1)];
			break;
		case 1:
			h[124 + rnd(12)] = (unsigned char)("01234567 \0\200\377"[rnd(12)]);
			break;
		case 2:
			h[rnd(BLOCK)] = (unsigned char)rnd(256);
			break;
		default:
			h[rnd(BLOCK)] = (unsigned char)("0 =\n/.\0x9"[rnd(9)]);
		}
	}
	if (rnd(4))
		hint_sum(h);
}

static void test_mutated_archives_are_never_better_than_libarchive_thinks(void **state)
{
	const char *rounds = getenv("STAGE_TEST_ROUNDS");
	unsigned char *data, *copy;
	size_t size, accepted = 0;
	char what[64];
	long n = rounds ? atol(rounds) : 300;

	make_tree(*state);
	for (size_t i = 0; i < ARRAY_SIZE(archives); i++) {
		if (!have_program(archives[i].command))
			continue;
		unit_run_in(*state, archives[i].command);
		data = load(*state, archives[i].name, &size);
		size = size < 60000 ? size : 60000;
		copy = malloc(size + 2 * BLOCK);
		for (long k = 0; k < n; k++) {
			memcpy(copy, data, size);
			memset(copy + size, 0, 2 * BLOCK);
			mutate(copy, size);
			snprintf(what, sizeof(what), "%s round %ld", archives[i].name, k);
			compare(what, copy, size + 2 * BLOCK);
			accepted += ours.r == 0;
		}
		free(copy);
		free(data);
	}
	assert_true(accepted > 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, unit_scratch_setup, unit_scratch_teardown)
		T(test_all_dialects_read_the_same),
		T(test_mutated_archives_are_never_better_than_libarchive_thinks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
