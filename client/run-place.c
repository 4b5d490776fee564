/*
 * The tasks of one launch share the launcher's number of it (job and step in Slurm). Launchers
 * without such a number start all tasks of a node from one process, so the pid of that process is
 * used. A task may be started by a script of its own, which has the task's number in its
 * environment, too: the launcher is the nearest process above us that has not. A step that runs two
 * different values, one after the other or at once, must not mix them up: a hash of the value is
 * part of the key.
 */
#include "client/run-place.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/step-id.h"
#include "common/util/cleanup.h"
#include "common/util/fd.h"
#include "common/util/fnv.h"
#include "common/util/parse.h"

#define MAX_ENVIRON (1024 * 1024)
#define MAX_PARENTS 16

/* clang-format off */
static const struct {
	const char *rank, *size;
	const char *launch[3]; /* variables that identify the launch: the first one that is set; for
			        * Slurm, all of them */
} launchers[] = {
	{ "SLURM_LOCALID", NULL, { "SLURM_JOB_ID", "SLURM_STEP_ID", NULL } },
	{ "PALS_LOCAL_RANKID", NULL, { "PALS_APID", "PBS_JOBID", NULL } },
	{ "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
	  { "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", NULL } },
	{ "MPI_LOCALRANKID", "MPI_LOCALNRANKS", { NULL, NULL, NULL } },
};
/* clang-format on */

uint32_t run_place_parse_tasks(const char *text, uint32_t i)
{
	unsigned tasks, times;
	int n;

	while (*text) {
		n = 0;
		times = 1;
		if (sscanf(text, "%u%n", &tasks, &n) != 1)
			return 0;
		text += n;
		n = 0;
		if (text[0] == '(') {
			if (sscanf(text, "(x%u)%n", &times, &n) != 1 || n == 0)
				return 0;
			text += n;
		}
		if (i < times)
			return tasks;
		i -= times;
		if (*text && *text++ != ',')
			return 0;
	}
	return 0;
}

static void make_key(struct run_place *p, const char *launch, const char *value)
{
	char text[64];
	size_t n = 0;

	for (const char *c = launch; *c && n < sizeof(text) - 1; c++) {
		bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
			     (*c >= '0' && *c <= '9') || *c == '.' || *c == '-';

		text[n++] = plain ? *c : '_';
	}
	text[n] = '\0';
	snprintf(p->key, sizeof(p->key), "%s-%016llx", text,
		 (unsigned long long)(fnv_add_text(FNV_INIT, launch) * 31 +
				      fnv_add_text(FNV_INIT, value)));
}

/* For Slurm, a step of srun is required, because batch scripts and their commands also have
 * SLURM_LOCALID. */
static bool is_launcher(size_t i, const char *(*get_env)(const char *name))
{
	uint32_t rank;

	if (!get_env(launchers[i].rank) || parse_uint32(get_env(launchers[i].rank), &rank) < 0)
		return false;
	return i > 0 || (get_env("SLURM_JOB_ID") && step_id_is_of_srun(get_env("SLURM_STEP_ID")));
}

static uint32_t get_number(const char *text)
{
	uint32_t n;

	return text && parse_uint32(text, &n) == 0 ? n : 0;
}

/* Returns whether the process was started with name=value in its environment. */
static bool was_started_with(pid_t pid, const char *name, const char *value)
{
	char path[64], wanted[128], *data = NULL;
	_cleanup_(fd_closep) int fd = -1;
	size_t size = 0, n;
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	n = (size_t)snprintf(wanted, sizeof(wanted), "%s=%s", name, value) + 1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (n > sizeof(wanted) || fd < 0 || fd_read_file(fd, MAX_ENVIRON, &data, &size) < 0)
		return false;
	for (const char *p = data; p < data + size && !found;
	     p += strnlen(p, (size_t)(data + size - p)) + 1)
		found = (size_t)(data + size - p) >= n && !memcmp(p, wanted, n);
	free(data);
	return found;
}

static pid_t get_parent(pid_t pid)
{
	char path[64], text[512];
	_cleanup_(fd_closep) int fd = -1;
	const char *p;
	ssize_t n;
	int parent;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	p = strrchr(text, ')'); /* the name before it may contain any character */
	return p && sscanf(p, ") %*c %d", &parent) == 1 ? parent : 0;
}

/* Returns the process that has started the tasks. */
static pid_t find_launcher(const char *rank, const char *value)
{
	pid_t pid = getppid(), parent;

	for (int i = 0; i < MAX_PARENTS && was_started_with(pid, rank, value); i++) {
		parent = get_parent(pid);
		if (parent <= 1)
			break;
		pid = parent;
	}
	return pid;
}

static void place_by_launcher(struct run_place *p, size_t i, const char *value,
			      const char *(*get_env)(const char *name))
{
	char launch[512];
	const char *name = NULL, *tasks;

	p->shared = true;
	p->local_id = get_number(get_env(launchers[i].rank));
	if (i == 0) {
		tasks = get_env("SLURM_STEP_TASKS_PER_NODE");
		p->n_nodes = get_number(get_env("SLURM_STEP_NUM_NODES"));
		p->n_local = tasks ? run_place_parse_tasks(tasks,
							   get_number(get_env("SLURM_NODEID")))
				   : 0;
		snprintf(launch, sizeof(launch), "j%s.%s", get_env("SLURM_JOB_ID"),
			 get_env("SLURM_STEP_ID"));
		make_key(p, launch, value);
		return;
	}
	if (launchers[i].size)
		p->n_local = get_number(get_env(launchers[i].size));
	for (size_t k = 0; k < 3 && launchers[i].launch[k] && !name; k++)
		name = get_env(launchers[i].launch[k]);
	if (name)
		snprintf(launch, sizeof(launch), "l%s", name);
	else
		snprintf(launch, sizeof(launch), "pp%d",
			 (int)find_launcher(launchers[i].rank, get_env(launchers[i].rank)));
	make_key(p, launch, value);
}

void run_place_get(struct run_place *p, const char *value, const char *(*get_env)(const char *name))
{
	char launch[32];

	*p = (struct run_place){ .job_id = get_number(get_env("SLURM_JOB_ID")) };
	if (!p->job_id)
		p->job_id = (uint32_t)getpid();
	for (size_t i = 0; i < ARRAY_SIZE(launchers); i++)
		if (is_launcher(i, get_env)) {
			place_by_launcher(p, i, value, get_env);
			return;
		}
	snprintf(launch, sizeof(launch), "p%d", (int)getpid());
	make_key(p, launch, value);
}
