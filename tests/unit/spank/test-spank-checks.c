/*
 * Who asks, as the rules of a site see him. Seen failing with a group left out, with a number for
 * one that has no name, and with the account's directory in the place of HOME.
 */
#include "tests/unit/spank/test-spank-fake.h"

#include <grp.h>
#include <pwd.h>
#include <sys/wait.h>

#include "spank/checks.h"

#define NOBODYS 54321 /* no account and no group */
#define N_GROUPS 1500

/* A group with a name, other than root's */
static gid_t find_group(const char **namep)
{
	static const char *const names[] = { "daemon", "bin", "sys", "mail" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const struct group *gr = getgrnam(names[i]);

		*namep = names[i];
		if (gr)
			return gr->gr_gid;
	}
	fail_msg("no group of the system's is known");
	return 0;
}

/* 0, or the number of what is wrong */
static int check_user(uid_t uid, const char *home, const char *expect_name, const char *expect_home,
		      const char *group)
{
	static struct checks_user u;
	int r;

	if (home)
		setenv("HOME", home, 1);
	else
		unsetenv("HOME");
	if (uid && setresuid(uid, uid, uid) < 0)
		return 1;
	memset(&u, 'x', sizeof(u));
	checks_get_user(&u);
	r = strcmp(u.name, expect_name)					? 2
	    : strcmp(u.home, expect_home)				? 3
	    : u.n_groups != N_GROUPS + 1				? 4
	    : strcmp(u.groups[0], group) || strcmp(u.groups[1], "root") ? 5
	    : strcmp(u.groups[2], "54321")				? 6
									: 0;
	checks_user_deinit(&u);
	return r;
}

static void test_names_and_what_has_none(void **state)
{
	const char *group;
	const gid_t own = find_group(&group); /* which is not among the others */
	gid_t gids[N_GROUPS];
	const struct passwd *pw = getpwuid(0);
	const struct {
		uid_t uid;
		const char *home, *name, *expect_home;
	} cases[] = {
		{ 0, "/elsewhere", "root", "/elsewhere" },
		{ 0, NULL, "root", pw ? pw->pw_dir : "" },
		{ NOBODYS, "/elsewhere", "54321", "/elsewhere" },
		{ NOBODYS, NULL, "54321", "" },
	};
	int status;

	if (geteuid() != 0)
		skip();
	for (unsigned i = 0; i < N_GROUPS; i++)
		gids[i] = NOBODYS + i;
	gids[N_GROUPS - 1] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		fflush(NULL);
		if (fork() == 0) {
			if (setgroups(ARRAY_SIZE(gids), gids) < 0 || setgid(own) < 0)
				_exit(99);
			_exit(check_user(cases[i].uid, cases[i].home, cases[i].name,
					 cases[i].expect_home, group));
		}
		wait(&status);
		if (status)
			fail_msg("case %zu: %d", i, WEXITSTATUS(status));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_and_what_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
