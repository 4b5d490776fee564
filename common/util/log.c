#include "common/util/log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "common/util/escape.h"

#define LOG_LINE_SIZE 2048 /* less than PIPE_BUF */

struct log_hook log_hook;

static struct {
	const char *ident;
	int fd;
	void (*writer)(const char *line);
	int syslog_fd;
	uint32_t job_id;
	bool muted;
} state = { .ident = "stage-data", .fd = -1, .syslog_fd = -1 };

/* syslog(3) blocks if the reader of /dev/log hangs; a datagram with MSG_DONTWAIT does not block. */
static int syslog_connect(void)
{
	static const struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = "/dev/log" };
	int fd;

	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

void log_open(const char *ident, int fd, int use_syslog)
{
	state.ident = ident;
	state.fd = fd;
	state.syslog_fd = use_syslog ? syslog_connect() : -1;
}

void log_set_job(uint32_t job_id)
{
	state.job_id = job_id;
}

void log_set_writer(void (*fn)(const char *line))
{
	state.writer = fn;
}

void log_set_muted(bool muted)
{
	state.muted = muted;
}

const char *log_get_time(char buf[static LOG_TIME_TEXT])
{
	struct timespec ts;
	struct tm tm;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	n = strftime(buf, LOG_TIME_TEXT, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(buf + n, LOG_TIME_TEXT - n, ".%03uZ", (unsigned)(ts.tv_nsec / 1000000) % 1000);
	return buf;
}

/* Writes without waiting. The flag O_NONBLOCK would change the pipe for the other processes that
 * have it, so the space in it is asked for; a pipe that is writable takes a line (PIPE_BUF). The
 * line is lost if there is none. */
static void write_now(int fd, const char *line, size_t size)
{
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };
	ssize_t n = send(fd, line, size, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && errno == ENOTSOCK && ppoll(&pfd, 1, &(struct timespec){ 0 }, NULL) > 0)
		n = write(fd, line, size);
	(void)n;
}

static void write_fd(const char *line)
{
	char out[LOG_LINE_SIZE + 128], stamp[LOG_TIME_TEXT];
	int n;

	n = snprintf(out, sizeof(out), "%s %s[%d]: %s\n", log_get_time(stamp), state.ident,
		     (int)getpid(), line);
	if (n > 0 && state.writer)
		state.writer(out);
	else if (n > 0)
		write_now(state.fd, out, (size_t)n);
}

static void write_syslog(enum log_level level, const char *line)
{
	static const int priorities[] = { LOG_ERR, LOG_WARNING, LOG_INFO };
	char out[LOG_LINE_SIZE + 128];
	int n;

	n = snprintf(out, sizeof(out), "<%d>%s[%d]: %s", LOG_DAEMON | priorities[level],
		     state.ident, (int)getpid(), line);
	if (n > 0)
		send(state.syslog_fd, out, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void log_print(enum log_level level, const char *ds, const char *fmt, ...)
{
	char text[LOG_LINE_SIZE - 256], escaped[LOG_LINE_SIZE - 128], line[LOG_LINE_SIZE];
	char job[32] = "", name[80] = "";
	va_list ap;

	if (state.muted)
		return;
	va_start(ap, fmt);
	if (vsnprintf(text, sizeof(text), fmt, ap) < 0)
		text[0] = '\0';
	va_end(ap);
	text_escape(escaped, sizeof(escaped), text, strlen(text));
	if (state.job_id)
		snprintf(job, sizeof(job), "job=%u ", state.job_id);
	if (ds)
		snprintf(name, sizeof(name), "ds=%.64s ", ds);
	snprintf(line, sizeof(line), "%s%s%s", job, name, escaped);
	if (log_hook.fn)
		log_hook.fn(log_hook.arg, line);
	if (state.fd >= 0 || state.writer)
		write_fd(line);
	if (state.syslog_fd >= 0)
		write_syslog(level, line);
}
