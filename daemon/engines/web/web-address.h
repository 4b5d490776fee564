/*
 * web-address: decides which addresses a server may have: public ones, and others only if the site
 * allows them. Otherwise, a host name of an outsider could lead to this node or to the site's own
 * networks, and our process would send requests there for him.
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

/* Reachable from everywhere: not of this node, a link, a site, a test, a multicast. IPv4 within
 * IPv6 is looked at as IPv4. */
bool web_address_is_public(const struct sockaddr *sa);

/* Is it in one of the networks, "10.0.0.0/8,fd00::/8,127.0.0.1"? What can't be read has nobody in
 * it. */
bool web_address_is_in(const struct sockaddr *sa, const char *networks);
