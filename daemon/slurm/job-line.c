/*
 * libslurm exports neither the names of states nor those of reasons in all releases. States are
 * few. Of the reasons these are the usual ones; for others squeue has to be asked.
 */
#include "daemon/slurm/job-line.h"

#include <errno.h>
#include <string.h>

#include "common/util/cleanup.h"

#define DAY 86400
#define HOUR 3600
#define MINUTE 60

struct state_name {
	uint32_t state;
	const char *brief, *whole;
};

/* The first that is set counts. */
static const struct state_name flags[] = {
	{ JOB_COMPLETING, "CG", "COMPLETING" },
	{ JOB_STAGE_OUT, "SO", "STAGE_OUT" },
	{ JOB_CONFIGURING, "CF", "CONFIGURING" },
	{ JOB_RESIZING, "RS", "RESIZING" },
	{ JOB_REQUEUE, "RQ", "REQUEUED" },
	{ JOB_REQUEUE_FED, "RF", "REQUEUE_FED" },
	{ JOB_REQUEUE_HOLD, "RH", "REQUEUE_HOLD" },
	{ JOB_SPECIAL_EXIT, "SE", "SPECIAL_EXIT" },
	{ JOB_STOPPED, "ST", "STOPPED" },
	{ JOB_REVOKED, "RV", "REVOKED" },
	{ JOB_RESV_DEL_HOLD, "RD", "RESV_DEL_HOLD" },
	{ JOB_SIGNALING, "SI", "SIGNALING" },
};

static const struct state_name bases[] = {
	{ JOB_PENDING, "PD", "PENDING" },     { JOB_RUNNING, "R", "RUNNING" },
	{ JOB_SUSPENDED, "S", "SUSPENDED" },  { JOB_COMPLETE, "CD", "COMPLETED" },
	{ JOB_CANCELLED, "CA", "CANCELLED" }, { JOB_FAILED, "F", "FAILED" },
	{ JOB_TIMEOUT, "TO", "TIMEOUT" },     { JOB_NODE_FAIL, "NF", "NODE_FAIL" },
	{ JOB_PREEMPTED, "PR", "PREEMPTED" }, { JOB_BOOT_FAIL, "BF", "BOOT_FAIL" },
	{ JOB_DEADLINE, "DL", "DEADLINE" },   { JOB_OOM, "OOM", "OUT_OF_MEMORY" },
};

static const struct {
	uint32_t reason;
	const char *name;
} reasons[] = {
	{ WAIT_NO_REASON, "None" },
	{ WAIT_PRIORITY, "Priority" },
	{ WAIT_DEPENDENCY, "Dependency" },
	{ WAIT_RESOURCES, "Resources" },
	{ WAIT_PART_NODE_LIMIT, "PartitionNodeLimit" },
	{ WAIT_PART_TIME_LIMIT, "PartitionTimeLimit" },
	{ WAIT_PART_DOWN, "PartitionDown" },
	{ WAIT_PART_INACTIVE, "PartitionInactive" },
	{ WAIT_HELD, "JobHeldAdmin" },
	{ WAIT_TIME, "BeginTime" },
	{ WAIT_LICENSES, "Licenses" },
	{ WAIT_RESERVATION, "Reservation" },
	{ WAIT_NODE_NOT_AVAIL, "ReqNodeNotAvail" },
	{ WAIT_HELD_USER, "JobHeldUser" },
};

static const struct state_name *find_state(uint32_t state)
{
	static const struct state_name unknown = { 0, "?", "?" };

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		if (state & flags[i].state)
			return &flags[i];
	for (size_t i = 0; i < ARRAY_SIZE(bases); i++)
		if ((state & JOB_STATE_BASE) == bases[i].state)
			return &bases[i];
	return &unknown;
}

const char *job_line_get_state(const slurm_job_info_t *job)
{
	return find_state(job->job_state)->brief;
}

const char *job_line_get_running_state(const slurm_job_info_t *job)
{
	return find_state(job->job_state & ~(uint32_t)(JOB_RESIZING | JOB_SIGNALING))->brief;
}

/* What a user has named may have an end of line in it. */
static void print_text(FILE *out, const char *text)
{
	for (; text && *text; text++)
		putc(*text >= 0 && *text < ' ' ? '?' : *text, out);
}

static void print_seconds(FILE *out, long n)
{
	if (n < 0)
		fputs("INVALID", out);
	else if (n >= DAY)
		fprintf(out, "%ld-%02ld:%02ld:%02ld", n / DAY, n % DAY / HOUR, n % HOUR / MINUTE,
			n % MINUTE);
	else if (n >= HOUR)
		fprintf(out, "%ld:%02ld:%02ld", n / HOUR, n % HOUR / MINUTE, n % MINUTE);
	else
		fprintf(out, "%ld:%02ld", n / MINUTE, n % MINUTE);
}

static long seconds_used(const slurm_job_info_t *job)
{
	const uint32_t base = job->job_state & JOB_STATE_BASE;
	const bool runs = base == JOB_RUNNING || !job->end_time;
	const time_t end = runs ? time(NULL) : job->end_time;

	if (!job->start_time || base == JOB_PENDING)
		return 0;
	if (base == JOB_SUSPENDED)
		return (long)job->pre_sus_time;
	if (job->suspend_time)
		return (long)(end - job->suspend_time + job->pre_sus_time);
	return (long)(end - job->start_time);
}

static void print_limit(FILE *out, uint32_t minutes)
{
	if (minutes == INFINITE)
		fputs("UNLIMITED", out);
	else if (minutes == NO_VAL)
		fputs("NOT_SET", out);
	else
		print_seconds(out, (long)minutes * MINUTE);
}

static void print_id(FILE *out, const slurm_job_info_t *job)
{
	if (job->array_task_str)
		fprintf(out, "%u_[%s]", job->array_job_id, job->array_task_str);
	else if (job->array_task_id != NO_VAL)
		fprintf(out, "%u_%u", job->array_job_id, job->array_task_id);
	else if (job->het_job_id)
		fprintf(out, "%u+%u", job->het_job_id, job->het_job_offset);
	else
		fprintf(out, "%u", job->job_id);
}

static int print_reason(FILE *out, const slurm_job_info_t *job)
{
	if (job->state_desc) {
		print_text(out, job->state_desc);
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (job->state_reason == reasons[i].reason)
			return fputs(reasons[i].name, out) < 0 ? -EIO : 0;
	return -ENOTSUP;
}

static int print_field(FILE *out, char field, const slurm_job_info_t *job)
{
	switch (field) {
	case 'A':
		return fprintf(out, "%u", job->job_id) < 0 ? -EIO : 0;
	case 'D':
		return fprintf(out, "%u", job->num_nodes) < 0 ? -EIO : 0;
	case 'i':
		print_id(out, job);
		return 0;
	case 'j':
		print_text(out, job->name);
		return 0;
	case 'l':
		print_limit(out, job->time_limit);
		return 0;
	case 'L':
		if (job->time_limit == INFINITE || job->time_limit == NO_VAL)
			print_limit(out, job->time_limit);
		else
			print_seconds(out, (long)job->time_limit * MINUTE - seconds_used(job));
		return 0;
	case 'M':
		print_seconds(out, seconds_used(job));
		return 0;
	case 'P':
		print_text(out, job->partition);
		return 0;
	case 'r':
		return print_reason(out, job);
	case 't':
		print_text(out, find_state(job->job_state)->brief);
		return 0;
	case 'T':
		print_text(out, find_state(job->job_state)->whole);
		return 0;
	}
	return -EINVAL;
}

int job_line_print(FILE *out, const char *format, const slurm_job_info_t *job)
{
	int r = 0;

	for (; *format && r == 0; format++) {
		if (*format != '%')
			putc(*format, out);
		else if (format[1])
			r = print_field(out, *++format, job);
		else
			r = -EINVAL;
	}
	putc('\n', out);
	return r;
}
