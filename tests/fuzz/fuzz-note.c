/*
 * Notes of stage-broadcast. The first bit says whether the input is the file of a note, or the
 * fields of a note, which is written and read back.
 */
#include "tests/fuzz/fuzz.h"

#include "daemon/worker/broadcast/broadcast-note.h"

static bool is_same(const struct broadcast_note *a, const struct broadcast_note *b)
{
	return a->kind == b->kind && a->size == b->size && a->mtime_s == b->mtime_s &&
	       a->mtime_ns == b->mtime_ns && !strcmp(a->reason, b->reason);
}

/* What is taken is what would be written, and no part of it is taken before. */
static void read_file(const char *data, size_t size)
{
	static const struct broadcast_note none = { .kind = BROADCAST_NOT, .size = 4711 };
	struct broadcast_note note = none, part;
	char text[BROADCAST_NOTE_SIZE];
	int r = broadcast_note_from_data(&note, data, size);
	size_t n;

	FUZZ_CHECK(r == BROADCAST_NOTE_E_SUCCESS || r == BROADCAST_NOTE_E_UNFINISHED ||
		   r == BROADCAST_NOTE_E_MALFORMED);
	FUZZ_CHECK((r == BROADCAST_NOTE_E_UNFINISHED) ==
		   (!memchr(data, '\n', size) && size < BROADCAST_NOTE_SIZE));
	FUZZ_CHECK(r == BROADCAST_NOTE_E_SUCCESS || is_same(&note, &none));
	if (r != BROADCAST_NOTE_E_SUCCESS)
		return;
	broadcast_note_to_string(&note, text);
	n = strlen(text);
	FUZZ_CHECK(n <= size && !memcmp(text, data, n));
	for (size_t i = 0; i < n; i++)
		FUZZ_CHECK(broadcast_note_from_data(&part, text, i) == BROADCAST_NOTE_E_UNFINISHED);
}

static void write_and_read(const uint8_t *data, size_t size)
{
	struct broadcast_note note = { 0 }, again;
	char text[BROADCAST_NOTE_SIZE];

	if (size < 1 + sizeof(note.size) + sizeof(note.mtime_s) + sizeof(note.mtime_ns))
		return;
	note.kind = *data++ % (BROADCAST_NOT + 1);
	memcpy(&note.size, data, sizeof(note.size));
	data += sizeof(note.size);
	memcpy(&note.mtime_s, data, sizeof(note.mtime_s));
	data += sizeof(note.mtime_s);
	memcpy(&note.mtime_ns, data, sizeof(note.mtime_ns));
	data += sizeof(note.mtime_ns);
	note.mtime_ns %= 1000000000;
	size -= 1 + sizeof(note.size) + sizeof(note.mtime_s) + sizeof(note.mtime_ns);
	memcpy(note.reason, data, size < sizeof(note.reason) ? size : sizeof(note.reason) - 1);
	broadcast_note_to_string(&note, text);
	FUZZ_CHECK(strlen(text) < BROADCAST_NOTE_SIZE &&
		   strchr(text, '\n') == text + strlen(text) - 1);
	FUZZ_CHECK(broadcast_note_from_data(&again, text, strlen(text)) ==
		   BROADCAST_NOTE_E_SUCCESS);
	for (char *p = note.reason; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 127)
			*p = ' ';
	FUZZ_CHECK(is_same(&note, &again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] & 1)
		write_and_read(data + 1, size - 1);
	else
		read_file((const char *)data + 1, size - 1);
	return 0;
}
