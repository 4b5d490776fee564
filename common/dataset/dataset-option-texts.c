/* Options whose value is a text with rules of its own: a digest, a path, a pattern, a name. */
#include "common/dataset/dataset-internal.h"

#include <errno.h>
#include <string.h>

#include "common/dataset/member-path.h"
#include "common/util/strutil.h"
#include "common/util/url.h"

int dataset_option_read_verify(struct dataset *d, char *value, struct error *err)
{
	size_t n;

	if (!strcmp(value, "size") || !strcmp(value, "none")) {
		d->verify = *value == 's' ? DATASET_VERIFY_SIZE : DATASET_VERIFY_NONE;
		return 0;
	}
	if (!strutil_begin(value, "sha256:"))
		return -EINVAL;
	value += strlen("sha256:");
	n = strspn(value, "0123456789abcdefABCDEF");
	if (value[n])
		return dataset_refuse(err,
				      "option verify: the digest has a byte that is no hex digit; "
				      "write what sha256sum prints, 64 of 0-9 and a-f");
	if (n != 64)
		return dataset_refuse(err,
				      "option verify: the digest has %zu digits and sha256 has 64; "
				      "write what sha256sum prints",
				      n);
	for (size_t i = 0; i <= n; i++)
		d->sha256[i] = strutil_lower(value[i]);
	d->verify = DATASET_VERIFY_SHA256;
	return 0;
}

int dataset_subdir_check(char *subdir, struct error *err)
{
	if (*subdir == '/')
		return dataset_refuse(err,
				      "option subdir: \"%s\" begins with /, but it is a path "
				      "inside the source; leave the / out",
				      subdir);
	if (url_climbs(subdir, strlen(subdir), false))
		return dataset_refuse(err,
				      "option subdir: \"%s\" has \"..\"; write the path from the "
				      "top of the source",
				      subdir);
	if (!dataset_braces_are_closed(subdir))
		return dataset_refuse(err, "option subdir: \"%s\" has a { without a }; close it",
				      subdir);
	member_path_trim(subdir);
	if (!*subdir)
		return dataset_refuse(err,
				      "option subdir is empty; write subdir=PATH or leave it out");
	return 0;
}

int dataset_option_read_subdir(struct dataset *d, char *value, struct error *err)
{
	if (dataset_subdir_check(value, err) < 0)
		return -EINVAL;
	d->subdir = strdup(value);
	return d->subdir ? 0 : -ENOMEM;
}

static int read_glob(const char *name, char **globs, size_t *n_globsp, const char *value,
		     struct error *err)
{
	if (!*value)
		return -EINVAL;
	if (!dataset_braces_are_closed(value))
		return dataset_refuse(err,
				      "option %s: \"%s\" has a { without a }; close it or write ? "
				      "in its place",
				      name, value);
	if (*n_globsp == DATASET_MAX_GLOBS)
		return dataset_refuse(err,
				      "option %s is given more than %d times; write several "
				      "patterns as one: %s=*.{a,b}",
				      name, DATASET_MAX_GLOBS, name);
	globs[*n_globsp] = strdup(value);
	if (!globs[*n_globsp])
		return -ENOMEM;
	(*n_globsp)++;
	return 0;
}

int dataset_option_read_include(struct dataset *d, char *value, struct error *err)
{
	return read_glob("include", d->include, &d->n_include, value, err);
}

int dataset_option_read_exclude(struct dataset *d, char *value, struct error *err)
{
	return read_glob("exclude", d->exclude, &d->n_exclude, value, err);
}

int dataset_profile_read(struct dataset *d, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < n; i++)
		if (!strutil_is_alpha(name[i]) && !strutil_is_digit(name[i]) &&
		    !strchr("._-@", name[i]))
			return -EINVAL;
	if (n == 0 || n >= sizeof(d->profile))
		return -EINVAL;
	memcpy(d->profile, name, n + 1);
	return 0;
}
