/*
 * Preloaded into slurmd and its step daemons where lines are counted: a task's process holds in the
 * plugin, and then Slurm has it exec() a user's program. What it has counted is written before that
 * (tests/lib/coverage.c).
 */
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

void (*coverage_at_exec)(void);

int execve(const char *path, char *const *argv, char *const *env)
{
	if (coverage_at_exec)
		coverage_at_exec();
	return (int)syscall(SYS_execve, path, argv, env);
}
