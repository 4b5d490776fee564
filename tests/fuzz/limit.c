/*
 * An input may take ten seconds of CPU time. libFuzzer's own limit is in seconds of real time.
 * These also pass while other programs use the CPUs or all processes are stopped. libFuzzer's limit
 * is for inputs that wait for ever.
 */
#include "tests/fuzz/fuzz.h"

#include <signal.h>
#include <sys/time.h>

#define TICK_SECONDS 5 /* an input that two ticks in a row find at work */

static volatile unsigned n_turns; /* odd: one is at work */
static volatile unsigned seen, n_ticks;

int __real_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int __wrap_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_tick(int sig)
{
	static const char text[] = "limit.c: more than ten seconds of processor time\n";

	n_ticks = n_turns % 2 && n_turns == seen ? n_ticks + 1 : 0;
	seen = n_turns;
	if (n_ticks < 2)
		return;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(1);
	abort();
}

static void start(void)
{
	const struct sigaction action = { .sa_handler = on_tick, .sa_flags = SA_RESTART };
	const struct itimerval timer = { .it_interval.tv_sec = TICK_SECONDS,
					 .it_value.tv_sec = TICK_SECONDS };

	FUZZ_CHECK(sigaction(SIGPROF, &action, NULL) == 0);
	FUZZ_CHECK(setitimer(ITIMER_PROF, &timer, NULL) == 0);
}

int __wrap_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool started;
	int r;

	if (!started)
		start();
	started = true;
	n_turns++;
	r = __real_LLVMFuzzerTestOneInput(data, size);
	n_turns++;
	return r;
}
