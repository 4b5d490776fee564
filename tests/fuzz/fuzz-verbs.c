/*
 * The messages of stagingd, a process of the user, to the manager: packets of any size and number,
 * with or without descriptors. What the verbs do is compared with what they may do.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

#include "common/protocol/conn.h"
#include "common/protocol/packet.h"
#include "common/util/error.h"
#include "daemon/manager/privops.h"
#include "daemon/manager/mounts.h"
#include "daemon/manager/serve.h"
#include "daemon/manager/manager.h"
#include "daemon/manager/tier.h"

#define WORKER 4711
#define DAEMON 4712
#define MAX_PACKETS 16

static struct serve *current;
static unsigned n_started, n_mounted;

int __wrap_serve_kill(pid_t pid, int sig);
int __wrap_mounts_slot(const struct jobdir *d, uint32_t slot, int *fds, size_t n_fds,
		       struct error *err);
int __wrap_mounts_detach(const struct jobdir *d, uint32_t name, struct error *err);
int __wrap_mounts_abort(const struct jobdir *d, uint32_t slot);
int __wrap_mounts_place(const struct jobdir *d, const char *name, int fd, bool read_only,
			const char *ns_path);
bool __wrap_mounts_has_namespace(uint32_t job);
int __wrap_mounts_unplace(const struct jobdir *d, const char *name);
int __wrap_tier_make(const struct jobdir *d, struct state *st, const struct helper_path *p,
		     int64_t which, bool keep, struct error *err);
int __wrap_helper_find_path(const char *which, const struct helper_job *job,
			    struct helper_path *path);
pid_t __wrap_serve_start(struct serve *s, const struct privops_spawn *l, uint32_t id, int class);
void __wrap_serve_tell(struct serve *s, const struct keeper_msg *msg, const int *fds, size_t n_fds);
void __wrap_serve_lose_daemon(struct serve *s, const char *why);
void __wrap_serve_look_for_memory(struct serve *s);
void __wrap_serve_repeat_in_job(struct manager *k, uint32_t name);

/* No signal but these, and none but to a worker that is on record. */
int __wrap_serve_kill(pid_t pid, int sig)
{
	FUZZ_CHECK(pid == WORKER && (sig == SIGTERM || sig == SIGKILL));
	return 0;
}

int __wrap_mounts_slot(const struct jobdir *d, uint32_t slot, int *fds, size_t n_fds,
		       struct error *err)
{
	FUZZ_CHECK(slot < RUNDIR_MAX_SLOTS && !current->slots[slot] && n_fds >= 1 &&
		   n_fds <= PACKET_MAX_FDS);
	for (size_t i = 0; i < n_fds; i++)
		FUZZ_CHECK((fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
	n_mounted++;
	return 0;
}

int __wrap_mounts_detach(const struct jobdir *d, uint32_t slot, struct error *err)
{
	FUZZ_CHECK(slot < RUNDIR_MAX_SLOTS && current->slots[slot]);
	return 0;
}

int __wrap_mounts_abort(const struct jobdir *d, uint32_t slot)
{
	FUZZ_CHECK(slot < RUNDIR_MAX_SLOTS && current->slots[slot]);
	return 0;
}

bool __wrap_mounts_has_namespace(uint32_t job)
{
	return job % 2;
}

int __wrap_mounts_place(const struct jobdir *d, const char *name, int fd, bool read_only,
			const char *ns_path)
{
	FUZZ_CHECK(strlen(name) < KEEPER_NAME_SIZE && fd >= 0 && !*ns_path);
	return 0;
}

int __wrap_mounts_unplace(const struct jobdir *d, const char *name)
{
	FUZZ_CHECK(strlen(name) < KEEPER_NAME_SIZE);
	return 0;
}

int __wrap_tier_make(const struct jobdir *d, struct state *st, const struct helper_path *p,
		     int64_t which, bool keep, struct error *err)
{
	FUZZ_CHECK(!strcmp(p->path, "/ssd"));
	return 0;
}

/* Three tiers, of which the second is a disk's. */
int __wrap_helper_find_path(const char *which, const struct helper_job *job,
			    struct helper_path *path)
{
	FUZZ_CHECK(*which && !which[strspn(which, "0123456789")]);
	strcpy(path->path, "/ssd");
	path->by_site = false;
	return !strcmp(which, "1")			    ? 0
	       : !strcmp(which, "0") || !strcmp(which, "2") ? -EINVAL
							    : -ENOENT;
}

pid_t __wrap_serve_start(struct serve *s, const struct privops_spawn *l, uint32_t id, int class)
{
	FUZZ_CHECK(l->program == PRIVOP_PROGRAM_WORKER && l->n_fds == 1 && l->fds[0] >= 0 &&
		   !l->uid);
	FUZZ_CHECK(!l->argv);
	FUZZ_CHECK(class == KEEPER_CLASS_WRITER || class == KEEPER_CLASS_SERVER);
	n_started++;
	return 5000;
}

void __wrap_serve_tell(struct serve *s, const struct keeper_msg *msg, const int *fds, size_t n_fds)
{
	FUZZ_CHECK(msg->verb == KEEPER_REPLY && n_fds <= PACKET_MAX_FDS);
}

void __wrap_serve_lose_daemon(struct serve *s, const char *why)
{
	s->ended = true;
}

void __wrap_serve_look_for_memory(struct serve *s)
{
}

void __wrap_serve_repeat_in_job(struct manager *k, uint32_t name)
{
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct manager k;
	static struct serve s;
	const uint8_t *end = data + size;
	int pair[2], before = fuzz_count_fds();

	FUZZ_CHECK(conn_pair(pair) == 0);
	k = (struct manager){ .st = { .uid = 1000, .gid = 1001 } };
	k.site.mounts = true;
	s = (struct serve){ .k = &k, .sock = pair[1] };
	current = &s;
	k.st.procs[0].pid = DAEMON;
	s.children[0].class = SERVE_CLASS_DAEMON;
	k.st.procs[1].pid = WORKER;
	s.children[1].id = 7;
	s.children[1].class = KEEPER_CLASS_WRITER;
	for (int i = 0; i < MAX_PACKETS && end - data >= 2 && !s.ended; i++) {
		size_t n = data[0], n_fds = data[1] % 20;

		data += 2;
		n = n < (size_t)(end - data) ? n : (size_t)(end - data);
		if (fuzz_send(pair[0], data, n, n_fds) == 0)
			serve_verb(&s);
		FUZZ_CHECK(s.ended || (n == sizeof(struct keeper_msg) && n_fds <= 1));
		data += n;
	}
	close(pair[0]);
	close(pair[1]);
	FUZZ_CHECK(fuzz_count_fds() == before);
	return 0;
}
