#include "client/step-id.h"

#include <stddef.h>
#include <stdint.h>

#include "common/util/parse.h"

/* Slurm's own steps have greater numbers. In the environment, they may be negative: -5 is the batch
 * script. */
#define MAX_STEP_OF_SRUN 0xfffffff0

bool step_id_is_of_srun(const char *step_id)
{
	uint32_t n;

	return step_id && parse_uint32(step_id, &n) == 0 && n <= MAX_STEP_OF_SRUN;
}
