/*
 * squeue runs as the job's user, who may see his own jobs with any setting of PrivateData=. A user
 * who falsifies the answer can only make his own data stay, or be removed early.
 */
#include "daemon/helper/helper.h"

#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <unistd.h>

#include "common/config/conf.h"
#include "common/protocol/keeper-helper.h"
#include "common/slurm/squeue.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"

/* Asks Slurm about the job, then whether it runs on this node, because a job that was requeued may
 * run on others. If the second answer is not known, the job counts as running here. */
static int ask(struct squeue_question *q, const char *node, struct error *err)
{
	struct error here = ERROR_INIT;
	int r = squeue_ask(q, err);

	if (r != 0 || !*node)
		return r;
	q->node = node;
	r = squeue_ask(q, &here);
	return r == -ESRCH ? error_set(err, ESRCH, "%s", here.text) : 0;
}

/*
 * Asks Slurm if the configuration cannot be read. Then Program= may name another place, and the
 * squeue at the default place may belong to another Slurm, which does not know the job. So the job
 * counts as over only if this squeue lists it as ended.
 */
static int ask_in_doubt(struct squeue_question *q, struct error *err)
{
	struct error said = ERROR_INIT;
	int r;

	q->sbcast = "";
	q->in_doubt = true;
	r = squeue_ask(q, &said);
	if (r == -ESRCH)
		return error_set(err, ESRCH, "%s", said.text);
	if (r < 0)
		error_prefix(err, "%s, and the configuration can't be read", said.text);
	return r;
}

void helper_over(char **argv)
{
	_cleanup_(conf_freep) struct conf *conf = NULL;
	static struct helper_over over;
	struct error err = ERROR_INIT;
	struct squeue_question q = { .uid = geteuid(),
				     .anywhere = true,
				     .job_id = (uint32_t)strtoul(argv[1], NULL, 10) };

	conf_trust_root_alone();
	over.r = conf_load(&conf, *argv[0] ? argv[0] : NULL, &err);
	if (over.r == 0) {
		q.sbcast = conf->fanout_program;
		over.r = ask(&q, argv[2], &err);
	} else {
		over.r = ask_in_doubt(&q, &err);
	}
	snprintf(over.text, sizeof(over.text), "%.*s", (int)sizeof(over.text) - 1, err.text);
	helper_answer(&over, sizeof(over));
}
