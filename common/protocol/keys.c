#include "common/protocol/keys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/protocol/conn.h"
#include "common/protocol/kv.h"
#include "common/util/error.h"
#include "common/util/fd.h"

/* ---- the place ---- */

int keys_new(struct keys **keysp)
{
	void *p = mmap(NULL, sizeof(struct keys), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -ENOMEM;
	(void)mlock(p, sizeof(struct keys));
	(void)madvise(p, sizeof(struct keys), MADV_DONTDUMP);
	(void)madvise(p, sizeof(struct keys), MADV_WIPEONFORK);
	*keysp = p;
	return 0;
}

void keys_free(struct keys *keys)
{
	if (!keys)
		return;
	explicit_bzero(keys, sizeof(*keys));
	munmap(keys, sizeof(*keys));
}

/* ---- what they may be ---- */

/* Copies the value if all bytes are printable ASCII, so that it cannot end a line of an HTTP
 * header. */
static bool take(char *buf, size_t size, const char *value)
{
	size_t n = strlen(value);

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)value[i] <= ' ' || (unsigned char)value[i] >= 0x7f)
			return false;
	if (n >= size)
		return false;
	memcpy(buf, value, n + 1);
	return true;
}

static int keys_fail(struct keys *keys, int why)
{
	explicit_bzero(keys, sizeof(*keys));
	return why;
}

/* ---- the environment ---- */

static int take_variable(char *buf, size_t size, const char *name, struct error *err)
{
	const char *value = getenv(name);

	if (!value || !*value) {
		error_set(err, ENOKEY, "%s is not set", name);
		return KEYS_E_NONE;
	}
	if (take(buf, size, value))
		return KEYS_E_SUCCESS;
	error_set(err, EINVAL, "%s has a byte that keys can't have, or too many", name);
	return KEYS_E_BAD;
}

int keys_from_env(struct keys *keys, struct error *err)
{
	struct error why = ERROR_INIT;
	int r;

	*keys = (struct keys){ 0 };
	r = take_variable(keys->access, sizeof(keys->access), KEYS_ENV_ACCESS, &why);
	if (r == KEYS_E_SUCCESS)
		r = take_variable(keys->secret, sizeof(keys->secret), KEYS_ENV_SECRET, &why);
	if (r == KEYS_E_SUCCESS &&
	    take_variable(keys->token, sizeof(keys->token), KEYS_ENV_TOKEN, &why) == KEYS_E_BAD)
		r = KEYS_E_BAD;
	if (r == KEYS_E_SUCCESS)
		return 0;
	if (err)
		*err = why;
	return keys_fail(keys, r);
}

void keys_forget_env(void)
{
	static const char *const names[] = { KEYS_ENV_ACCESS, KEYS_ENV_SECRET, KEYS_ENV_TOKEN };
	char *value;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		value = getenv(names[i]);
		if (value)
			explicit_bzero(value, strlen(value));
		unsetenv(names[i]);
	}
}

/* ---- messages ---- */

void keys_to_kv(const struct keys *keys, struct kv *kv)
{
	kv_set(kv, "access", keys->access);
	kv_set(kv, "secret", keys->secret);
	kv_set(kv, "token", keys->token);
}

int keys_from_kv(struct keys *keys, const struct kv *kv)
{
	*keys = (struct keys){ 0 };
	if (!take(keys->access, sizeof(keys->access), kv_get_or_empty(kv, "access")) ||
	    !take(keys->secret, sizeof(keys->secret), kv_get_or_empty(kv, "secret")) ||
	    !take(keys->token, sizeof(keys->token), kv_get_or_empty(kv, "token")))
		return keys_fail(keys, KEYS_E_BAD);
	return keys->access[0] && keys->secret[0] ? KEYS_E_SUCCESS : keys_fail(keys, KEYS_E_NONE);
}

/* ---- from process to process ---- */

int keys_to_fd(const struct keys *keys)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	_cleanup_(fd_closep) int ours = -1;
	_cleanup_(fd_closep) int theirs = -1;
	int fds[2], r;

	if (kv_new(&kv) < 0)
		return -ENOMEM;
	keys_to_kv(keys, kv);
	r = conn_pair(fds);
	if (r < 0)
		return r;
	ours = fds[0];
	theirs = fds[1];
	r = conn_send(ours, kv);
	return r < 0 ? r : steal_fd(&theirs);
}

int keys_from_fd(struct keys *keys, int fd)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	int r = fd_set_nonblock(fd, true);

	if (r == 0)
		r = conn_recv(fd, &kv);
	if (r == 0)
		r = -EPIPE;
	return r < 0 ? keys_fail(keys, r) : keys_from_kv(keys, kv);
}
