/*
 * The encoded form is the only form: getting is a walk over at most 64 KiB, which is cheaper than
 * keeping an index in step.
 */
#include "common/protocol/kv.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/util/parse.h"

struct kv {
	char *data;
	size_t size, room;
	size_t n_fields;
	int failure; /* first failure of kv_set*(): -errno or KV_E_* */
};

static bool key_is_valid(const char *key, size_t n)
{
	if (n == 0 || n > KV_MAX_KEY || key[0] < 'a' || key[0] > 'z')
		return false;
	for (size_t i = 1; i < n; i++)
		if (!((key[i] >= 'a' && key[i] <= 'z') || (key[i] >= '0' && key[i] <= '9') ||
		      key[i] == '_' || key[i] == '.'))
			return false;
	return true;
}

/* Returns the field "key=value" with that key; lent. */
static char *kv_find(const struct kv *kv, const char *key, size_t n)
{
	char *p = kv->data, *end;

	if (kv->size == 0)
		return NULL; /* data is NULL, too */
	end = kv->data + kv->size;
	for (; p < end; p += strlen(p) + 1)
		if (*p == *key && !strncmp(p, key, n) && p[n] == '=')
			return p;
	return NULL;
}

int kv_new(struct kv **kvp)
{
	struct kv *kv = calloc(1, sizeof(*kv));

	if (!kv)
		return -ENOMEM;
	*kvp = kv;
	return 0;
}

void kv_free(struct kv *kv)
{
	if (!kv)
		return;
	if (kv->data)
		explicit_bzero(kv->data, kv->room);
	free(kv->data);
	free(kv);
}

int kv_new_from_data(struct kv **kvp, const void *data, size_t size)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	const char *p = data, *end = p + size;
	int r;

	if (size > KV_MAX_SIZE)
		return KV_E_TOO_BIG;
	if (size == 0 || end[-1] != '\0')
		return KV_E_MALFORMED;
	r = kv_new(&kv);
	if (r < 0)
		return r;
	kv->data = malloc(size);
	if (!kv->data)
		return -ENOMEM;
	kv->room = size;
	while (p < end) {
		size_t n = strlen(p), k = strcspn(p, "=");

		if (!p[k] || !key_is_valid(p, k) || kv_find(kv, p, k))
			return KV_E_MALFORMED;
		if (++kv->n_fields > KV_MAX_FIELDS)
			return KV_E_TOO_BIG;
		memcpy(kv->data + kv->size, p, n + 1);
		kv->size += n + 1;
		p += n + 1;
	}
	*kvp = steal_ptr(kv);
	return 0;
}

static void kv_fail(struct kv *kv, int failure)
{
	if (!kv->failure)
		kv->failure = failure;
}

static void remove_field(struct kv *kv, const char *key)
{
	char *p = kv_find(kv, key, strlen(key));
	size_t n;

	if (!p)
		return;
	n = strlen(p) + 1;
	memmove(p, p + n, (size_t)(kv->data + kv->size - (p + n)));
	kv->size -= n;
	kv->n_fields--;
}

static int reserve(struct kv *kv, size_t more)
{
	size_t room = kv->room ? kv->room : 512;
	char *bigger;

	if (kv->size + more > KV_MAX_SIZE)
		return KV_E_TOO_BIG;
	while (room < kv->size + more)
		room *= 2;
	if (room == kv->room)
		return 0;
	bigger = malloc(room); /* realloc() could leave a copy of the old bytes in freed memory */
	if (!bigger)
		return -ENOMEM;
	if (kv->data) {
		memcpy(bigger, kv->data, kv->size);
		explicit_bzero(kv->data, kv->room);
		free(kv->data);
	}
	kv->data = bigger;
	kv->room = room;
	return 0;
}

void kv_set(struct kv *kv, const char *key, const char *value)
{
	size_t k = strlen(key), v = strlen(value);
	int r;

	if (!key_is_valid(key, k)) {
		kv_fail(kv, KV_E_MALFORMED);
		return;
	}
	remove_field(kv, key);
	if (kv->n_fields >= KV_MAX_FIELDS) {
		kv_fail(kv, KV_E_TOO_BIG);
		return;
	}
	r = reserve(kv, k + v + 2);
	if (r) {
		kv_fail(kv, r);
		return;
	}
	memcpy(kv->data + kv->size, key, k);
	kv->data[kv->size + k] = '=';
	memcpy(kv->data + kv->size + k + 1, value, v + 1);
	kv->size += k + v + 2;
	kv->n_fields++;
}

void kv_setf(struct kv *kv, const char *key, const char *fmt, ...)
{
	_cleanup_(freep) char *value = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&value, fmt, ap);
	va_end(ap);
	if (n < 0) {
		value = NULL;
		kv_fail(kv, -ENOMEM);
		return;
	}
	kv_set(kv, key, value);
}

void kv_set_u64(struct kv *kv, const char *key, uint64_t value)
{
	kv_setf(kv, key, "%llu", (unsigned long long)value);
}

int kv_get_data(const struct kv *kv, const void **datap, size_t *sizep)
{
	if (kv->failure)
		return kv->failure;
	*datap = kv->data;
	*sizep = kv->size;
	return 0;
}

const char *kv_get(const struct kv *kv, const char *key)
{
	size_t k = strlen(key);
	const char *p = kv_find(kv, key, k);

	return p ? p + k + 1 : NULL;
}

const char *kv_get_or_empty(const struct kv *kv, const char *key)
{
	const char *v = kv_get(kv, key);

	return v ? v : "";
}

uint64_t kv_get_u64(const struct kv *kv, const char *key, uint64_t dflt)
{
	const char *v = kv_get(kv, key);
	uint64_t n;

	return v && parse_uint64(v, &n) == 0 ? n : dflt;
}

/* Keys are not NUL-terminated in the encoding, so a copy is lent, in one of a few buffers of the
 * calling thread that are used in turn. */
bool kv_get_field(const struct kv *kv, size_t i, const char **keyp, const char **valuep)
{
	static __thread char keys[4][KV_MAX_KEY + 1];
	static __thread unsigned turn;
	const char *p = kv->data, *end;
	char *key;
	size_t k;

	if (kv->size == 0)
		return false;
	end = p + kv->size;
	for (; p < end && i > 0; i--)
		p += strlen(p) + 1;
	if (p >= end)
		return false;
	k = strcspn(p, "=");
	key = keys[turn++ % 4];
	memcpy(key, p, k);
	key[k] = '\0';
	*keyp = key;
	*valuep = p + k + 1;
	return true;
}
