/*
 * A zip. The first bit says whether it is read by its central directory, or as a stream inside
 * another archive.
 */
#include "tests/fuzz/fuzz.h"

#include "daemon/engines/archive/decode.h"
#include "daemon/engines/archive/stream.h"
#include "daemon/engines/archive/untar-members.h"

#define MAX_MEMBERS 500
#define MAX_BYTES (8 << 20)

static int open_zip(struct decode **dp, const uint8_t *data, size_t size, struct error *err)
{
	struct stream *s;
	int fd, r;

	if (data[0] & 1) {
		fd = fuzz_file(data + 1, size - 1);
		FUZZ_CHECK(lseek(fd, 0, SEEK_SET) == 0);
		return decode_open_zip_file(dp, NULL, fd, err);
	}
	FUZZ_CHECK(stream_new_memory(&s, data + 1, size - 1, 512) == 0);
	r = decode_open_zip_stream(dp, s, err);
	if (r < 0)
		stream_close(s);
	return r;
}

static int read_all(struct members *m, struct error *err)
{
	struct member member;
	struct piece p;
	size_t total = 0;
	int r = 1;

	for (int i = 0; i < MAX_MEMBERS && total < MAX_BYTES && r > 0; i++) {
		r = members_next(m, &member, err);
		if (r <= 0)
			break;
		FUZZ_CHECK(member.path);
		FUZZ_CHECK(member.link ||
			   (member.type != MEMBER_SYMLINK && member.type != MEMBER_HARDLINK));
		while (total < MAX_BYTES && (r = members_read(m, &p, err)) > 0)
			total += p.size;
		r = r == 0 ? 1 : r;
	}
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(members_closep) struct members *m = NULL;
	const struct members_hook hook = { 0 };
	struct error err = ERROR_INIT;
	struct decode *d;
	int r;

	if (size < 2)
		return 0;
	r = open_zip(&d, data, size, &err);
	if (r == 0) {
		r = members_open_decode(&m, d, &hook, &err);
		if (r < 0)
			decode_close(d);
		else
			r = read_all(m, &err);
	}
	fuzz_check_error(r, &err);
	return 0;
}
