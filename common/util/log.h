/*
 * log: writes each message as one line, with the same fields in the same order.
 *
 *   job=4711 ds=imagenet preparing -> undoing: needs 148 GiB, /dev/shm has 62 GiB free
 *
 * Sinks: syslog (facility daemon) and, if opened, a file descriptor. If a socket or a pipe is full,
 * the line is lost. Control bytes are escaped. A line is one write(), so lines of several threads
 * are not mixed. If processes write to the last free space of a pipe at the same time, one of them
 * may wait for the reader, unless the pipe is O_NONBLOCK, as the one of a keeper's job is.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum log_level {
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARNING,
	LOG_LEVEL_INFO,
};

/* ident: program name; not copied. fd: a second destination, with a time before each line, or -1.
 * use_syslog: also log to /dev/log, if it exists. */
void log_open(const char *ident, int fd, int use_syslog);
void log_set_job(uint32_t job_id);
/* Sets a function that gets lines with a time and a newline, instead of the fd of log_open(). */
void log_set_writer(void (*fn)(const char *line));
/* While muted is true, all lines are dropped. */
void log_set_muted(bool muted);

#define LOG_TIME_TEXT 32

/* Writes the current time as "2026-01-31T23:59:59.123Z". Returns buf. */
const char *log_get_time(char buf[static LOG_TIME_TEXT]);

/* Called with each line, without time and newline, for a ring buffer. fn may be NULL. */
struct log_hook {
	void (*fn)(void *arg, const char *line);
	void *arg;
};
extern struct log_hook log_hook;

/* ds: name of a dataset, or NULL. */
void log_print(enum log_level level, const char *ds, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define log_error(...) log_print(LOG_LEVEL_ERROR, NULL, __VA_ARGS__)
#define log_warning(...) log_print(LOG_LEVEL_WARNING, NULL, __VA_ARGS__)
#define log_info(...) log_print(LOG_LEVEL_INFO, NULL, __VA_ARGS__)
