/*
 * fetch-protocol: what a worker (daemon/worker/web/fetch.h) and stage-fetch say to each other.
 *
 * Packets, on a connection like all others (common/protocol/conn.h):
 *
 *   to stage-fetch   op=begin web= profile= rate= lowspeed= threads=, and beside it the descriptor
 *                      that brings the user's keys, if there is one (common/protocol/keys.h)
 *                    op=get id= url= from= to= [whole=1] [anyend=1] [pipe=1] [etag= modified=]
 *                      [total=], and the descriptor: bytes go to their offset, or into a pipe
 *                    op=list id= url= [pattern=1], and the descriptor: for each object below
 *                      s3://BUCKET/PREFIX, or that fits s3://BUCKET/PATTERN, a line of size, blank,
 *                      ETag, blank, encoded key
 *                    op=stop: what was asked for before ends
 *   from it          op=came id= bytes=           after FETCH_STEP bytes, and after FETCH_STEP_MS
 *                      if they come slowly; for op=list and for descriptors that are files
 *                    op=done id= [total=] ranges= etag= modified= name=
 *                    op=fail id= code= exit= hint= text=
 *
 * A stage-fetch whose connection ends, ends.
 */
#pragma once

#define FETCH_MAX_THREADS 64
#define FETCH_PROGRAM "stage-fetch"
#define FETCH_STEP (1u << 20) /* bytes between two op=came */
#define FETCH_STEP_MS 500
