# Each process that a job's data depends on is killed, and jobs are cancelled, at random moments of
# jobs on three nodes at once: nothing is left within 10 seconds of the job's end, what a job reads is
# right as long as it runs, and no node is taken out of service. tests/lib/moments is what goes on
# on a node.
#
# STAGE_TEST_ROUNDS says how often each (20), STAGE_TEST_SEED where the random numbers begin.
#
# Seen failing: with a clean-up that does not unmount, and with children of the keeper that did not notice its
# death in their first moment. Moments that were hit are told at the end of each.
# shellcheck shell=bash

readonly rounds=${STAGE_TEST_ROUNDS:-20}
readonly lanes_per_node=2

# at_random_moments FAULT [LANES]: lanes of jobs on each node
at_random_moments() {
	local fault=$1 lanes=${2:-$lanes_per_node} node i hits seed=${STAGE_TEST_SEED:-$RANDOM} lane=0 status=0
	local pids=()

	site_conf <<-'CONF'
	[source slow]
	Match=/srv/pfs/gate/**
	MaxRate=6M
	CONF
	sed -i 's|^Match=/srv/pfs/\*\*|Match=/srv/pfs/data/**|' "$base/etc/stage-data/stage-data.conf"
	on n1 bash -c 'cat /srv/pfs/data/many/*/* | cksum' >"$pfs/gate/many.cksum"
	chmod 0644 "$pfs/gate/many.cksum"
	install -m 0755 "$here/../lib/moments" "$base/moments"
	hits=$(((rounds + 3 * lanes - 1) / (3 * lanes)))
	echo "seed $seed, $hits hits in each of $((3 * lanes)) lanes"
	for node in n1 n2 n3; do
		for ((i = 0; i < lanes; i++, lane++)); do
			on $node env PREFIX="$prefix" "$base/moments" "$fault" "$hits" $((seed + lane)) \
				>"$work/lane.$lane" 2>&1 &
			pids+=($!)
		done
	done
	for i in "${pids[@]}"; do
		wait "$i" || status=$?
	done
	sed -n 's/^round \([0-9]*\) .*/\1/p' "$work"/lane.* >>"$work/jobs"
	tell_moments
	assert_eq "" "$(grep -hv '^round ' "$work"/lane.* || true)" "broken promises"
	assert_eq 0 "$status" "status of a lane"
	assert_nodes_fine
}

# A table of the moments, and of the longest time to clean up
tell_moments() {
	awk '$1 == "round" && $4 == "hit" { n++; at[$5]++; if ($8 > max) max = $8 }
		END { printf "%d hits:", n; for (p in at) printf " %s %d", p, at[p]; printf ", clean within %d ms\n", max }' \
		"$work"/lane.* | tee -a "${STAGE_TEST_NUMBERS:-/dev/null}"
}

readonly test_stagingd_is_killed_seconds=600 test_a_worker_is_killed_seconds=600
readonly test_an_image_server_is_killed_seconds=600 test_the_keeper_is_killed_seconds=600
readonly test_the_daemon_of_the_batch_step_is_killed_seconds=600
readonly test_the_daemon_of_the_extern_step_is_killed_seconds=600
readonly test_slurmd_is_killed_seconds=600 test_cancelled_seconds=600
readonly test_epilog_and_reapers_at_once_seconds=600

# Fails when a clean-up leaves what is in disk tiers.
test_stagingd_is_killed() { at_random_moments stagingd; }
# Fails when the death of a worker is no event in the life of its dataset.
test_a_worker_is_killed() { at_random_moments worker; }
# Fails when a clean-up does not unmount.
test_an_image_server_is_killed() { need_fuse; at_random_moments server; }
# Fails when nobody takes away what a keeper had that is dead.
test_the_keeper_is_killed() { at_random_moments keeper; }
# Fails when the epilog does not clean up.
test_the_daemon_of_the_batch_step_is_killed() { at_random_moments batch; }
# Fails when a clean-up leaves the cgroup.
test_the_daemon_of_the_extern_step_is_killed() { at_random_moments extern; }
# Fails when the reaper of slurmd's start ends keepers that are alive.
test_slurmd_is_killed() { at_random_moments slurmd 1; }
# Fails when a clean-up does not free the memory.
test_cancelled() { at_random_moments scancel; }
# Fails when nobody takes the lock.
test_epilog_and_reapers_at_once() { at_random_moments epilog; }
