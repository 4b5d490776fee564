#include "common/protocol/proto.h"

#include <string.h>

#include "common/util/cleanup.h"

struct kv *proto_new(const char *op)
{
	struct kv *kv;

	if (kv_new(&kv) < 0)
		return NULL;
	kv_set_u64(kv, "proto", PROTO_VERSION);
	kv_set(kv, "op", op);
	return kv;
}

const char *proto_get_op(const struct kv *kv)
{
	if (kv_get_u64(kv, "proto", 0) != PROTO_VERSION)
		return NULL;
	return kv_get(kv, "op");
}
