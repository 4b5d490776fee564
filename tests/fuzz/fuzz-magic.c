/* The type of a file by its first bytes, and the space that a tar needs by its headers. */
#include "tests/fuzz/fuzz.h"

#include "common/dataset/member-path.h"
#include "daemon/engines/archive/magic.h"
#include "daemon/engines/archive/tar-sample.h"

/* In one piece and in two is the same. */
static void sample(const uint8_t *data, size_t size, size_t cut)
{
	struct tar_sample a = { 0 }, b = { 0 };

	tar_sample_add(&a, data, size, 0);
	tar_sample_add(&b, data, cut, 0);
	if (b.next <= cut)
		tar_sample_add(&b, data + b.next, size - b.next, b.next);
	else
		tar_sample_add(&b, data, size, 0);
	FUZZ_CHECK(a.next == b.next && a.charge == b.charge && a.n_files == b.n_files);
	FUZZ_CHECK(a.ended == b.ended && a.broken == b.broken && !(a.ended && a.broken));
	tar_sample_estimate(&a, size);
	tar_sample_estimate(&a, UINT64_MAX);
}

static void check_name(const char *name)
{
	char clean[MEMBER_PATH_SIZE], cut[MEMBER_PATH_SIZE], again[MEMBER_PATH_SIZE];
	struct error err = ERROR_INIT;
	int r = member_path_clean(name, clean, &err);

	fuzz_check_error(r, &err);
	if (r < 0)
		return;
	FUZZ_CHECK(clean[0] != '/' && !strstr(clean, "//") && strlen(clean) <= strlen(name));
	for (const char *s = clean; *s; s += strcspn(s, "/"), s += *s == '/')
		FUZZ_CHECK(strncmp(s, "../", 3) && strcmp(s, "..") && strncmp(s, "./", 2) &&
			   strcmp(s, "."));
	FUZZ_CHECK(member_path_clean(clean, again, NULL) == 0 && !strcmp(clean, again));
	strcpy(cut, clean);
	if (member_path_cut(cut, "a", 1))
		FUZZ_CHECK(!strncmp(clean, "a/", 2) && strlen(cut) + 3 <= strlen(clean));
	member_path_cut_suffix(clean);
	FUZZ_CHECK(!*again || *clean);
	FUZZ_CHECK(member_path_clean(clean, again, NULL) == 0 && !strcmp(clean, again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *text = fuzz_text(data, size);

	magic_get_filter(data, size);
	magic_get_format(data, size);
	magic_get_promise(text);
	magic_is_archive(data, size, text);
	if (size > 0)
		sample(data, size, data[size - 1] * size / 256);
	check_name(text);
	return 0;
}
