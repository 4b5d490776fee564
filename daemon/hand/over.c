/*
 * Asked by squeue as the job's user, who sees his own jobs whatever PrivateData= says. What a user could make of the
 * answer is that his own data goes early or stays.
 */
#include "daemon/hand/hand.h"

#include <stdlib.h>
#include <stdio.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/conf.h"
#include "common/error.h"
#include "common/fd.h"
#include "common/keeper-hand.h"
#include "daemon/squeue.h"

void hand_over(char **argv)
{
	_cleanup_(conf_freep) struct conf *conf = NULL;
	static struct hand_over over;
	struct error err = ERROR_INIT;
	struct squeue_question q = { .uid = geteuid(), .anywhere = true,
				     .job_id = (uint32_t)strtoul(argv[1], NULL, 10) };

	conf_trust_root_alone();
	over.r = conf_load(&conf, *argv[0] ? argv[0] : NULL, &err);
	if (over.r == 0) {
		q.sbcast = conf->fanout_program;
		over.r = squeue_ask(&q, &err);
	}
	snprintf(over.text, sizeof(over.text), "%.*s", (int)sizeof(over.text) - 1, err.text);
	if (fd_write_all(HAND_FD_ANSWER, &over, sizeof(over)) < 0)
		_exit(1);
}
