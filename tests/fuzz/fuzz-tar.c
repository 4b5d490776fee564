/* A tar, read by our reader, and by libarchive if our reader passes it on. */
#include "tests/fuzz/fuzz.h"

#include "common/dataset/member-path.h"
#include "daemon/engines/archive/stream.h"
#include "daemon/engines/archive/untar-members.h"

#define MAX_MEMBERS 2000
#define MAX_READS 2000 /* of sparse members, whose size costs nothing */

static void do_nothing(void *arg)
{
}

static int read_all(struct members *m, struct error *err)
{
	char clean[MEMBER_PATH_SIZE];
	struct error ignored = ERROR_INIT;
	struct member member;
	struct piece p;
	int r = 1;

	for (int i = 0; i < MAX_MEMBERS && r > 0; i++) {
		r = members_next(m, &member, err);
		if (r <= 0)
			break;
		if (member_path_clean(member.path, clean, &ignored) == 0)
			FUZZ_CHECK(clean[0] != '/' && strcmp(clean, "..") &&
				   strncmp(clean, "../", 3) && !strstr(clean, "/../"));
		for (int k = 0; k < MAX_READS && (r = members_read(m, &p, err)) > 0; k++)
			FUZZ_CHECK(p.size > 0);
		if (r == 0)
			r = 1;
	}
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(members_closep) struct members *m = NULL;
	const struct members_hook hook = { do_nothing, NULL };
	struct error err = ERROR_INIT;
	struct stream *s;
	int r;

	if (size == 0)
		return 0;
	/* Blocks of all sizes meet all borders. */
	FUZZ_CHECK(stream_new_memory(&s, data, size, size % 3 ? 512 * (size % 7) : 0) == 0);
	r = members_open_tar(&m, s, &hook, &err);
	if (r < 0)
		stream_close(s);
	else
		r = read_all(m, &err);
	fuzz_check_error(r, &err);
	return 0;
}
