#include "spank/cli-filter.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/protocol/submit-notes.h"
#include "common/util/cleanup.h"
#include "common/util/fd.h"
#include "spank/slurm-compat.h"

static int notes = -1;
static bool incomplete; /* a note could not be written; partial notes must not be used */

/* Opens the file for notes. Programs that a filter calls inherit it until the values are read. */
static bool open_notes(void)
{
	char number[16];

	if (notes >= 0)
		return true;
	notes = memfd_create("stage-data", 0);
	if (notes < 0)
		return false;
	snprintf(number, sizeof(number), "%d", notes);
	if (setenv(SUBMIT_NOTES_ENV, number, 1) == 0)
		return true;
	close(notes);
	notes = -1;
	return false;
}

/* After `ulimit -f 0`, a write is refused, and SIGXFSZ would end sbatch. */
static bool write_note(char origin, const char *value)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct sigaction saved;
	bool written;

	sigaction(SIGXFSZ, &ignore, &saved);
	written = fd_write_all(notes, &origin, 1) == 0 &&
		  fd_write_all(notes, value, strlen(value) + 1) == 0;
	sigaction(SIGXFSZ, &saved, NULL);
	return written;
}

void cli_filter_note(char origin, const char *value)
{
	if (spank_context() != S_CTX_ALLOCATOR || strcmp(program_invocation_short_name, "sbatch") ||
	    incomplete)
		return;
	if (open_notes() && write_note(origin, value))
		return;
	free(cli_filter_take());
	incomplete = true;
}

char *cli_filter_take(void)
{
	_cleanup_(fd_closep) int fd = notes;
	_cleanup_(freep) char *text = NULL;
	const char *answer = NULL;
	size_t size;

	notes = -1;
	incomplete = false;
	unsetenv(SUBMIT_NOTES_ENV);
	if (fd < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
	    fd_read_file(fd, SUBMIT_NOTES_MAX_SIZE, &text, &size) < 0)
		return NULL;
	for (const char *p = text; p < text + size; p += strlen(p) + 1)
		answer = *p == SUBMIT_NOTE_ANSWER ? p + 1 : NULL;
	return answer ? strdup(answer) : NULL;
}
