/* Addresses. */
#include "tests/fuzz/fuzz.h"

#include "common/util/path.h"
#include "common/util/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *text = fuzz_text(data, size);
	struct error err = ERROR_INIT;
	struct url url;
	int r = url_parse(&url, text, &err);

	url_climbs(text, strlen(text), true);
	url_find_path(text);
	fuzz_check_error(r, &err);
	if (r < 0)
		return 0;
	FUZZ_CHECK(url.scheme != URL_NONE && url.n_host > 0);
	FUZZ_CHECK(url.host >= text && url.path + url.n_path <= text + strlen(text));
	FUZZ_CHECK(!memchr(url.host, '@', url.n_host));
	return 0;
}
