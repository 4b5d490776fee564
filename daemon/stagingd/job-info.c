#include "daemon/stagingd/job-info.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/config/spec.h"
#include "common/protocol/kv.h"
#include "common/protocol/rundir.h"
#include "common/util/error.h"
#include "common/util/log.h"
#include "common/util/path.h"
#include "common/util/strutil.h"
#include "daemon/stagingd/node-place.h"

static char *find_worker_program(void)
{
	static const char name[] = "stage-worker";
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - sizeof(name));

	if (n > 0) {
		self[n] = '\0';
		strcpy((char *)path_base(self), name);
		if (access(self, X_OK) == 0)
			return strdup(self);
	}
	return strutil_printf(STAGE_LIBEXEC_DIR "/%s", name);
}

int job_info_init(struct job_info *info, const struct job_options *options, struct error *err)
{
	*info = (struct job_info){ .local = options->local, .job_id = options->job_id };
	info->rundir = strdup(options->rundir);
	info->conf_path = options->conf ? strdup(options->conf) : NULL;
	info->worker = options->worker ? strdup(options->worker) : find_worker_program();
	info->node = strdup("");
	info->partition = strdup("");
	info->array_task = strdup("0");
	info->data_dir = strutil_printf("%s/" RUNDIR_DATA, options->rundir);
	if (!info->rundir || !info->worker || !info->node || !info->partition ||
	    !info->array_task || !info->data_dir || (options->conf && !info->conf_path))
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

void job_info_deinit(struct job_info *info)
{
	conf_free(info->conf);
	identity_deinit(&info->identity);
	free(info->rundir);
	free(info->data_dir);
	free(info->worker);
	free(info->conf_path);
	free(info->node);
	free(info->partition);
	free(info->array_task);
	*info = (struct job_info){ 0 };
}

static int set_text(char **textp, const struct kv *kv, const char *key, const char *dflt)
{
	const char *value = kv_get(kv, key);
	char *copy = strdup(value && *value ? value : dflt);

	if (!copy)
		return -ENOMEM;
	free(*textp);
	*textp = copy;
	return 0;
}

int job_info_read_place(struct job_info *info, const struct kv *kv, struct error *err)
{
	char host[256] = "localhost";
	const char *list = kv_get_or_empty(kv, SPEC_KEY_NODELIST);

	gethostname(host, sizeof(host) - 1);
	host[strcspn(host, ".")] = '\0';
	if (set_text(&info->node, kv, SPEC_KEY_NODE, host) < 0 ||
	    set_text(&info->partition, kv, SPEC_KEY_PARTITION, "") < 0 ||
	    set_text(&info->array_task, kv, SPEC_KEY_ARRAY_TASK, "0") < 0)
		return error_set(err, ENOMEM, "out of memory");
	info->n_nodes = (uint32_t)kv_get_u64(kv, SPEC_KEY_N_NODES, 1);
	info->node_index = 0;
	if (*list && node_place_find(list, info->node, &info->node_index, &info->n_nodes) < 0) {
		info->n_nodes = 0;
		log_warning("node %s is not in the list '%.200s'", info->node, list);
	}
	return 0;
}

struct conf_expand job_info_get_expand(const struct job_info *info)
{
	return (struct conf_expand){
		.user = info->identity.user,
		.group = info->identity.group,
		.node = info->node,
		.array_task = info->array_task,
		.job_id = info->job_id,
	};
}
