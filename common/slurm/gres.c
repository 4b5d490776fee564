#include "common/slurm/gres.h"

#include <string.h>

#define PREFIX "gres/"
#define SEPARATOR '+'

/* Characters that Slurm allows in names of gres, except those that separate fields of a spec. */
static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

static const char *get_next(const char *word, char separator)
{
	const char *end = strchrnul(word, separator);

	return *end ? end + 1 : end;
}

static bool has(const char *names, const char *name, size_t n)
{
	for (const char *p = names; *p; p = get_next(p, SEPARATOR)) {
		if ((size_t)(strchrnul(p, SEPARATOR) - p) == n && !memcmp(p, name, n))
			return true;
	}
	return false;
}

static void add_name(char names[static GRES_SIZE], const char *name, size_t n)
{
	const size_t used = strlen(names);
	char *p = names + used;

	if (has(names, name, n) || used + n + 2 > GRES_SIZE)
		return;
	if (used)
		*p++ = SEPARATOR;
	*(char *)mempcpy(p, name, n) = '\0';
}

/* Adds one word: "nvme", "gpu:a100:4" or "nvme=1". */
static void add_word(char names[static GRES_SIZE], const char *word)
{
	const size_t n = strspn(word, letters);

	if (n > 0 && strchr(":=,", word[n]) && !(n == strlen("none") && !memcmp(word, "none", n)))
		add_name(names, word, n);
}

void gres_add(char names[static GRES_SIZE], const char *text, bool tres)
{
	for (const char *p = text; *p; p = get_next(p, ',')) {
		const bool prefixed = !strncmp(p, PREFIX, strlen(PREFIX));

		if (prefixed || !tres)
			add_word(names, p + (prefixed ? strlen(PREFIX) : 0));
	}
}

void gres_join(char names[static GRES_SIZE], const char *list)
{
	for (const char *p = list; *p; p = get_next(p, SEPARATOR))
		add_name(names, p, (size_t)(strchrnul(p, SEPARATOR) - p));
}

bool gres_has(const char *names, const char *name)
{
	return has(names, name, strlen(name));
}

bool gres_is_list(const char *names, size_t n)
{
	size_t word = 0; /* letters of the current name so far */

	for (size_t i = 0; i < n; i++) {
		if (names[i] == SEPARATOR ? word == 0
					  : !memchr(letters, names[i], sizeof(letters) - 1))
			return false;
		word = names[i] == SEPARATOR ? 0 : word + 1;
	}
	return word > 0 && n < GRES_SIZE;
}
