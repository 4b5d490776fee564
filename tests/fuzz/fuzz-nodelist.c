/* Lists of nodes as Slurm writes them. */
#include "tests/fuzz/fuzz.h"

#include "daemon/nodelist.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *text = fuzz_text(data, size);
	uint32_t index, n;

	if (nodelist_find(text, "n2", &index, &n) == 0)
		FUZZ_CHECK(index < n && n <= NODELIST_MAX);
	return 0;
}
