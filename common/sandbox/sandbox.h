/*
 * sandbox: the rights that a worker gives up before it reads data of users, so that a mistake in
 * our code for archives, images or names can do less harm. The security boundary is the user's uid;
 * this is an additional protection. Features that the kernel does not have are left out.
 */
#pragma once

/*
 * All threads of the process give up, for ever: programs that gain a privilege, starting programs,
 * sockets, mounts, namespaces, other processes' memory, devices, attributes other than mode and
 * time, and everything else that no stager needs.
 */
void sandbox_enter(void);

/* The same, before this process becomes a program that is not ours. It may start others. */
void sandbox_enter_program(void);

/* The calling thread can only serve an image with its open descriptors. It cannot open, create or
 * remove anything. Needs no_new_privs. */
void sandbox_enter_server_thread(void);

/*
 * The calling thread, of a process that serves an image, does not serve itself: it waits, talks to
 * stagingd, copies from one descriptor that is open to another, and ends the process and its
 * children. It opens, makes and removes nothing either.
 */
void sandbox_enter_beside_server(void);

/*
 * For stage-fetch, which has the network and may write only to files whose descriptors it gets. It
 * gives up the same as by sandbox_enter(), except for sockets, and all calls that create, move,
 * remove, truncate or open files for writing, or change their modes and owners. If the kernel has
 * Landlock, it refuses the same again. To be called before the second thread is started.
 */
void sandbox_enter_fetcher(void);
