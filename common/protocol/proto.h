/*
 * proto: the words of the protocol on the job's socket and between stagingd and its workers.
 * docs/protocol.md lists every message; here are the names, so that they are written once.
 */
#pragma once

#include <stdint.h>

#include "common/protocol/kv.h"

#define PROTO_VERSION 1

/* Every message: "proto" = 1, and "op". Requests carry "id"; replies echo it. */

/* client -> stagingd */
#define PROTO_OP_WAIT "wait"	 /* names= (comma list, "" all), any=0|1, progress=0|1, keys=0|1 */
#define PROTO_OP_STATUS "status" /* names=, watch=0|1 */
#define PROTO_OP_ENV "env"
#define PROTO_OP_ADD "add"	     /* item= (canonical, expanded); may have keys */
#define PROTO_OP_KEYS "keys"	     /* access=, secret=, token= of S3; or none= with a reason */
#define PROTO_OP_RELEASE "release"   /* names= */
#define PROTO_OP_LOG "log"	     /* names= */
#define PROTO_OP_WARNINGS "warnings" /* names= : warnings that nobody has received yet */
#define PROTO_OP_LEASE "lease"	     /* for a run without keeper: ends with the connection */

/* stagingd -> client */
#define PROTO_OP_DATASET "dataset" /* one dataset; fields below */
#define PROTO_OP_NEEDKEYS                                                                          \
	"needkeys"	     /* a dataset waits for keys; a client whose wait has keys=1 answers */
#define PROTO_OP_LINE "line" /* text= of a log or env line */
#define PROTO_OP_DONE "done" /* code= exit status, text= reason */

/* stagingd -> worker */
#define PROTO_OP_TASK "task"
#define PROTO_OP_GRANT "grant"	   /* answer to reserve: ok=0|1, have= */
#define PROTO_OP_MOUNTED "mounted" /* answer to mount: slot=, path= and descriptors; or text= */
#define PROTO_OP_TIERDIR "tierdir" /* answer to tier: path= or text= */
#define PROTO_OP_PLACED "placed"   /* answer to place: errno= */
#define PROTO_OP_CANCEL "cancel"
#define PROTO_OP_CACHE "cache" /* size= : new limit for the cache of an image server */

/* worker -> stagingd */
#define PROTO_OP_FACTS "facts"	     /* kind=, format=, total=, nfiles=, plan=, why= */
#define PROTO_OP_RESERVE "reserve"   /* tier=, bytes=, files= */
#define PROTO_OP_TIER "tier"	     /* tier= : make the job's directory in this tier */
#define PROTO_OP_MOUNT "mount"	     /* threads= : requests a FUSE slot */
#define PROTO_OP_PLACE "place"	     /* has a descriptor of the object to mount on the entry */
#define PROTO_OP_PROGRESS "progress" /* bytes=, files= */
#define PROTO_OP_READ "read"	     /* the mount was read a moment ago */
#define PROTO_OP_WARNING "warning"   /* text=; to a client: name=, node=, text= */
#define PROTO_OP_READY "ready"	     /* bytes=, files=, kind=, stays=0|1, unused= */
#define PROTO_OP_ERROR "error"	     /* code= exit status, text= */

/* Makes a message with proto and op. Returns NULL if there is no memory. */
struct kv *proto_new(const char *op);
/* Returns op, or NULL if the message has another version or no op. */
const char *proto_get_op(const struct kv *kv);
