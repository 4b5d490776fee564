#include "daemon/fetch/s3-keys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/fd.h"

#define MAX_SIZE (64 << 10) /* of a file, in bytes */

/* ---- parse a text ---- */

/* Parses "NAME = VALUE". *badp is set to true if the value is too long or has an invalid byte. */
static bool take_value(const char *line, const char *name, char *buf, size_t size, bool *badp)
{
	size_t n = strlen(name);
	const char *p;

	if (strncmp(line, name, n))
		return false;
	p = line + n + strspn(line + n, " \t");
	if (*p++ != '=')
		return false;
	p += strspn(p, " \t");
	n = strcspn(p, "\r\n");
	while (n > 0 && strchr(" \t", p[n - 1]))
		n--;
	*badp = *badp || n >= size;
	for (size_t i = 0; i < n; i++)
		*badp = *badp || (unsigned char)p[i] <= ' ' || (unsigned char)p[i] >= 0x7f;
	snprintf(buf, size, "%.*s", (int)n, p);
	return true;
}

/* Returns whether the line is "[PROFILE]". In ~/.aws/config, the form is "[profile PROFILE]". */
static bool is_section(const char *line, const char *profile, bool is_config)
{
	const char *p = line + 1 + strspn(line + 1, " \t");
	bool named = is_config && !strncmp(p, "profile", 7) && strchr(" \t", p[7]);
	size_t n = strlen(profile);

	if (named)
		p += 7 + strspn(p + 7, " \t");
	if (strncmp(p, profile, n) || (is_config && !named && strcmp(profile, S3_KEYS_DEFAULT)))
		return false;
	return p[n + strspn(p + n, " \t")] == ']';
}

static bool is_elsewhere(const char *line)
{
	static const char *const words[] = {
		"credential_process",	   "role_arn",	     "sso_",
		"login_session",	   "source_profile", "credential_source",
		"web_identity_token_file",
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (!strncmp(line, words[i], strlen(words[i])))
			return true;
	return false;
}

int s3_keys_from_text(struct keys *keys, const char *text, const char *profile, bool is_config)
{
	bool inside = false, bad = false, elsewhere = false;
	const char *line, *p;

	*keys = (struct keys){ 0 };
	for (line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		p = line + strspn(line, " \t");
		if (*p == '[')
			inside = is_section(p, profile, is_config);
		if (!inside)
			continue;
		elsewhere = elsewhere || is_elsewhere(p);
		(void)(take_value(p, "aws_access_key_id", keys->access, sizeof(keys->access),
				  &bad) ||
		       take_value(p, "aws_secret_access_key", keys->secret, sizeof(keys->secret),
				  &bad) ||
		       take_value(p, "aws_session_token", keys->token, sizeof(keys->token), &bad));
	}
	if (!bad && keys->access[0] && keys->secret[0])
		return S3_KEYS_E_SUCCESS;
	explicit_bzero(keys, sizeof(*keys));
	if (bad)
		return S3_KEYS_E_BAD;
	return elsewhere ? S3_KEYS_E_ELSEWHERE : S3_KEYS_E_NONE;
}

/* ---- files ---- */

static int hint(struct error *err, const char *profile)
{
	return error_set_hint(err, err->code,
			      "write ~/.aws/credentials with [%s], aws_access_key_id and "
			      "aws_secret_access_key",
			      profile);
}

static int refuse_file(const char *path, const struct stat *st, struct error *err)
{
	if (!S_ISREG(st->st_mode) || st->st_uid != geteuid()) {
		error_set(err, EACCES, "%s %s", path,
			  !S_ISREG(st->st_mode) ? "is not a file" : "belongs to another user");
		return error_set_hint(err, -EACCES,
				      "put the keys into a file of your own with mode 600 at "
				      "this path");
	}
	error_set(err, EACCES, "%s can be read by others", path);
	return error_set_hint(err, -EACCES, "chmod 600 %s, and change the keys", path);
}

static int refuse_text(int why, const char *path, const char *profile, struct error *err)
{
	if (why == S3_KEYS_E_ELSEWHERE) {
		error_set(err, EINVAL,
			  "%s: the profile %s gets its keys by a role, a program or a "
			  "browser, which is not supported",
			  path, profile);
		return error_set_hint(err, -EINVAL,
				      "put the keys that aws configure export-credentials prints "
				      "into section [%s] of ~/.aws/credentials",
				      profile);
	}
	if (why == S3_KEYS_E_NONE)
		return error_set(err, EINVAL, "%s has no keys in its section [%s]", path, profile);
	error_set(err, EINVAL, "%s has a key with a byte that keys can't have", path);
	return hint(err, profile);
}

/* Reads the keys of a profile from a file. S3_KEYS_E_NONE: the file has none; err is set, but the
 * caller may try the other file. ~/.aws/config may be readable by others if it has no keys, because
 * AWS's tools create it so. */
static int read_keys(struct keys *keys, const char *path, const char *profile, bool is_config,
		     struct error *err)
{
	_cleanup_(freep) char *text = NULL;
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;
	size_t size;
	bool open_to_others;
	int r;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0) {
		r = errno == ENOENT ? S3_KEYS_E_NONE : -errno;
		error_errno(err, errno, "keys for S3: %s", path);
		return r < 0 ? hint(err, profile) : r;
	}
	open_to_others = st.st_mode & 077;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (open_to_others && !is_config))
		return refuse_file(path, &st, err);
	r = fd_read_file(fd, MAX_SIZE, &text, &size);
	if (r < 0)
		return error_errno(err, -r, "keys for S3: %s", path);
	r = s3_keys_from_text(keys, text, profile, is_config);
	explicit_bzero(text, size);
	if (r == S3_KEYS_E_SUCCESS && open_to_others) {
		explicit_bzero(keys, sizeof(*keys));
		return refuse_file(path, &st, err);
	}
	if (r == S3_KEYS_E_SUCCESS)
		return 0;
	refuse_text(r, path, profile, err);
	return r == S3_KEYS_E_NONE ? r : -EINVAL;
}

/* Reports that neither file has keys; err already says what the first file lacks. The hint names
 * the environment only if the user chose no profile. */
static int refuse_none(const char *profile, bool is_named, struct error *err)
{
	err->code = -ENOKEY;
	return error_set_hint(err, -ENOKEY,
			      "write ~/.aws/credentials with [%s], aws_access_key_id and "
			      "aws_secret_access_key%s",
			      profile,
			      is_named ? "" : ", or set " KEYS_ENV_ACCESS " and " KEYS_ENV_SECRET);
}

static int read_files(struct keys *keys, const char *profile, struct error *err)
{
	bool is_named = *profile;
	const struct passwd *pw = getpwuid(geteuid());
	struct error other = ERROR_INIT;
	char path[PATH_MAX];
	int r;

	if (!is_named)
		profile = S3_KEYS_DEFAULT;
	snprintf(path, sizeof(path), "%s/.aws/credentials", pw ? pw->pw_dir : "");
	r = read_keys(keys, path, profile, false, err);
	if (r != S3_KEYS_E_NONE)
		return r;
	snprintf(path, sizeof(path), "%s/.aws/config", pw ? pw->pw_dir : "");
	r = read_keys(keys, path, profile, true, &other);
	if (r == S3_KEYS_E_NONE)
		return refuse_none(profile, is_named, err);
	if (r < 0)
		*err = other;
	return r;
}

/* ---- shared by all threads ---- */

struct s3_keyring {
	pthread_mutex_t lock;
	const char *profile;
	struct keys *keys;
	bool has_keys, is_env;
};

static int take_env(struct s3_keyring *r, int keys_fd, struct error *err)
{
	int k = keys_from_fd(r->keys, keys_fd);

	if (k != KEYS_E_SUCCESS)
		return error_errno(err, k < 0 ? -k : EINVAL, "keys for S3 that were sent");
	r->has_keys = r->is_env = true;
	return 0;
}

int s3_keyring_new(struct s3_keyring **rp, const char *profile, int keys_fd, struct error *err)
{
	_cleanup_(s3_keyring_freep) struct s3_keyring *r = calloc(1, sizeof(*r));

	if (!r || keys_new(&r->keys) < 0)
		return error_set(err, ENOMEM, "out of memory");
	pthread_mutex_init(&r->lock, NULL);
	r->profile = profile;
	if (keys_fd >= 0 && take_env(r, keys_fd, err) < 0)
		return err->code;
	*rp = steal_ptr(r);
	return 0;
}

void s3_keyring_free(struct s3_keyring *r)
{
	if (!r)
		return;
	keys_free(r->keys);
	free(r);
}

int s3_keyring_get(struct s3_keyring *r, const struct keys **keysp, struct error *err)
{
	int k = 0;

	pthread_mutex_lock(&r->lock);
	if (!r->has_keys)
		k = read_files(r->keys, r->profile, err);
	r->has_keys = k == 0;
	pthread_mutex_unlock(&r->lock);
	if (k == 0)
		*keysp = r->keys;
	return k;
}

bool s3_keyring_is_env(const struct s3_keyring *r)
{
	return r->is_env;
}
