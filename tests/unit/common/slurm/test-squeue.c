#include "tests/unit/unit.h"

#include "common/slurm/squeue.h"

/* clang-format off */
static const struct { const char *text; enum squeue_said said; const char *state; } cases[] = {
	{ "", SQUEUE_NOT_LISTED, "" },
	{ "7 R\n", SQUEUE_LIVES, "R" },
	{ "7 S\n", SQUEUE_LIVES, "S" },                     /* suspended: its data has to be there */
	{ "7 ST\n", SQUEUE_LIVES, "ST" },
	{ "7 SI\n", SQUEUE_LIVES, "SI" },
	{ "7 SO\n", SQUEUE_LIVES, "SO" },
	{ "7 RS\n", SQUEUE_LIVES, "RS" },
	{ "7 CF\n", SQUEUE_LIVES, "CF" },                   /* its nodes boot, or its prologs run */
	{ "7 PD\n", SQUEUE_WAITS, "PD" },                   /* requeued: where it ran before it does not run */
	{ "7 RH\n", SQUEUE_WAITS, "RH" },
	{ "7 RQ\n", SQUEUE_LIVES, "RQ" },                   /* it is not off its nodes yet */
	{ "7 PD\n7 R\n", SQUEUE_LIVES, "R" },
	{ "7 R\n7 PD\n", SQUEUE_LIVES, "R" },
	{ "7 CD\n7 PD\n", SQUEUE_WAITS, "PD" },
	{ "7 XX\n", SQUEUE_LIVES, "XX" },                   /* of a Slurm to come */
	{ "7 CG\n", SQUEUE_ENDED, "CG" },
	{ "7 CD\n", SQUEUE_ENDED, "CD" },
	{ "7 CA\n", SQUEUE_ENDED, "CA" },
	{ "7 F\n", SQUEUE_ENDED, "F" },
	{ "7 TO\n", SQUEUE_ENDED, "TO" },
	{ "7 NF\n", SQUEUE_ENDED, "NF" },
	{ "7 PR\n", SQUEUE_ENDED, "PR" },
	{ "7 BF\n", SQUEUE_ENDED, "BF" },
	{ "7 DL\n", SQUEUE_ENDED, "DL" },
	{ "7 OOM\n", SQUEUE_ENDED, "OOM" },
	{ "7 RV\n", SQUEUE_ENDED, "RV" },
	{ "6 R\n8 R\n", SQUEUE_NOT_LISTED, "" },
	{ "77 R\n17 R\n", SQUEUE_NOT_LISTED, "" },          /* a number that ours is part of */
	{ "6 CG\n7 R\n8 CD\n", SQUEUE_LIVES, "R" },
	{ "6 R\n7 CG\n8 R\n", SQUEUE_ENDED, "CG" },
	{ "7 CG\n7 R\n", SQUEUE_LIVES, "R" },               /* twice: the one that lives counts, */
	{ "7 R\n7 CG\n", SQUEUE_LIVES, "R" },               /* wherever it stands */
	{ "7 CG", SQUEUE_NOT_UNDERSTOOD, NULL },            /* cut off, maybe: "7 CGX" */
	{ "6 R\n7", SQUEUE_NOT_UNDERSTOOD, NULL },
	{ "\n", SQUEUE_NOT_UNDERSTOOD, NULL },
	{ "7\n", SQUEUE_NOT_UNDERSTOOD, NULL },
	{ "7 \n", SQUEUE_NOT_UNDERSTOOD, NULL },
	{ " CG\n", SQUEUE_NOT_UNDERSTOOD, NULL },
	{ "7  CG\n", SQUEUE_NOT_UNDERSTOOD, NULL },
	{ "7 CG \n", SQUEUE_NOT_UNDERSTOOD, NULL },
	{ "7 cg\n", SQUEUE_NOT_UNDERSTOOD, NULL },
	{ "7_3 CG\n", SQUEUE_NOT_UNDERSTOOD, NULL },
	{ "-7 CG\n", SQUEUE_NOT_UNDERSTOOD, NULL },
	{ "JOBID ST\n7 CG\n", SQUEUE_NOT_UNDERSTOOD, NULL },
	{ "squeue: error: no\n", SQUEUE_NOT_UNDERSTOOD, NULL }, /* with status 0 */
	{ "7 COMPLETING\n", SQUEUE_NOT_UNDERSTOOD, NULL },  /* longer than a short name */
	{ "4294967303 CG\n", SQUEUE_NOT_UNDERSTOOD, NULL }, /* 2^32 + 7 */
	{ "99999999999999999999 R\n", SQUEUE_NOT_UNDERSTOOD, NULL },
};
/* clang-format on */

static void test_what_squeue_says(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char got[SQUEUE_STATE_SIZE] = "";
		/* of its very size, so that memcheck sees a look beyond it */
		_cleanup_(freep) char *text = malloc(strlen(cases[i].text) + !*cases[i].text);
		enum squeue_said said;

		memcpy(text, cases[i].text, strlen(cases[i].text));
		said = squeue_read(text, strlen(cases[i].text), 7, got);
		if (said != cases[i].said || (cases[i].state && strcmp(got, cases[i].state)))
			fail_msg("'%s': %d %s", cases[i].text, said, got);
	}
}

static void test_a_nul_is_no_end(void **state)
{
	char got[SQUEUE_STATE_SIZE];

	assert_int_equal(squeue_read("7 C\0\n", 5, 7, got), SQUEUE_NOT_UNDERSTOOD);
	assert_int_equal(squeue_read("7\0 R\n", 5, 7, got), SQUEUE_NOT_UNDERSTOOD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_squeue_says),
		cmocka_unit_test(test_a_nul_is_no_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
