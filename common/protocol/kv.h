/*
 * kv: a message or record as NUL-separated "key=value" texts; the codec of the protocol
 * (docs/protocol.md) and of the spec.
 *
 * Keys are [a-z][a-z0-9_.]*, at most KV_MAX_KEY bytes, each at most once; values are any bytes
 * but NUL. A message ends with a NUL and has at most KV_MAX_SIZE bytes and KV_MAX_FIELDS fields.
 *
 * The bytes are erased when a kv is freed or grows, because some messages have keys for S3.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/cleanup.h"

#define KV_MAX_SIZE (64 * 1024)
#define KV_MAX_FIELDS 128
#define KV_MAX_KEY 32

struct kv;

enum {
	KV_E_SUCCESS,
	KV_E_MALFORMED, /* bad key, missing '=', no final NUL, duplicate key */
	KV_E_TOO_BIG,	/* more than KV_MAX_SIZE bytes or KV_MAX_FIELDS fields */
};

int kv_new(struct kv **kvp);
int kv_new_from_data(struct kv **kvp, const void *data, size_t size);
void kv_free(struct kv *kv);
DEFINE_FREEP(struct kv, kv_free)

/* Add a field with a copy of the value, or replace the field with this key. The value must not be
 * from the same kv, because its bytes may move. Failures are permanent: kv_get_data() returns the
 * first one. */
void kv_set(struct kv *kv, const char *key, const char *value);
void kv_setf(struct kv *kv, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void kv_set_u64(struct kv *kv, const char *key, uint64_t value);

/* Lends the encoded form. Returns 0, -ENOMEM or KV_E_*. */
int kv_get_data(const struct kv *kv, const void **datap, size_t *sizep);

/* Returns the value, lent; NULL if the key is absent. */
const char *kv_get(const struct kv *kv, const char *key);
/* Returns "" if the key is absent. */
const char *kv_get_or_empty(const struct kv *kv, const char *key);
/* Returns dflt if the key is absent or the value is not a number. */
uint64_t kv_get_u64(const struct kv *kv, const char *key, uint64_t dflt);

/* Gets the i-th field. Returns false beyond the last one. */
bool kv_get_field(const struct kv *kv, size_t i, const char **keyp, const char **valuep);
