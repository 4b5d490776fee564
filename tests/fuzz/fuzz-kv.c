/* Messages on the socket. */
#include "tests/fuzz/fuzz.h"

#include "common/protocol/kv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	const char *key, *value;
	const void *again;
	size_t n;

	if (kv_new_from_data(&kv, data, size) != 0)
		return 0;
	for (size_t i = 0; kv_get_field(kv, i, &key, &value); i++)
		FUZZ_CHECK(kv_get(kv, key) && !strcmp(kv_get(kv, key), value));
	FUZZ_CHECK(kv_get_data(kv, &again, &n) == 0);
	FUZZ_CHECK(n == size && !memcmp(again, data, size));
	return 0;
}
