#include "daemon/worker/spread/spread-note.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const kinds[] = { [SPREAD_GO] = "go", [SPREAD_WHOLE] = "whole", [SPREAD_NOT] = "not" };

#define N_KINDS (sizeof(kinds) / sizeof(*kinds))
#define NS_PER_S 1000000000u

void spread_note_to_string(const struct spread_note *note, char text[static SPREAD_NOTE_SIZE])
{
	char *reason;
	int n;

	n = snprintf(text, SPREAD_NOTE_SIZE, "stage-spread 1 %s %" PRIu64 " %" PRId64 ".%09u",
		     kinds[note->kind], note->size, note->mtime_s, note->mtime_ns);
	reason = text + n;
	if (note->reason[0])
		n += snprintf(reason, SPREAD_NOTE_SIZE - (size_t)n, " %s", note->reason);
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

int spread_note_from_data(struct spread_note *note, const void *data, size_t size)
{
	const char *end = memchr(data, '\n', size);
	char line[SPREAD_NOTE_SIZE], again[SPREAD_NOTE_SIZE], word[16];
	struct spread_note got = { 0 };
	int kind, n = 0;

	if (!end)
		return size < SPREAD_NOTE_SIZE ? SPREAD_NOTE_E_UNFINISHED : SPREAD_NOTE_E_MALFORMED;
	size = (size_t)(end - (const char *)data);
	if (size >= sizeof(line) || memchr(data, '\0', size))
		return SPREAD_NOTE_E_MALFORMED;
	memcpy(line, data, size);
	line[size] = '\0';
	if (sscanf(line, "stage-spread 1 %15s %" SCNu64 " %" SCNd64 ".%9" SCNu32 "%n", word, &got.size,
		   &got.mtime_s, &got.mtime_ns, &n) != 4 || n == 0)
		return SPREAD_NOTE_E_MALFORMED;
	kind = find_kind(word);
	if (kind < 0 || got.mtime_ns >= NS_PER_S || (line[n] && line[n] != ' '))
		return SPREAD_NOTE_E_MALFORMED;
	got.kind = (enum spread_kind)kind;
	if (line[n])
		snprintf(got.reason, sizeof(got.reason), "%.*s", SPREAD_REASON_SIZE - 1, line + n + 1);
	spread_note_to_string(&got, again); /* signs, other blanks, numbers that are too large */
	again[strlen(again) - 1] = '\0';
	if (strcmp(again, line))
		return SPREAD_NOTE_E_MALFORMED;
	*note = got;
	return SPREAD_NOTE_E_SUCCESS;
}
