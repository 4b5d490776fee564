/*
 * sandbox: the rights that a worker gives up before it reads data of users, so that a mistake in
 * our code for archives, images or names can do less harm. The security boundary is the user's uid;
 * this is an additional protection. Features that the kernel does not have are left out.
 */
#pragma once

/* Takes from all threads, permanently: gaining privileges, starting programs, sockets, mounts,
 * namespaces, other processes' memory, devices, attributes other than mode and time, and everything
 * else that no stager needs. */
void sandbox_enter(void);

/* Does the same before this process executes a program that is not ours. That program may start
 * others. */
void sandbox_enter_program(void);

/* Restricts the calling thread to serving an image with its open descriptors. It cannot open,
 * create or remove anything. Needs no_new_privs. */
void sandbox_enter_server_thread(void);

/* For a thread of an image server that does not serve requests itself: it waits, talks to stagingd,
 * copies between open descriptors, and ends the process and its children. It cannot open, create or
 * remove anything either. */
void sandbox_enter_beside_server(void);

/*
 * For stage-fetch, which uses the network and may write only to files whose descriptors it gets.
 * Takes the same as sandbox_enter(), except sockets, and also all calls that create, move, remove,
 * truncate or open files for writing, or change their modes and owners. Landlock, if the kernel has
 * it, refuses the same. Must be called before a second thread is started.
 */
void sandbox_enter_fetcher(void);
