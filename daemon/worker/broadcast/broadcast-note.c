#include "daemon/worker/broadcast/broadcast-note.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const kinds[] = {
	[BROADCAST_GO] = "go", [BROADCAST_WHOLE] = "whole", [BROADCAST_NOT] = "not"
};

#define N_KINDS (sizeof(kinds) / sizeof(*kinds))
#define NS_PER_S 1000000000u

void broadcast_note_to_string(const struct broadcast_note *note,
			      char text[static BROADCAST_NOTE_SIZE])
{
	char *reason;
	int n;

	n = snprintf(text, BROADCAST_NOTE_SIZE, "stage-broadcast 1 %s %" PRIu64 " %" PRId64 ".%09u",
		     kinds[note->kind], note->size, note->mtime_s, note->mtime_ns);
	reason = text + n;
	if (note->reason[0])
		n += snprintf(reason, BROADCAST_NOTE_SIZE - (size_t)n, " %s", note->reason);
	for (; *reason; reason++)
		if ((unsigned char)*reason < ' ' || *reason == 127)
			*reason = ' ';
	text[n] = '\n';
	text[n + 1] = '\0';
}

static int find_kind(const char *word)
{
	for (size_t i = 0; i < N_KINDS; i++)
		if (!strcmp(kinds[i], word))
			return (int)i;
	return -1;
}

int broadcast_note_from_data(struct broadcast_note *note, const void *data, size_t size)
{
	const char *end = memchr(data, '\n', size);
	char line[BROADCAST_NOTE_SIZE], again[BROADCAST_NOTE_SIZE], word[16];
	struct broadcast_note got = { 0 };
	int kind, n = 0;

	if (!end)
		return size < BROADCAST_NOTE_SIZE ? BROADCAST_NOTE_E_UNFINISHED
						  : BROADCAST_NOTE_E_MALFORMED;
	size = (size_t)(end - (const char *)data);
	if (size >= sizeof(line) || memchr(data, '\0', size))
		return BROADCAST_NOTE_E_MALFORMED;
	memcpy(line, data, size);
	line[size] = '\0';
	if (sscanf(line, "stage-broadcast 1 %15s %" SCNu64 " %" SCNd64 ".%9" SCNu32 "%n", word,
		   &got.size, &got.mtime_s, &got.mtime_ns, &n) != 4 ||
	    n == 0)
		return BROADCAST_NOTE_E_MALFORMED;
	kind = find_kind(word);
	if (kind < 0 || got.mtime_ns >= NS_PER_S || (line[n] && line[n] != ' '))
		return BROADCAST_NOTE_E_MALFORMED;
	got.kind = (enum broadcast_kind)kind;
	if (line[n])
		snprintf(got.reason, sizeof(got.reason), "%.*s", BROADCAST_REASON_SIZE - 1,
			 line + n + 1);
	/* refuse other spellings: signs, other blanks, numbers that are too large */
	broadcast_note_to_string(&got, again);
	again[strlen(again) - 1] = '\0';
	if (strcmp(again, line))
		return BROADCAST_NOTE_E_MALFORMED;
	*note = got;
	return BROADCAST_NOTE_E_SUCCESS;
}
