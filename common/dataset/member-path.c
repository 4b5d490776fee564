#include "common/dataset/member-path.h"

#include <errno.h>
#include <string.h>

#include "common/util/error.h"
#include "common/util/path.h"
#include "common/util/suffix.h"

static int refuse_length(const char *path, size_t len, struct error *err)
{
	if (len > MEMBER_MAX_NAME)
		error_set(
			err, ENAMETOOLONG,
			"member %.200s… has too long a name (%zu bytes of %d that a name may have)",
			path, len, MEMBER_MAX_NAME);
	else
		error_set(err, ENAMETOOLONG, "member %.200s… has too long a name (%zu bytes)", path,
			  strlen(path));
	return error_set_hint(err, -ENAMETOOLONG,
			      "exclude= leaves it out; or pack it under a shorter one");
}

static int refuse_depth(const char *path, struct error *err)
{
	error_set(err, ENAMETOOLONG, "member %.200s… lies deeper than %d directories", path,
		  MEMBER_MAX_COMPONENTS);
	return error_set_hint(err, -ENAMETOOLONG,
			      "exclude= leaves it out; or pack it with fewer directories above it");
}

int member_path_clean(const char *path, char buf[static MEMBER_PATH_SIZE], struct error *err)
{
	size_t n = 0, len, components = 0;

	for (const char *s = path; *s; s += len) {
		while (*s == '/')
			s++;
		len = (size_t)(strchrnul(s, '/') - s);
		if (len == 0 || (len == 1 && s[0] == '.'))
			continue;
		if (len == 2 && !memcmp(s, "..", 2))
			return error_set(err, EINVAL, "member %.200s leads out by \"..\"", path);
		if (len > MEMBER_MAX_NAME || n + len + 2 > MEMBER_PATH_SIZE)
			return refuse_length(path, len, err);
		if (++components > MEMBER_MAX_COMPONENTS)
			return refuse_depth(path, err);
		if (n > 0)
			buf[n++] = '/';
		memcpy(buf + n, s, len);
		n += len;
	}
	buf[n] = '\0';
	return 0;
}

void member_path_trim(char *path)
{
	char *to = path;
	size_t len;

	for (const char *from = path; *from; from += strspn(from, "/")) {
		len = strcspn(from, "/");
		if (len != 1 || *from != '.') {
			if (to > path)
				*to++ = '/';
			memmove(to, from, len);
			to += len;
		}
		from += len;
	}
	*to = '\0';
}

bool member_path_cut(char *path, const char *subdir, uint32_t strip)
{
	size_t n = subdir ? strlen(subdir) : 0;
	const char *rest = path;

	while (n > 0 && subdir[n - 1] == '/')
		n--;
	if (n > 0) {
		if (strncmp(path, subdir, n) || (path[n] != '/' && path[n] != '\0'))
			return false;
		rest = path + n + (path[n] == '/');
	}
	for (; strip > 0; strip--) {
		rest = strchr(rest, '/');
		if (!rest)
			return false;
		rest++;
	}
	memmove(path, rest, strlen(rest) + 1);
	return true;
}

void member_path_cut_suffix(char *path)
{
	char *name = (char *)path_base(path);
	size_t n = strlen(name);
	const struct suffix *s = suffix_find(name, n);

	if (!s || (s->kind != SUFFIX_TAR && s->kind != SUFFIX_ZIP))
		return;
	n -= strlen(s->text);
	if (strspn(name, ".") < n || n > 2) /* do not change "..tar" and "...tar" to "." and ".." */
		name[n] = '\0';
}
