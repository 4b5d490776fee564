/*
 * What the first message to a worker has of the configuration (docs/protocol.md), whoever sends it:
 * stagingd, or stagectl, which plans outside of a job.
 */
#include "common/config/conf.h"

#include "common/protocol/kv.h"

static bool has_disk_tier(const struct conf *conf, const char *gres)
{
	for (size_t i = 0; i < conf->n_tiers; i++)
		if (conf->tiers[i].kind == CONF_TIER_DISK &&
		    conf_tier_is_for(&conf->tiers[i], gres))
			return true;
	return false;
}

void conf_put_limits(const struct conf *conf, const char *gres, struct kv *kv)
{
	kv_set_u64(kv, "maxfiles", conf->max_files);
	kv_set_u64(kv, "stall", conf->stall_timeout_ms);
	kv_set_u64(kv, "cachesize", conf->cache_size);
	kv_set_u64(kv, "fuse", conf->mount_fuse);
	kv_set_u64(kv, "ssd", has_disk_tier(conf, gres));
	kv_set_u64(kv, "threads", conf->threads);
}
