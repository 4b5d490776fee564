/*
 * Preloaded into every program of a node: a stage-manager stops before its main() where there is a
 * file /run/inject.stop, so that tests/lib/inject can trace it from its first call on. Its keeper
 * starts it with an environment made from nothing, by a descriptor.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void stop(int argc, char **argv)
{
	if (argc > 0 && strcmp(argv[0], "stage-manager") == 0 &&
	    access("/run/inject.stop", F_OK) == 0)
		kill(getpid(), SIGSTOP);
}
