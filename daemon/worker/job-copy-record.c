/*
 * The record has a fixed size and is overwritten in place by one pwrite(). For each look, the file
 * is opened again, because network file systems promise that a process that opens a file sees what
 * another node has written before. They promise less about names that are created and removed.
 */
#include "daemon/worker/job-copy-record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/protocol/kv.h"
#include "common/util/cleanup.h"
#include "daemon/worker/job-copy.h"

/* Pads kv to JOB_COPY_STATE_SIZE bytes. */
static void pad(struct kv *kv)
{
	char zeros[JOB_COPY_STATE_SIZE];
	const void *data;
	size_t size = 0, rest;

	if (kv_get_data(kv, &data, &size) != 0 || size + sizeof("pad=") > JOB_COPY_STATE_SIZE)
		return;
	rest = JOB_COPY_STATE_SIZE - size - sizeof("pad=");
	memset(zeros, '0', rest);
	zeros[rest] = '\0';
	kv_set(kv, "pad", zeros);
}

static void record_to_kv(const struct job_copy_record *record, struct kv *kv)
{
	kv_set(kv, "maker", record->maker);
	kv_set(kv, "state", record->state);
	kv_set(kv, "text", record->text);
	kv_set_u64(kv, "beat", record->beat);
	kv_set_u64(kv, "bytes", record->bytes);
	kv_set_u64(kv, "files", record->files);
	pad(kv);
}

int job_copy_record_write(int fd, const struct job_copy_record *record)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	const void *data;
	ssize_t n;
	size_t size;
	int r = kv_new(&kv);

	if (r < 0)
		return r;
	record_to_kv(record, kv);
	if (kv_get_data(kv, &data, &size) != 0 || size != JOB_COPY_STATE_SIZE)
		return -EMSGSIZE;
	n = pwrite(fd, data, size, 0);
	if (n < 0)
		return -errno;
	return n != (ssize_t)size ? -ENOSPC : 0;
}

int job_copy_record_read(int dir, const char *name, struct job_copy_record *record)
{
	_cleanup_(fd_closep) int fd = openat(dir, name,
					     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	_cleanup_(kv_freep) struct kv *kv = NULL;
	char data[JOB_COPY_STATE_SIZE];
	ssize_t n = fd < 0 ? -1 : pread(fd, data, sizeof(data), 0);

	*record = (struct job_copy_record){ 0 };
	if (n < 0)
		return errno == ESPIPE || errno == ESTALE ? -EAGAIN : -errno;
	if (n != sizeof(data) || kv_new_from_data(&kv, data, sizeof(data)) != 0)
		return -EAGAIN;
	snprintf(record->maker, sizeof(record->maker), "%s", kv_get_or_empty(kv, "maker"));
	snprintf(record->state, sizeof(record->state), "%s", kv_get_or_empty(kv, "state"));
	snprintf(record->text, sizeof(record->text), "%s", kv_get_or_empty(kv, "text"));
	record->beat = kv_get_u64(kv, "beat", 0);
	record->bytes = kv_get_u64(kv, "bytes", 0);
	record->files = kv_get_u64(kv, "files", 0);
	return 0;
}

bool job_copy_record_is_same(const struct job_copy_record *a, const struct job_copy_record *b)
{
	return a->beat == b->beat && !strcmp(a->maker, b->maker);
}

/* This node may be late and move the record of a maker that is alive. Then a link gives that record
 * its name back: a link never replaces a newer record, and NFS supports links. */
int job_copy_record_remove(int dir, const char *node, const struct job_copy_record *seen)
{
	struct job_copy_record moved;
	char name[JOB_COPY_NODE_SIZE + 8];
	int r;

	snprintf(name, sizeof(name), "left.%s", node);
	if (renameat(dir, JOB_COPY_STATE, dir, name) < 0)
		return errno == ENOENT ? 0 : -errno;
	r = job_copy_record_read(dir, name, &moved);
	if (r < 0 && r != -EAGAIN)
		return r;
	if (!job_copy_record_is_same(&moved, seen) &&
	    linkat(dir, name, dir, JOB_COPY_STATE, 0) < 0 && errno != EEXIST)
		return -errno;
	return unlinkat(dir, name, 0) < 0 ? -errno : 0;
}
