/*
 * A program that runs a script, for tests that need a program which is not a script itself. The
 * test writes the path of the script over the text SCRIPT in a copy of this program. The script
 * gets the same arguments. If the test has written `hang` instead of a path, the program does
 * nothing until it is killed.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_WORDS 64

static volatile char script[4096] = "@SCRIPT@";

int main(int argc, char **argv)
{
	char path[sizeof(script)];
	char *words[MAX_WORDS + 1] = { (char *)"sh", path };

	for (size_t i = 0; i < sizeof(path); i++)
		path[i] = script[i];
	for (int i = 1; i < argc && i + 1 < MAX_WORDS; i++)
		words[i + 1] = argv[i];
	while (!strcmp(path, "hang"))
		pause();
	execv("/bin/sh", words);
	perror(path);
	return 127;
}
