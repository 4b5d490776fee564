#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/protocol/conn.h"
#include "common/protocol/keys.h"
#include "common/protocol/kv.h"
#include "common/util/error.h"
#include "common/util/fd.h"

#define SECRET "sEcReT/+4711"

/* There the heap is elsewhere, and what /proc/self/exe names is valgrind. */
static bool is_under_valgrind(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return preload && strstr(preload, "vgpreload");
}

static void set(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

static void assert_empty(const struct keys *keys)
{
	static const struct keys none;

	assert_memory_equal(keys, &none, sizeof(none));
}

/* Red when a byte is let through, or *keys keeps what came before the one that is bad. */
static void test_what_the_environment_may_say(void **state)
{
	static const struct {
		const char *access, *secret, *token;
		int r;
		const char *text;
	} cases[] = {
		{ "A", SECRET, NULL, KEYS_E_SUCCESS, NULL },
		{ "A", SECRET, "T", KEYS_E_SUCCESS, NULL },
		{ "A", SECRET, "", KEYS_E_SUCCESS, NULL },
		{ NULL, SECRET, NULL, KEYS_E_NONE, "AWS_ACCESS_KEY_ID is not set" },
		{ "", SECRET, NULL, KEYS_E_NONE, "AWS_ACCESS_KEY_ID is not set" },
		{ "A", NULL, "T", KEYS_E_NONE, "AWS_SECRET_ACCESS_KEY is not set" },
		{ "A", SECRET "\n", NULL, KEYS_E_BAD, "AWS_SECRET_ACCESS_KEY has a byte" },
		{ "A", SECRET, "a b", KEYS_E_BAD, "AWS_SESSION_TOKEN has a byte" },
		{ "\xc3\xa9", SECRET, NULL, KEYS_E_BAD, "AWS_ACCESS_KEY_ID has a byte" },
	};
	_cleanup_(keys_freep) struct keys *keys = NULL;

	assert_int_equal(keys_new(&keys), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error err = ERROR_INIT;

		set(KEYS_ENV_ACCESS, cases[i].access);
		set(KEYS_ENV_SECRET, cases[i].secret);
		set(KEYS_ENV_TOKEN, cases[i].token);
		assert_int_equal(keys_from_env(keys, &err), cases[i].r);
		if (cases[i].r == 0) {
			assert_string_equal(keys->secret, SECRET);
			assert_string_equal(keys->token, cases[i].token ? cases[i].token : "");
			continue;
		}
		assert_empty(keys);
		assert_non_null(strstr(err.text, cases[i].text));
		assert_null(strstr(err.text, SECRET));
	}
}

/* What a message may say is the same, whoever sent it. */
static void test_lengths_and_messages(void **state)
{
	static const char *const fields[] = { "access", "secret", "token" };
	static const size_t sizes[] = { 256, 256, 4096 };
	_cleanup_(keys_freep) struct keys *keys = NULL;
	char text[5000];

	assert_int_equal(keys_new(&keys), 0);
	for (size_t i = 0; i < 3; i++) {
		for (size_t n = sizes[i] - 1; n <= sizes[i]; n++) {
			_cleanup_(kv_freep) struct kv *kv = NULL;

			memset(text, 'x', n);
			text[n] = '\0';
			assert_int_equal(kv_new(&kv), 0);
			kv_set(kv, "access", "A");
			kv_set(kv, "secret", SECRET);
			kv_set(kv, fields[i], text);
			assert_int_equal(keys_from_kv(keys, kv),
					 n < sizes[i] ? KEYS_E_SUCCESS : KEYS_E_BAD);
			if (n == sizes[i])
				assert_empty(keys);
		}
	}
	for (size_t i = 0; i < 2; i++) {
		_cleanup_(kv_freep) struct kv *kv = NULL;

		assert_int_equal(kv_new(&kv), 0);
		kv_set(kv, fields[i], "A");
		assert_int_equal(keys_from_kv(keys, kv), KEYS_E_NONE);
		assert_empty(keys);
	}
}

static void test_a_descriptor_brings_them_once(void **state)
{
	_cleanup_(keys_freep) struct keys *a = NULL, *b = NULL;
	_cleanup_(fd_closep) int fd = -1;
	int pair[2];

	assert_int_equal(keys_new(&a), 0);
	assert_int_equal(keys_new(&b), 0);
	*a = (struct keys){ "A", SECRET, "T" };
	fd = keys_to_fd(a);
	assert_true(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
	assert_int_equal(keys_from_fd(b, fd), 0);
	assert_memory_equal(a, b, sizeof(*a));
	assert_int_equal(keys_from_fd(b, fd), -EPIPE);
	assert_empty(b);
	assert_int_equal(conn_pair(pair), 0); /* who says nothing is not waited for */
	assert_int_equal(keys_from_fd(b, pair[0]), -EAGAIN);
	close(pair[0]);
	close(pair[1]);
}

/* Red without MADV_WIPEONFORK: asynchronous calls of stagingd are forks of it. */
static void test_children_have_none(void **state)
{
	_cleanup_(keys_freep) struct keys *keys = NULL;
	int status;
	pid_t pid;

	assert_int_equal(keys_new(&keys), 0);
	*keys = (struct keys){ "A", SECRET, "" };
	pid = fork();
	if (pid == 0)
		_exit(keys->access[0] || keys->secret[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_string_equal(keys->secret, SECRET);
}

/* Red without mlock() or MADV_DONTDUMP: "lo" and "dd" of the place are the kernel's word for them.
 */
static void test_the_place_is_locked_and_in_no_core(void **state)
{
	_cleanup_(keys_freep) struct keys *keys = NULL;
	_cleanup_(freep) char *line = NULL;
	unsigned long from, to;
	bool inside = false, seen = false;
	size_t size = 0;
	FILE *f;

	assert_int_equal(keys_new(&keys), 0);
	f = fopen("/proc/self/smaps", "re");
	assert_non_null(f);
	while (getline(&line, &size, f) > 0) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = from <= (unsigned long)keys && (unsigned long)keys < to;
		if (!inside || strncmp(line, "VmFlags:", 8))
			continue;
		seen = true;
#ifndef STAGE_SANITIZED /* whose mlock() does nothing */
		assert_non_null(strstr(line, " lo"));
#endif
		assert_non_null(strstr(line, " dd"));
		assert_non_null(strstr(line, " wf"));
	}
	fclose(f);
	assert_true(seen);
}

static bool environ_has(const char *text)
{
	_cleanup_(fd_closep) int fd = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
	_cleanup_(freep) char *data = NULL;
	size_t size;

	assert_int_equal(fd_read_file(fd, 1 << 20, &data, &size), 0);
	return memmem(data, size, text, strlen(text)) != NULL;
}

/* As a program of its own: only what was there at exec is in /proc. Red when the variables are
 * unset alone. */
static void test_a_process_forgets_its_environment(void **state)
{
	int status;
	pid_t pid;

	if (is_under_valgrind())
		skip();
	pid = fork();
	if (pid == 0) {
		const char *const argv[] = { "test-keys", "forget", NULL };
		const char *const env[] = { "AWS_ACCESS_KEY_ID=A", "AWS_SECRET_ACCESS_KEY=" SECRET,
					    "AWS_SESSION_TOKEN=" SECRET, "OTHER=kept", NULL };

		execve("/proc/self/exe", (char *const *)argv, (char *const *)env);
		_exit(126);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static int forget(void)
{
	if (!environ_has(SECRET))
		return 1;
	keys_forget_env();
	return environ_has(SECRET) || getenv(KEYS_ENV_SECRET) || !environ_has("OTHER=kept") ? 2 : 0;
}

/* What was in a message is not in its memory afterwards: the pages of the heap are looked at as the
 * kernel has them, without a byte taken from the heap meanwhile. */
static bool memory_has(const char *a, const char *b)
{
	static char maps[1 << 16], page[1 << 20], text[64];
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	unsigned long from = 0, to = 0;
	bool found = false;
	size_t size = 0;
	ssize_t n;

	while ((n = read(fd, maps + size, sizeof(maps) - 1 - size)) > 0)
		size += (size_t)n;
	maps[size] = '\0';
	snprintf(text, sizeof(text), "%s%s", a, b);
	for (char *line = maps; *line; line += strcspn(line, "\n") + 1)
		if (memmem(line, strcspn(line, "\n"), "[heap]", 6))
			assert_int_equal(sscanf(line, "%lx-%lx", &from, &to), 2);
	assert_true(from < to);
	for (; from < to; from += sizeof(page) - sizeof(text)) {
		n = pread(mem, page, to - from < sizeof(page) ? to - from : sizeof(page),
			  (off_t)from);
		found = found || (n > 0 && memmem(page, (size_t)n, text, strlen(text)));
	}
	close(fd);
	close(mem);
	return found;
}

/* Red when kv_free() or conn_recv() does not wipe, or a kv that grows leaves its old bytes. free()
 * itself writes over the first of them, so the secret stands behind others. */
static void test_messages_leave_nothing_in_memory(void **state)
{
	char secret[32], filler[600];
	struct kv *kv = NULL, *got = NULL;
	int pair[2];

#ifdef STAGE_SANITIZED
	skip(); /* the heap is elsewhere, and what is freed is kept */
#endif
	if (is_under_valgrind())
		skip();
	snprintf(secret, sizeof(secret), "%s%s", "heap-", "canary-0815");
	memset(filler, 'f', sizeof(filler) - 1);
	filler[sizeof(filler) - 1] = '\0';
	assert_int_equal(conn_pair(pair), 0);
	assert_int_equal(kv_new(&kv), 0);
	kv_set(kv, "first", filler + sizeof(filler) - 200);
	kv_set(kv, "secret", secret);
	assert_true(memory_has("heap-", "canary-0815")); /* it would be found */
	kv_set(kv, "more", filler);			 /* it moves */
	assert_int_equal(conn_send(pair[0], kv), 0);
	assert_int_equal(conn_recv(pair[1], &got), 1);
	kv_free(kv);
	kv_free(got);
	explicit_bzero(secret, sizeof(secret));
	assert_false(memory_has("heap-", "canary-0815"));
	close(pair[0]);
	close(pair[1]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_the_environment_may_say),
		cmocka_unit_test(test_lengths_and_messages),
		cmocka_unit_test(test_a_descriptor_brings_them_once),
		cmocka_unit_test(test_children_have_none),
		cmocka_unit_test(test_the_place_is_locked_and_in_no_core),
		cmocka_unit_test(test_a_process_forgets_its_environment),
		cmocka_unit_test(test_messages_leave_nothing_in_memory),
	};

	if (argc > 1 && !strcmp(argv[1], "forget"))
		return forget();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
