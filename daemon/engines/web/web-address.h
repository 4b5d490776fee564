/*
 * web-address: decides which addresses a server may have: public ones, and others only if the site
 * allows them. Otherwise, a host name of an outsider could lead to this node or to the site's own
 * networks, and our process would send requests there for him.
 */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

/* Returns true for addresses that are reachable from everywhere: not those of this node, a link, a
 * site, a test or a multicast. IPv4 in IPv6 counts as IPv4. */
bool web_address_is_public(const struct sockaddr *sa);

/* Returns true if the address is in one of the networks, such as "10.0.0.0/8,fd00::/8,127.0.0.1". A
 * network that cannot be parsed contains no address. */
bool web_address_is_in(const struct sockaddr *sa, const char *networks);
