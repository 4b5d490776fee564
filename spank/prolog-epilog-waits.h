/*
 * prolog-epilog-waits: how long the prolog and the epilog of a job wait for stage-keeper, and how
 * long a keeper lives that has made no run directory. stage-data.conf(5), stagingd(8) and
 * docs/admin.md promise these times.
 */
#pragma once

#define KEEPER_CALL_RUN_WAIT_MS 500
#define KEEPER_CALL_RUN_LIFE_MS                                                                    \
	(KEEPER_CALL_RUN_WAIT_MS + 200) /* longer than the hook waits, so that the hook has
					  * reported the delay before */
#define KEEPER_CALL_STEP_LIFE_MS 5000
#define KEEPER_CALL_CLEAN_WAIT_MS 8000
