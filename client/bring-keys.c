#include "client/bring-keys.h"

#include "client/rpc.h"
#include "common/protocol/keys.h"
#include "common/protocol/kv.h"
#include "common/protocol/proto.h"
#include "common/util/error.h"

#define ANSWER_MS 10000

void bring_keys(const struct rpc *rpc)
{
	static const struct rpc_handler h = { .deaf = true, .timeout_ms = ANSWER_MS };
	_cleanup_(rpc_closep) struct rpc *again = NULL;
	_cleanup_(kv_freep) struct kv *kv = proto_new(PROTO_OP_KEYS);
	_cleanup_(keys_freep) struct keys *keys = NULL;
	struct error why = ERROR_INIT;

	if (!kv || keys_new(&keys) < 0 || rpc_open_again(&again, rpc, NULL) < 0 ||
	    !rpc_is_own(again))
		return;
	if (keys_from_env(keys, &why) == KEYS_E_SUCCESS)
		keys_to_kv(keys, kv);
	else
		kv_set(kv, "none", why.text);
	rpc_call(again, kv, &h, NULL);
}

void bring_keys_along(const struct rpc *rpc, struct kv *request)
{
	_cleanup_(keys_freep) struct keys *keys = NULL;

	if (rpc_is_own(rpc) && keys_new(&keys) == 0 && keys_from_env(keys, NULL) == KEYS_E_SUCCESS)
		keys_to_kv(keys, request);
}
