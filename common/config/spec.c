#include "common/config/spec.h"

#include <errno.h>
#include <string.h>

#include "common/util/error.h"
#include "common/util/strutil.h"

static const char *const waits[] = { "script", "tasks", "no" };

#define ARRAY ",array"
#define GRES ",gres="

void spec_deinit(struct spec *spec)
{
	free(spec->value);
	spec->value = NULL;
}

int spec_to_string(const struct spec *spec, char **textp)
{
	char *text;

	text = strutil_printf("1:%s%s%s%s:%s:%s", waits[spec->wait], spec->array ? ARRAY : "",
			      *spec->gres ? GRES : "", spec->gres, spec->conf_hash, spec->value);
	if (!text)
		return -ENOMEM;
	*textp = text;
	return 0;
}

/* Gets the field before the next colon, which must exist; *textp moves to the text after it. */
static int next_field(const char **textp, const char **fieldp, size_t *np)
{
	const char *colon = strchr(*textp, ':');

	if (!colon)
		return -EINVAL;
	*fieldp = *textp;
	*np = (size_t)(colon - *textp);
	*textp = colon + 1;
	return 0;
}

/* Reads the generic resources at the end of the field. Returns the length of the rest. */
static size_t read_gres(const char *field, size_t n, struct spec *spec)
{
	const char *mark = memmem(field, n, GRES, strlen(GRES)), *names;
	size_t n_names;

	if (!mark)
		return n;
	names = mark + strlen(GRES);
	n_names = n - (size_t)(names - field);
	if (!gres_is_list(names, n_names))
		return 0;
	*(char *)mempcpy(spec->gres, names, n_names) = '\0';
	return (size_t)(mark - field);
}

static int read_wait(const char *field, size_t n, struct spec *spec)
{
	const size_t tail = strlen(ARRAY);

	n = read_gres(field, n, spec);
	spec->array = n > tail && !memcmp(field + n - tail, ARRAY, tail);
	n -= spec->array ? tail : 0;
	for (size_t i = 0; i < ARRAY_SIZE(waits); i++)
		if (strlen(waits[i]) == n && !memcmp(waits[i], field, n)) {
			spec->wait = (enum conf_wait)i;
			return 0;
		}
	return -EINVAL;
}

static int read_hash(const char *field, size_t n, char hash[static 17])
{
	if (n != 16 || strspn(field, "0123456789abcdef") < n)
		return -EINVAL;
	memcpy(hash, field, n);
	hash[n] = '\0';
	return 0;
}

int spec_from_string(struct spec *spec, const char *text, struct error *err)
{
	struct spec new = { 0 };
	const char *rest = text, *field;
	size_t n;

	if (next_field(&rest, &field, &n) < 0 || n != 1 || *field != '1')
		return error_set(err, EPROTO,
				 "the job's spec is of another version of stage-data; "
				 "submit the job again");
	if (next_field(&rest, &field, &n) < 0 || read_wait(field, n, &new) < 0 ||
	    next_field(&rest, &field, &n) < 0 || read_hash(field, n, new.conf_hash) < 0)
		return error_set(err, EPROTO, "the job's spec is damaged; submit the job again");
	if (strlen(rest) > DATASET_MAX_VALUE)
		return error_set(err, EPROTO, "the job's spec is too long; submit the job again");
	new.value = strdup(rest);
	if (!new.value)
		return error_errno(err, ENOMEM, "the job's spec");
	*spec = new;
	return 0;
}
