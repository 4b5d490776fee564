/*
 * mksquashfs packs links as links, but from version 4.5 on it reads a tar. So with links=follow it
 * gets a tar in which the targets are files and directories. The tar is written by a process of its
 * own, because this one waits for mksquashfs.
 */
#include "client/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/tar-writer.h"
#include "common/util/child-bind.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/fd.h"

static int write_tar(const struct pack_list *l, int dirfd, int out, struct error *err)
{
	_cleanup_(tar_writer_freep) struct tar_writer *w = NULL;
	_cleanup_(freep) char *buffer = malloc(PACK_BUFFER);
	int r = buffer ? tar_writer_new(&w, out) : -ENOMEM;

	if (r < 0)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < l->n_files && r == 0; i++)
		r = pack_list_put(&l->files[i], w, dirfd, buffer, NULL, NULL, err);
	if (r < 0)
		return r;
	r = tar_writer_end(w);
	return r < 0 ? error_errno(err, -r, "write the tar") : 0;
}

int pack_feed_start(struct pack_feed *feed, const struct pack *p, struct error *err)
{
	_cleanup_(pack_list_deinit) struct pack_list list = { .follow = true,
							      .with_dirs = true,
							      .out = p->out };
	_cleanup_(fd_closep) int dirfd = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const pid_t parent = getpid();
	int fds[2], r;

	if (dirfd < 0)
		return error_errno(err, errno, "open %s", p->dir);
	r = pack_list_read(&list, dirfd, err);
	if (r < 0)
		return r;
	pack_list_tell(&list);
	feed->pid = 0;
	feed->error = mmap(NULL, sizeof(*feed->error), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (feed->error == MAP_FAILED) {
		feed->error = NULL;
		return error_set(err, ENOMEM, "out of memory");
	}
	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_errno(err, errno, "make a pipe");
	feed->pid = fork();
	if (feed->pid == 0) {
		if (!child_bind_to(parent, SIGTERM))
			_exit(126);
		close(fds[0]); /* so that the end of mksquashfs ends this process, too */
		signal(SIGPIPE, SIG_IGN);
		_exit(write_tar(&list, dirfd, fds[1], feed->error) < 0);
	}
	r = feed->pid < 0 ? error_errno(err, errno, "make a process") : 0;
	close(fds[1]);
	feed->fd = fds[0];
	return r;
}

int pack_feed_end(struct pack_feed *feed, struct error *err)
{
	int status = 0, r = 0;

	fd_closep(&feed->fd);
	if (feed->pid > 0)
		while (waitpid(feed->pid, &status, 0) < 0 && errno == EINTR)
			;
	if (status != 0) {
		r = feed->error->code ? feed->error->code : -EIO;
		if (feed->error->code && err)
			*err = *feed->error;
		else
			error_set(err, EIO, "the directory could not be read");
	}
	if (feed->error)
		munmap(feed->error, sizeof(*feed->error));
	*feed = (struct pack_feed){ .fd = -1 };
	return r;
}
