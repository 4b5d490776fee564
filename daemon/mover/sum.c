#include "daemon/mover/sum.h"

#define ZEROS 65536

void sum_add_zeros(struct sum *s, uint64_t n)
{
	static const char zeros[ZEROS];

	for (; n > sizeof(zeros); n -= sizeof(zeros))
		sum_add(s, zeros, sizeof(zeros));
	sum_add(s, zeros, (size_t)n);
}
