/* For builds without support for images. */
#include "bare.h"

#include <err.h>

int bare_inflate(int argc, char **argv)
{
	errx(1, "this probe was built without libdeflate");
}

int bare_names(int argc, char **argv)
{
	errx(1, "this probe was built without libfuse");
}
