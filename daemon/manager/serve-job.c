/*
 * Operations on the job's processes, memory and namespace, for the loop (serve.c) and for requests
 * of stagingd (serve-verbs.c).
 */
#include "daemon/manager/serve.h"

#include <errno.h>
#include <linux/sockios.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/protocol/packet.h"
#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "common/util/error.h"
#include "common/util/log.h"
#include "common/util/memory.h"
#include "daemon/manager/job-cgroup-memory.h"
#include "daemon/manager/manager.h"
#include "daemon/manager/mounts.h"
#include "daemon/manager/privops.h"

#define MEMORY_WAIT_MS 5000
#define NO_SLURM_WAIT_MS 500 /* if Slurm seems to make no cgroups for jobs */
#define MAX_UNREAD_FDS 32

void serve_lose_daemon(struct serve *s, const char *why)
{
	const struct state *st = &s->k->st;

	if (s->sock < 0)
		return;
	log_error("stagingd %s: its workers end with it, mounts stay", why);
	close(steal_fd(&s->sock));
	for (size_t i = 0; i < STATE_MAX_PROCS; i++)
		if (st->procs[i].pid && s->children[i].class != KEEPER_CLASS_SERVER)
			serve_kill(st->procs[i].pid, SIGKILL);
}

void serve_tell(struct serve *s, const struct keeper_msg *msg, const int *fds, size_t n_fds)
{
	int r = s->sock < 0 ? 0 : packet_send(s->sock, msg, sizeof(*msg), fds, n_fds, MSG_DONTWAIT);

	if (r < 0 && r != -EPIPE && r != -ECONNRESET)
		serve_lose_daemon(s, "does not listen");
	s->n_unread_fds += n_fds;
}

/* Attack: the kernel counts descriptors that were sent and not read by the uid of their sender. All
 * managers of the node have the same uid. If a user's stagingd could leave thousands of descriptors
 * unread, no manager could pass one to a new process any more. */
bool serve_has_unread_fds(struct serve *s)
{
	int n_bytes = 0;

	if (s->n_unread_fds < MAX_UNREAD_FDS)
		return false;
	if (ioctl(s->sock, SIOCOUTQ, &n_bytes) < 0 || n_bytes == 0)
		s->n_unread_fds = 0;
	return s->n_unread_fds > 0;
}

int serve_kill(pid_t pid, int sig)
{
	return privops_do_numbers(PRIVOP_KILL, pid, 0, sig);
}

pid_t serve_start(struct serve *s, const struct privops_spawn *spawn, uint32_t id, int class)
{
	struct state_proc *p = state_find_proc(&s->k->st, 0);
	uint64_t start = 0;
	pid_t pid = p ? privops_spawn(spawn, &start) : -EAGAIN;
	int r, go;

	if (pid < 0)
		return pid;
	s->children[p - s->k->st.procs].id = id;
	s->children[p - s->k->st.procs].class = class;
	*p = (struct state_proc){ pid, start };
	r = start ? jobdir_write_state(&s->k->dir, &s->k->st) : -ESRCH;
	go = privops_go(r == 0);
	if (r == 0 && go == 0)
		return pid;
	p->pid = 0;
	return go < 0 ? go : r;
}

void serve_repeat_in_job(struct manager *k, uint32_t name)
{
	struct error err = ERROR_INIT;
	struct helper_path ns;
	int r = k->site.has_namespace ? manager_find_path(k, HELPER_NAMESPACE, &ns) : -ENOENT;

	if (r == 0 && mounts_repeat(&k->dir, name, ns.path, &err) < 0)
		log_warning("%s", err.text);
	else if (r < 0 && r != -ENOENT)
		log_warning("JobNamespace= cannot be resolved: %s", strerror(-r));
}

/* Returns true if the node has less free memory than the job may fill, which is limit bytes at
 * most, or if this is not known. */
static bool is_short_of_memory(const struct manager *k, uint64_t limit)
{
	const uint64_t wanted = limit < k->memory_size ? limit : k->memory_size;
	uint64_t total, available;

	return memory_read_node(&total, &available) < 0 ||
	       available < wanted + k->site.keep_free_memory;
}

void serve_look_for_memory(struct serve *s)
{
	const struct manager *k = s->k;
	struct keeper_msg msg = { .verb = KEEPER_MEMORY, .arg0 = -1 };
	const char *const dir = s->cgroups[PRIVOP_GROUP_MEMORY].dir;
	int r = cgroup_join_look(s);
	int read = -ENOENT;
	bool freeing;

	if (s->memory_charged)
		return;
	if (r == 0)
		read = job_cgroup_read_memory(dir, &msg.arg0, &msg.arg1);
	s->memory_is_late = r == -ENOENT || read == JOBMEM_E_EARLY;
	if (s->memory_known && read != JOBMEM_E_SUCCESS)
		return;
	/* Memory that an ended job is still freeing counts as used. If it is needed, we wait until
	 * it is free. */
	freeing = is_short_of_memory(k, read >= 0 ? (uint64_t)msg.arg0 : UINT64_MAX) &&
		  jobdir_is_freeing();
	if ((r < 0 || freeing || read == JOBMEM_E_EARLY) &&
	    clock_ms() <
		    s->begin_ms + (r == -ENODEV && !freeing ? NO_SLURM_WAIT_MS : MEMORY_WAIT_MS))
		return;
	if (read < 0)
		msg.arg0 = -1;
	if (msg.arg0 >= 0 && (uint64_t)msg.arg0 < k->memory_size &&
	    mounts_resize_memory(&k->dir, (uint64_t)msg.arg0) < 0)
		log_warning("the job's tmpfs can't be made as small as its memory");
	s->memory_known = true;
	s->memory_charged = read == JOBMEM_E_SUCCESS;
	serve_tell(s, &msg, NULL, 0);
}
