/* The spec that nodes read from the job's environment. Users can forge it. */
#include "tests/fuzz/fuzz.h"

#include "common/config/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *text = fuzz_text(data, size), *again = NULL;
	_cleanup_(spec_deinit) struct spec spec = { 0 };
	struct error err = ERROR_INIT;
	int r = spec_from_string(&spec, text, &err);

	fuzz_check_error(r, &err);
	if (r < 0)
		return 0;
	FUZZ_CHECK(spec_to_string(&spec, &again) == 0 && !strcmp(text, again));
	return 0;
}
