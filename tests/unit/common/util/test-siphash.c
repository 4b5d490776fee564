#include "tests/unit/unit.h"

#include "common/util/siphash.h"

/* The key and the messages of the paper and of its authors' test vectors: bytes 0, 1, 2, … */
static const struct siphash_key counted = { { UINT64_C(0x0706050403020100),
					      UINT64_C(0x0f0e0d0c0b0a0908) } };

static void test_known_values(void **state)
{
	static const struct {
		size_t size;
		uint64_t expect;
	} cases[] = {
		{ 0, UINT64_C(0x726fdb47dd0e0e31) },  { 1, UINT64_C(0x74f839c593dc67fd) },
		{ 7, UINT64_C(0xab0200f58b01d137) },  { 8, UINT64_C(0x93f5f5799a932462) },
		{ 15, UINT64_C(0xa129ca6149be45e5) }, /* appendix A of the paper */
		{ 63, UINT64_C(0x958a324ceb064572) },
	};
	unsigned char data[64];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)i;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_true(siphash(&counted, data, cases[i].size) == cases[i].expect);
}

static void test_each_key_gives_other_numbers(void **state)
{
	struct siphash_key a, b;

	assert_int_equal(siphash_key_init(&a), 0);
	assert_int_equal(siphash_key_init(&b), 0);
	assert_true(siphash(&a, "name", 4) != siphash(&b, "name", 4));
	assert_true(siphash(&a, "name", 4) == siphash(&a, "name", 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_values),
		cmocka_unit_test(test_each_key_gives_other_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
