/*
 * sandbox: the rights that a worker gives up before it reads data of users, so that a mistake in
 * our code for archives, images or names can do less harm. The security boundary is the user's uid;
 * this is an additional protection. Features that the kernel does not have are left out.
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
