/*
 * readable: what a job can read where its stagingd has died. The environment file names all
 * datasets of the job, and the path of each is there from the moment on at which it is ready.
 */
#pragma once

#include <stdbool.h>

/* Are all datasets of the job with that socket ready on this node? Looks at names alone: the server
 * of an image is not asked, as it may hang. */
bool readable_has_all(const char *socket);
