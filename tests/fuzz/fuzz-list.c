/* Lists of paths and patterns with braces: the first byte says which. */
#include "tests/fuzz/fuzz.h"

#include "common/dataset/expand.h"

#define MAX_RESULTS 50000 /* more costs time and tells nothing new */

static void read_list(const char *text, size_t size)
{
	_cleanup_(names_deinit) struct names names = { 0 };
	struct error err = ERROR_INIT;
	int r = expand_list(text, size, "/dir", &names, &err);

	fuzz_check_error(r, &err);
	FUZZ_CHECK(r == 0 || !memchr(text, '\0', size) || err.text[0]);
	for (size_t i = 0; i < names.n; i++)
		FUZZ_CHECK(names.v[i][0] == '/' && !strchr(names.v[i], '\n') &&
			   !strstr(names.v[i], "://"));
}

/* More than a pattern can give: each group at most its words, or the numbers of a short range. */
static uint64_t estimate(const char *text)
{
	uint64_t words = 1, total = 1;

	for (const char *s = text; *s; s++)
		words += *s == ',' ? 1 : *s == '.' ? 50 : 0;
	for (const char *s = text; *s && total < MAX_RESULTS; s++)
		total *= *s == '{' ? words : 1;
	return total;
}

static void read_braces(const char *text)
{
	_cleanup_(names_deinit) struct names names = { 0 };
	struct error err = ERROR_INIT;
	uint64_t most = estimate(text);
	int r;

	for (const char *s = text; *s; s += strspn(s, "0123456789") ?: 1)
		if (strspn(s, "0123456789") > 2)
			return;
	if (most >= MAX_RESULTS)
		return;
	r = expand_braces(text, &names, &err);
	fuzz_check_error(r, &err);
	FUZZ_CHECK(r < 0 || (names.n >= 1 && names.n <= most));
	if (!strchr(text, '{') && r == 0)
		FUZZ_CHECK(names.n == 1 && !strcmp(names.v[0], text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *text = NULL;

	if (size == 0)
		return 0;
	text = fuzz_text(data + 1, size - 1);
	if (data[0] & 1)
		read_list(text, size - 1);
	else
		read_braces(text);
	return 0;
}
