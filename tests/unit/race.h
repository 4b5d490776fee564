/*
 * race: for tests in which somebody exchanges names with links. The kernel is to have no part in
 * who wins: tests/lib/no-link-protection, which the environment names, holds fs.protected_symlinks
 * at 0 as long as this process lives.
 */
#pragma once

#include <fcntl.h>

/* Says what the setting was and is. A group's setup: 0, also where there is no such program. */
static inline int race_without_link_protection(void **state)
{
	const char *program = getenv("NO_LINK_PROTECTION");
	char said[128] = "";
	int in[2], out[2];
	pid_t pid;

	(void)state;
	if (!program)
		return 0;
	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		execl(program, program, "cat", NULL);
		_exit(127);
	}
	close(in[0]); /* in[1] stays: its end is ours */
	close(out[1]);
	if (pid < 0 || read(out[0], said, sizeof(said) - 1) <= 0)
		return -1;
	printf("%s", said);
	close(out[0]);
	return geteuid() == 0 && !strstr(said, "is 0\n") ? -1 : 0;
}
