/*
 * fetch-serve: the inside of stage-fetch: takes orders from a worker (fetch.h) and carries them out
 * by as many threads as there are orders at once.
 */
#pragma once

/* Until the connection ends. The exit status. */
int fetch_serve(int sock);
