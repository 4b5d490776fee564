/*
 * Checks the settings of Slurm that matter for staging. They come from `scontrol show config`,
 * which gets at most five seconds, so that a controller that is down does not hang the doctor.
 */
#include "client/doctor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "client/capture.h"
#include "client/conf-advice.h"
#include "client/doctor-cgroup.h"
#include "common/config/conf.h"
#include "common/util/cleanup.h"

#define SCONTROL_MS 5000
#define MUNGE_MS 3000

static void check_prolog_flags(struct doctor *d, const char *config)
{
	char flags[512] = "";

	doctor_get_key(config, "PrologFlags", flags, sizeof(flags));
	if (strcasestr(flags, "RunInJob"))
		doctor_tell(d, DOCTOR_WARN,
			    "enable the reaper's timer on all nodes, or drop "
			    "RunInJob",
			    "PrologFlags=%s: Slurm calls no SPANK prolog or epilog; staging starts "
			    "with the first step",
			    flags);
	else if (strcasestr(flags, "Alloc") || strcasestr(flags, "Contain"))
		doctor_tell(d, DOCTOR_OK, NULL, "PrologFlags=%s", flags);
	else
		doctor_tell(
			d, DOCTOR_WARN, "PrologFlags=Contain in slurm.conf",
			"PrologFlags has neither Alloc nor Contain: on each node staging starts "
			"with the first step there");
}

/* "ConstrainRAMSpace=no # why" in the cgroup.conf of this machine, beside its slurm.conf: "no" to
 * value, or "". */
static void read_own_constrain(const char *config, char *value, size_t size)
{
	_cleanup_(freep) char *line = NULL;
	_cleanup_(file_closep) FILE *f = NULL;
	char path[512] = "";
	size_t n = 0;
	char *slash;

	*value = '\0';
	doctor_get_key(config, "SLURM_CONF", path, sizeof(path) - sizeof("/cgroup.conf"));
	slash = strrchr(path, '/');
	if (!slash)
		return;
	strcpy(slash, "/cgroup.conf");
	f = fopen(path, "re");
	while (f && getline(&line, &n, f) >= 0)
		if (doctor_get_key(line + strspn(line, " \t"), "ConstrainRAMSpace", value, size))
			value[strcspn(value, " \t\r#")] = '\0';
}

/* Compares two copies of cgroup.conf: slurmd reads that of the node when it starts, and `scontrol
 * show config` prints the values that the controller has read. */
static bool check_own_constrain(struct doctor *d, const char *config, const char *constrain,
				const char *effect)
{
	char own[16];

	read_own_constrain(config, own, sizeof(own));
	if (!*own || !strcasecmp(own, constrain))
		return false;
	doctor_tell(d, DOCTOR_WARN,
		    "the same cgroup.conf on all machines, then scontrol reconfigure, or restart "
		    "slurmd and slurmctld",
		    "ConstrainRAMSpace=%s in the cgroup.conf of this node, and %s in what "
		    "slurmctld uses: with no, staged data is %s",
		    own, *constrain ? constrain : "nothing", effect);
	return true;
}

/* Without such a limit, --mem does not limit jobs. The data may be charged to them even so. */
static void check_memory_limit(struct doctor *d, const char *config)
{
	char tasks[512] = "", constrain[16] = "";
	struct doctor_cgroup cgroup;
	const char *effect;

	doctor_cgroup_look(&cgroup, "/sys/fs/cgroup", "/proc");
	effect = doctor_cgroup_get_effect(&cgroup, config);
	doctor_get_key(config, "TaskPlugin", tasks, sizeof(tasks));
	doctor_get_key(config, "ConstrainRAMSpace", constrain, sizeof(constrain));
	if (*tasks && !strstr(tasks, "cgroup"))
		doctor_tell(d, DOCTOR_WARN, "TaskPlugin=task/cgroup,task/affinity in slurm.conf",
			    "TaskPlugin=%s: Slurm does not limit the memory and CPUs of jobs, and "
			    "staged data is %s",
			    tasks, effect);
	else if (!strcasecmp(constrain, "no"))
		doctor_tell(d, DOCTOR_WARN, "ConstrainRAMSpace=yes in cgroup.conf",
			    "ConstrainRAMSpace=no: Slurm does not limit jobs to --mem, and staged "
			    "data is %s",
			    effect);
	else if (*constrain && !check_own_constrain(d, config, constrain, effect))
		doctor_tell(d, DOCTOR_OK, NULL, "ConstrainRAMSpace=%s", constrain);
}

static void check_namespace(struct doctor *d, const char *config)
{
	char type[128];

	if (!doctor_get_key(config, "JobContainerType", type, sizeof(type)) &&
	    !doctor_get_key(config, "NamespaceType", type, sizeof(type)))
		return;
	if ((strstr(type, "tmpfs") || strstr(type, "namespace/linux")) && d->conf &&
	    !strcmp(d->conf->job_namespace, "none"))
		doctor_tell(d, DOCTOR_WARN,
			    "[mount] JobNamespace= with the path of its file, unless "
			    "job_container.conf has "
			    "Shared=true",
			    "%s: jobs have a mount namespace, and images that are mounted after "
			    "they began are not seen in it; paths on disks are links",
			    type);
	else
		doctor_tell(d, DOCTOR_OK, NULL, "%s", type);
}

/* The value has the form "30 sec". */
static void check_unkillable(struct doctor *d, const char *config)
{
	char text[32];
	unsigned seconds;

	if (!d->conf || !doctor_get_key(config, "UnkillableStepTimeout", text, sizeof(text)) ||
	    sscanf(text, "%u", &seconds) != 1)
		return;
	if (d->conf->abort_after_ms >= seconds * 500ULL)
		doctor_tell(d, DOCTOR_WARN,
			    "AbortAfter=7s, its default, or a longer UnkillableStepTimeout",
			    "AbortAfter is %llu s and UnkillableStepTimeout %u s: a mount that "
			    "hangs could "
			    "have the node drained",
			    (unsigned long long)d->conf->abort_after_ms / 1000, seconds);
	else
		doctor_tell(d, DOCTOR_OK, NULL, "UnkillableStepTimeout=%s", text);
}

static void tell_warning(void *arg, const char *hint, const char *text)
{
	doctor_tell(arg, DOCTOR_WARN, hint, "%s", text);
}

/* With a misspelt partition, all jobs lose staging, or those that need a mover do. */
static void check_partitions(struct doctor *d)
{
	if (d->conf)
		(void)conf_advise_partitions(d->conf, tell_warning, d);
}

/* Checks munge first, because scontrol, and also srun and sbcast on the first node of a job,
 * authenticate with it. Sites with other methods (auth/slurm, sackd) usually have no munge
 * program. */
static void check_munge(struct doctor *d)
{
	static const char *const argv[] = { "munge", "-n", NULL };
	_cleanup_(freep) char *text = NULL;
	int r = capture_run(argv, MUNGE_MS, &text);

	if (r == 0)
		doctor_tell(d, DOCTOR_OK, NULL, "munged answers");
	else if (r != -ENOENT)
		doctor_tell(d, DOCTOR_FAIL, "systemctl restart munge; its log is in /var/log/munge",
			    "munged %s: Slurm's programs can't be used here, so the nodes of a job "
			    "can't be waited for",
			    r == -ETIMEDOUT ? "does not answer" : "can't be reached");
}

static void check_slurm(struct doctor *d)
{
	static const char *const argv[] = { "scontrol", "show", "config", NULL };
	_cleanup_(freep) char *config = NULL;
	int r = capture_run(argv, SCONTROL_MS, &config);

	if (r == -ENOENT) {
		doctor_tell(d, DOCTOR_WARN, "'stagectl run' works without it",
			    "there is no Slurm here (no scontrol)");
		return;
	}
	if (r != 0) {
		doctor_tell(d, DOCTOR_WARN, "ask again where the controller can be reached",
			    "'scontrol show config' %s",
			    r == -ETIMEDOUT ? "does not answer" : "fails");
		return;
	}
	check_prolog_flags(d, config);
	check_memory_limit(d, config);
	check_namespace(d, config);
	check_unkillable(d, config);
	check_partitions(d);
	doctor_check_plugin(d, config);
}

const struct doctor_check doctor_slurm_checks[] = {
	{ "munge", check_munge },
	{ "slurm", check_slurm },
	{ NULL, NULL },
};
