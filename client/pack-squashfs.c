/*
 * mksquashfs does the work. What suits training data: blocks of 128 KiB (a small file read at
 * random costs one block), zstd (decompresses several times faster than gzip; what does not
 * compress, like JPEG, mksquashfs stores as it is), no extended attributes, files in the order
 * of names, and a time of creation that is the directory's, so that the same files give the
 * same image.
 *
 * By itself mksquashfs makes an empty file of one that it can't read, passes over a directory, and
 * ends with 0: half a dataset that looks whole. So what it would ignore is an error.
 *
 * Older mksquashfs know neither zstd nor -mkfs-time; then the plain variant is tried. Its memory
 * is bounded, because by default it takes a quarter of the machine, whatever the job has.
 */
#include "client/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/output.h"
#include "client/progress-bar.h"
#include "client/waitloop.h"
#include "common/util/child-bind.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/memory.h"

#define MAX_MEMORY_MIB 1024

struct image {
	const struct pack *pack;
	char tmp[PATH_MAX];
	char tail[512]; /* the end of mksquashfs's stderr */
	size_t n_tail;
	char number[64]; /* the digits since the last blank on its stdout */
	size_t n_number;
	int percent;
	int out_fd, err_fd;
	struct pack_feed feed; /* with links=follow: the tar that mksquashfs reads */
};

static unsigned get_memory_mib(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	uint64_t mib = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size / 4 >> 20 : 256;

	return mib > MAX_MEMORY_MIB ? MAX_MEMORY_MIB : (unsigned)mib;
}

/* Times of an image are unsigned and have 32 bits. mksquashfs cuts the times of files, and refuses
 * options with other values. */
static long long get_image_time(const struct stat *st)
{
	if (st->st_mtime < 0)
		return 0;
	return st->st_mtime > UINT32_MAX ? UINT32_MAX : (long long)st->st_mtime;
}

static void exec_mksquashfs(const struct image *im, bool modern, int out, int err)
{
	char cpus[16], memory[16], when[32], mode[8], uid[16], gid[16];
	const char *argv[32];
	struct stat st = { 0 };
	size_t n = 0;
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	snprintf(cpus, sizeof(cpus), "%u", memory_count_cpus());
	snprintf(memory, sizeof(memory), "%uM", get_memory_mib());
	(void)stat(im->pack->dir, &st);
	snprintf(when, sizeof(when), "%lld", get_image_time(&st));
	argv[n++] = "mksquashfs";
	argv[n++] = im->pack->follow ? "-" : im->pack->dir;
	argv[n++] = im->tmp;
	argv[n++] = "-noappend";
	argv[n++] = "-no-xattrs";
	argv[n++] = "-exit-on-error";
	argv[n++] = "-b";
	argv[n++] = "131072";
	argv[n++] = "-processors";
	argv[n++] = cpus;
	argv[n++] = "-mem";
	argv[n++] = memory;
	if (modern) {
		argv[n++] = "-comp";
		argv[n++] = "zstd";
		argv[n++] = "-Xcompression-level";
		argv[n++] = "3";
		argv[n++] = "-mkfs-time";
		argv[n++] = when;
	}
	if (im->pack->follow) {
		snprintf(mode, sizeof(mode), "%o", st.st_mode & 0777);
		snprintf(uid, sizeof(uid), "%u", (unsigned)geteuid());
		snprintf(gid, sizeof(gid), "%u", (unsigned)getegid());
		argv[n++] = "-tar";
		argv[n++] = "-root-mode";
		argv[n++] = mode;
		argv[n++] = "-root-time";
		argv[n++] = when;
		argv[n++] = "-force-uid";
		argv[n++] = uid;
		argv[n++] = "-force-gid";
		argv[n++] = gid;
		null = im->feed.fd;
	}
	argv[n] = NULL;
	unsetenv("SOURCE_DATE_EPOCH"); /* mksquashfs refuses -mkfs-time if it is set */
	if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
		_exit(126);
	execvp(argv[0], (char *const *)argv);
	_exit(127);
}

/* Reads the number before each % sign of a line such as "\r[====/   ] 1234/5678  21%". */
static void scan_output(struct image *im, const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (text[i] == '%' && im->n_number > 0) {
			im->number[im->n_number] = '\0';
			im->percent = atoi(im->number);
		}
		if (text[i] >= '0' && text[i] <= '9' && im->n_number < 4)
			im->number[im->n_number++] = text[i];
		else
			im->n_number = 0;
	}
}

static void keep_tail(struct image *im, const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (im->n_tail == sizeof(im->tail) - 1) {
			memmove(im->tail, im->tail + 1, im->n_tail - 1);
			im->n_tail--;
		}
		im->tail[im->n_tail++] = text[i] == '\n' ? ' ' : text[i];
	}
	im->tail[im->n_tail] = '\0';
}

/* Returns false at end of file. */
static bool read_some(struct image *im, int fd,
		      void (*use)(struct image *im, const char *text, size_t size))
{
	char buf[4096];
	ssize_t n = read(fd, buf, sizeof(buf));

	if (n > 0)
		use(im, buf, (size_t)n);
	return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

static void show(const struct image *im)
{
	struct stat st;

	progress_set(im->pack->progress, "pack", stat(im->tmp, &st) == 0 ? (uint64_t)st.st_size : 0,
		     im->percent);
}

/* Reads both pipes to their ends. Returns -EINTR after a signal; the child gets SIGTERM then. */
static int follow(struct image *im, struct waitloop *loop, pid_t pid)
{
	struct pollfd fds[2] = { { im->out_fd, POLLIN, 0 }, { im->err_fd, POLLIN, 0 } };
	int r, result = 0;

	while (fds[0].fd >= 0 || fds[1].fd >= 0) {
		r = waitloop_wait(loop, fds, 2);
		if (r == WAITLOOP_SIGNAL) {
			kill(pid, SIGTERM);
			result = -EINTR;
			continue;
		}
		if (r != WAITLOOP_READY)
			return r < 0 ? r : -EIO;
		if (fds[0].fd >= 0 && fds[0].revents && !read_some(im, fds[0].fd, scan_output))
			fds[0].fd = -1;
		if (fds[1].fd >= 0 && fds[1].revents && !read_some(im, fds[1].fd, keep_tail))
			fds[1].fd = -1;
		show(im);
	}
	return result;
}

/* Returns the exit status of mksquashfs, or -errno. */
static int run_once(struct image *im, bool modern)
{
	_cleanup_(waitloop_close) struct waitloop loop = WAITLOOP_CLOSED;
	_cleanup_(fd_closep) int out_r = -1;
	_cleanup_(fd_closep) int err_r = -1;
	const pid_t parent = getpid();
	int out[2], err[2], status = -1, r;
	pid_t pid;

	if (pipe2(out, O_CLOEXEC) < 0)
		return -errno;
	im->out_fd = out_r = out[0];
	if (pipe2(err, O_CLOEXEC) < 0) {
		close(out[1]);
		return -errno;
	}
	im->err_fd = err_r = err[0];
	im->n_tail = im->n_number = 0;
	im->tail[0] = '\0';
	im->percent = 0;
	r = waitloop_open(&loop, NULL, 0);
	pid = r < 0 ? -1 : fork();
	if (pid == 0) {
		if (!child_bind_to(parent, SIGTERM))
			_exit(126);
		sigprocmask(SIG_SETMASK, waitloop_get_mask(&loop), NULL);
		exec_mksquashfs(im, modern, out[1], err[1]);
	}
	close(out[1]);
	close(err[1]);
	if (pid < 0)
		return r < 0 ? r : -EAGAIN;
	r = follow(im, &loop, pid);
	if (r < 0 && r != -EINTR)
		kill(pid, SIGKILL); /* it may be blocked in a write to a pipe */
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r < 0)
		return r;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Does the same with links=follow, where mksquashfs reads a tar. If the tar has a failure, err has
 * it, and the result is negative. */
static int run_fed(struct image *im, bool modern, struct error *err)
{
	struct error why = ERROR_INIT;
	int r, fed;

	if (!im->pack->follow)
		return run_once(im, modern);
	r = pack_feed_start(&im->feed, im->pack, err);
	if (r == 0)
		r = run_once(im, modern);
	fed = pack_feed_end(&im->feed, &why);
	/* if mksquashfs ends early, the tar cannot be written, and if the directory cannot be read,
	 * mksquashfs fails, too: the cause is reported */
	if (r == -EINTR || fed == 0 || (fed == -EPIPE && r != 0))
		return r;
	*err = why;
	return fed;
}

static bool is_too_old(const struct image *im)
{
	return strstr(im->tail, "invalid option") || strstr(im->tail, "ompressor") ||
	       strstr(im->tail, "not supported");
}

static int finish(const struct image *im, struct error *err)
{
	_cleanup_(fd_closep) int fd = open(im->tmp, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fsync(fd) < 0)
		return error_errno(err, errno, "write %s", im->tmp);
	if (rename(im->tmp, im->pack->out) < 0)
		return error_errno(err, errno, "rename %s to %s", im->tmp, im->pack->out);
	return 0;
}

static void warn_of_links(const struct pack *p)
{
	struct pack_links links;

	pack_links_count(&links, p->dir);
	if (links.n)
		output_error("warning: %llu link%s out of %s (%s), and what is there is not in the "
			     "image; to have it, take --links=follow",
			     (unsigned long long)links.n, links.n == 1 ? " leads" : "s lead",
			     p->dir, links.first);
}

/* status: as of a shell. */
static int set_ended(int status, const char *tail, struct error *err)
{
	const int sig = status - 128;

	if (sig > 0)
		return error_set(err, sig == SIGXFSZ ? EFBIG : EIO,
				 "mksquashfs was killed by signal %d (%s)", sig, strsignal(sig));
	return error_set(err, EIO, "mksquashfs ended with %d: %s", status, tail);
}

int pack_squashfs(const struct pack *p, struct error *err)
{
	struct image im = { .pack = p, .feed.fd = -1 };
	char host[64] = "";
	int r;

	gethostname(host, sizeof(host) - 1);
	if (p->locked)
		r = snprintf(im.tmp, sizeof(im.tmp), "%s.tmp", p->out);
	else
		r = snprintf(im.tmp, sizeof(im.tmp), "%s.tmp.%s.%d", p->out, host, (int)getpid());
	if (r < 0 || (size_t)r >= sizeof(im.tmp))
		return error_set_hint(err,
				      error_set(err, ENAMETOOLONG, "%s is too long a name", p->out),
				      "write to a shorter path");
	if (unlink(im.tmp) < 0 && errno != ENOENT)
		return error_errno(err, errno, "remove %s", im.tmp);
	if (!p->follow)
		warn_of_links(p);
	r = run_fed(&im, true, err);
	if (r > 0 && r != 127 && is_too_old(&im))
		r = run_fed(&im, false, err);
	if (r == 0)
		r = finish(&im, err);
	else if (r < 0 && err->code)
		; /* err says why the directory could not be read */
	else if (r == -EINTR)
		error_exit(err, STAGE_EXIT_INTERRUPTED, EINTR, "interrupted");
	else if (r == 127)
		r = error_set(err, ENOENT,
			      "there is no mksquashfs here: load or install "
			      "squashfs-tools, or make shards (--shards 3G)");
	else if (r > 0 && p->follow && is_too_old(&im))
		r = error_set(
			err, EIO,
			"this mksquashfs is older than 4.5, and cannot follow links: copy the "
			"directory by cp -rL and pack that, or make shards (--shards 3G)");
	else if (r > 0)
		r = set_ended(r, im.tail, err);
	else
		error_errno(err, -r, "run mksquashfs");
	if (r < 0)
		unlink(im.tmp);
	return r;
}
