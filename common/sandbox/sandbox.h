/*
 * sandbox: what a worker gives up before it reads what users have made, so that a mistake of ours
 * in an archive, an image or a name has less to do harm with. The boundary is the user's uid; this
 * is behind it.
 *
 * Best effort: what the kernel does not have is left out.
 */
#pragma once

/*
 * The process: programs that gain a privilege, starting programs at all, sockets, mounts,
 * namespaces, other processes' memory, devices, attributes beyond mode and time, and what else no
 * stager needs. All threads, for ever.
 */
void sandbox_enter(void);

/* The same, before this process becomes a program that is not ours. It may start others. */
void sandbox_enter_program(void);

/* The calling thread: serves an image with what is open; it opens, makes and removes nothing. Needs
 * no_new_privs. */
void sandbox_enter_server_thread(void);

/*
 * The calling thread, of a process that serves an image, does not serve itself: it waits, talks to
 * stagingd, copies from one descriptor that is open to another, and ends the process and its
 * children. It opens, makes and removes nothing either.
 */
void sandbox_enter_beside_server(void);

/*
 * stage-fetch, which has the network and no file to write but those it is handed: what
 * sandbox_enter() denies without sockets, all that makes, moves, removes, cuts or opens files for
 * writing, or changes their modes and owners. Where the kernel has Landlock, that once more. Before
 * its second thread.
 */
void sandbox_enter_fetcher(void);
