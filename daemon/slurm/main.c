/*
 * stage-slurm: asks Slurm by libslurm, with the words of squeue and scontrol, so that who asks can
 * ask those as well:
 *
 *	stage-slurm -h [-a] [-t STATE,...] [-u UID] [-w NODE] [-j JOB,...] -o FORMAT
 *	stage-slurm show hostnames LIST
 *	stage-slurm place NODE LIST
 *
 * place prints where the node stands in the list, counted from 0, and how many nodes there are.
 * Exit status: common/slurm/stage-slurm.h. It has libslurm, whose name changes with each release,
 * so it belongs to the plugin's package, and nothing else may link it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>

#include "common/slurm/stage-slurm.h"
#include "common/util/parse.h"
#include "daemon/slurm/job-query.h"
#include "daemon/slurm/node-names.h"

static int complain(const char *text)
{
	fprintf(stderr, "stage-slurm: %s\n", text);
	return STAGE_SLURM_UNABLE;
}

static int end(int r)
{
	if (r < 0)
		return complain(strerror(-r));
	return fflush(stdout) == 0 && !ferror(stdout) ? STAGE_SLURM_OK : complain("write error");
}

static int print_place(const char *node, const char *list)
{
	uint32_t index, n;
	int r = node_names_find(list, node, &index, &n);

	if (r == 0)
		printf("%u %u\n", index, n);
	return end(r);
}

static bool read_ids(struct job_query *q, const char *list)
{
	char id[16];
	size_t n;

	for (;; list += n + 1) {
		n = strcspn(list, ",");
		if (n >= sizeof(id) || q->n_ids == JOB_QUERY_MAX_IDS)
			return false;
		snprintf(id, sizeof(id), "%.*s", (int)n, list);
		if (parse_uint32(id, &q->ids[q->n_ids]) < 0 || !q->ids[q->n_ids])
			return false;
		q->n_ids++;
		if (!list[n])
			return true;
	}
}

static bool read_options(struct job_query *q, int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "haj:o:t:u:w:")) != -1) {
		bool ok = true;

		if (c == 'j')
			ok = read_ids(q, optarg);
		else if (c == 'o')
			q->format = optarg;
		else if (c == 't')
			q->states = strcmp(optarg, "all") ? optarg : NULL;
		else if (c == 'u')
			ok = q->has_uid = parse_uint32(optarg, &q->uid) == 0;
		else if (c == 'w')
			q->node = optarg;
		else
			ok = c == 'h' || c == 'a';
		if (!ok)
			return false;
	}
	return optind == argc && q->format;
}

/* Returns true if squeue would give the same answer. */
static bool is_an_answer(int r)
{
	return r == ESLURM_INVALID_JOB_ID || r == ESLURM_INVALID_NODE_NAME;
}

static int print_jobs(int argc, char **argv)
{
	static struct job_query q;
	int r;

	if (!read_options(&q, argc, argv))
		return complain("wrong arguments");
	slurm_init(NULL); /* ends the process with status 1 where there is no configuration */
	r = job_query_print(&q, stdout);
	slurm_fini();
	if (r == 0)
		return end(0);
	(void)complain(r < 0 ? "Slurm's answer about a job is not understood here"
			     : slurm_strerror(r));
	return is_an_answer(r) ? STAGE_SLURM_REFUSED : STAGE_SLURM_UNABLE;
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "show") && !strcmp(argv[2], "hostnames"))
		return end(node_names_print(argv[3], stdout));
	if (argc == 4 && !strcmp(argv[1], "place"))
		return print_place(argv[2], argv[3]);
	return print_jobs(argc, argv);
}
