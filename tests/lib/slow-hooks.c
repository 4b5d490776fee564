/*
 * A SPANK plugin that tells when Slurm's hooks begin and end, and that makes them last long enough
 * for something to happen in them. It is built and loaded twice, before ours (-DFIRST) and after
 * it, so what is between the two is ours. The files DIR/JOB.PHASE.begun and DIR/JOB.PHASE.over say
 * when, in nanoseconds, because times of files are no finer than the kernel's tick. If there is a
 * DIR/slow, each of the two sleeps for half a second, also in between. PHASE is
 *
 *	prolog, epilog   those of the node
 *	extern           the extern step has been made and is not known to slurmd yet
 *	ready            the task has been let go by our hook, and is not begun
 *
 * Where DIR is not there nothing is done; it has to be anybody's to write.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

#define DIR "/run/slow-hooks"
#define SLEEP_MS 500

#ifdef FIRST
SPANK_PLUGIN(slow_first, 1)
#else
SPANK_PLUGIN(slow_last, 1)
#endif

static void mark(uint32_t job_id, const char *phase, const char *what)
{
	struct timespec first, last;
	char path[128];
	int fd;

	clock_gettime(CLOCK_MONOTONIC, &first);
	snprintf(path, sizeof(path), DIR "/%u.%s.%s", (unsigned)job_id, phase, what);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return;
	/* What this takes is no part of what is between the two. */
	clock_gettime(CLOCK_MONOTONIC, &last);
	if (what[0] == 'o')
		last = first;
	dprintf(fd, "%lld%09ld\n", (long long)last.tv_sec, last.tv_nsec);
	close(fd);
}

static int pass(spank_t sp, const char *phase, int begins, int ends)
{
	struct timespec left = { SLEEP_MS / 1000, SLEEP_MS % 1000 * 1000000L };
	uint32_t job_id;

	if (access(DIR, F_OK) < 0 || spank_get_item(sp, S_JOB_ID, &job_id) != ESPANK_SUCCESS)
		return 0;
	if (begins)
		mark(job_id, phase, "begun");
	while (access(DIR "/slow", F_OK) == 0 && nanosleep(&left, &left) < 0 && errno == EINTR)
		;
	if (ends)
		mark(job_id, phase, "over");
	return 0;
}

#ifdef FIRST
#define WHICH 1, 0
#else
#define WHICH 0, 1
#endif

int slurm_spank_job_prolog(spank_t sp, int ac, char **av)
{
	(void)ac, (void)av;
	return pass(sp, "prolog", WHICH);
}

int slurm_spank_job_epilog(spank_t sp, int ac, char **av)
{
	(void)ac, (void)av;
	return pass(sp, "epilog", WHICH);
}

static int is_step(spank_t sp, uint32_t want)
{
	uint32_t step_id;

	return spank_context() == S_CTX_REMOTE &&
	       spank_get_item(sp, S_JOB_STEPID, &step_id) == ESPANK_SUCCESS && step_id == want;
}

#ifdef FIRST
int slurm_spank_init(spank_t sp, int ac, char **av)
{
	(void)ac, (void)av;
	return is_step(sp, SLURM_EXTERN_CONT) ? pass(sp, "extern", WHICH) : 0;
}
#else
int slurm_spank_init_post_opt(spank_t sp, int ac, char **av)
{
	(void)ac, (void)av;
	return is_step(sp, SLURM_EXTERN_CONT) ? pass(sp, "extern", WHICH) : 0;
}

int slurm_spank_task_init(spank_t sp, int ac, char **av)
{
	(void)ac, (void)av;
	return is_step(sp, SLURM_BATCH_SCRIPT) ? pass(sp, "ready", 1, 1) : 0;
}
#endif
