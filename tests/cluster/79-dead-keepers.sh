# Keepers that die, hang or are not ended. A running job keeps its data, whichever process has
# died, and data that no job needs is removed. Names begin with dk_, because each file of tests is
# read into the same shell.

# c and h: images whose server has written a copy, or is writing it
readonly dk_items="t=$data/many.tar,m=$data/many.zstd.sqsh,d=$data/flat:ssd,c=$data/many.zstd.sqsh:shm,h=$data/many.zstd.sqsh:ssd:hydrate=copy"
# What a job reads once the test lets it go on
readonly dk_read="echo begun; $until_let_go
cat \$STAGE_DATA_PATH_T/*/* | cksum; cat \$STAGE_DATA_PATH_M/*/* | cksum; cat \$STAGE_DATA_PATH_D/* | cksum
cat \$STAGE_DATA_PATH_C/*/* | cksum; cat \$STAGE_DATA_PATH_H/*/* | cksum"

dk_keeper() {
	find "$prefix" -name stage-keeper -type f -print -quit
}

dk_reap() {
	on "${1:-n1}" "$(dk_keeper)" reap 2>&1
}

# dk_keeper_pid NODE ID: of the job's keeper; of the job's manager
dk_keeper_pid() {
	on "$1" sed -nE 's/^keeper=([0-9]+):.*/\1/p' "/run/stage-data/$2/state"
}

dk_manager_pid() {
	on "$1" pgrep -x -P "$(dk_keeper_pid "$1" "$2")" stage-manager
}

dk_lock_is_free() {
	on "$1" flock -n "/run/stage-data/$2/lock" true
}

dk_expected() {
	echo begun
	cat "$pfs"/data/many/*/* | cksum
	cat "$pfs"/data/many/*/* | cksum
	cat "$pfs"/data/flat/* | cksum
	cat "$pfs"/data/many/*/* | cksum
	cat "$pfs"/data/many/*/* | cksum
}

# Without the progress, which is printed where staging takes longer.
dk_output() {
	job_output "$1" | grep -v '^stage-data: '
}

dk_log() {
	cat "$base/node/$1/log/stage-data.log" 2>/dev/null || true
}

dk_log_says() {
	dk_log n1 | grep -q "$1"
}

# dk_begin NODE: a job that has its data and waits
dk_begin() {
	local id

	id=$(job_submit alice -w "$1" --mem=200 --stage-data="$dk_items" <<<"$dk_read")
	job_wait_says "$id" begun
	echo "$id"
}

# dk_survives WHO: the processes that `dk_WHO NODE ID` prints are killed, and the reaper runs, three
# times. The job reads all that it has, and nothing of it is left when it ends.
dk_survives() {
	local id i said=

	need_fuse
	forgive_crashes n1
	id=$(dk_begin n1)
	# shellcheck disable=SC2046
	on n1 kill -KILL $("dk_$1" n1 "$id") || true # one may go with another
	wait_until 10 dk_lock_is_free n1 "$id"
	for i in 1 2 3; do
		said+=$(dk_reap)
		assert on n1 test -d "/run/stage-data/$id/t/data"
	done
	let_go "$id"
	job_done "$id"
	assert_eq "$(dk_expected)" "$(dk_output "$id")" "what the job read"
	wait_until 10 job_nodes_clean "$id"
	assert_eq "" "$(on n1 find /srv/local -name "stage-data-$id*")" "what is left on the disk"
	assert_contains "$said" "job $id: its keeper is dead, and processes of it are on this node"
	assert_eq 1 "$(dk_log n1 | grep -c "job=$id .*the keeper has died")" "lines of the keeper's death"
	assert_nodes_fine
}

# Fails when the reaper takes a dead keeper for the end of its job.
test_a_running_job_keeps_its_data_when_its_keeper_dies() {
	dk_survives keeper_pid
}

# Fails as the one before does.
test_a_running_job_keeps_its_data_when_its_manager_dies() {
	dk_survives manager_pid
}

dk_everybody() {
	dk_keeper_pid "$1" "$2"
	dk_manager_pid "$1" "$2"
	on "$1" pgrep -x stagingd
}

# Fails as the one before does.
test_a_running_job_keeps_its_data_when_all_that_served_it_die() {
	dk_survives everybody
}

# Fails when the server of an image that it has copied counts as a writer, and ends with stagingd.
test_a_running_job_keeps_its_data_when_its_daemon_dies() {
	local id pid

	need_fuse
	forgive_crashes n1
	id=$(dk_begin n1)
	pid=$(on n1 pgrep -x stagingd)
	on n1 kill -KILL "$pid"
	wait_until 10 dk_log_says "job=$id .*stagingd .*mounts stay"
	let_go "$id"
	job_done "$id"
	assert_eq "$(dk_expected)" "$(dk_output "$id")" "what the job read"
	wait_until 10 job_nodes_clean "$id"
	assert_nodes_fine
}

# One waits for a dataset while the keeper dies, another asks afterwards: both say so, and what was
# ready is read. Fails when who waits hears of a dataset that was cancelled, or of nothing.
test_who_waits_is_told_that_the_keeper_has_died() {
	local id out

	forgive_crashes n1
	gate_close n1
	id=$(job_submit alice -w n1 --stage-wait=no --stage-data="t=/srv/pfs/gate/many.tar,d=$data/flat" <<-'EOS'
	stagectl wait -q d && echo "d is ready"
	timeout 20 stagectl wait t; echo "waiting ends with $?"
	until stagectl status >said 2>&1; [[ $? = 5 ]]; do sleep 0.1; done
	echo "asking: $(cat said)"
	cat $STAGE_DATA_PATH_D/* | cksum
	EOS
	)
	job_wait_says "$id" "d is ready"
	wait_until 10 on n1 pgrep -x stage-worker
	on n1 kill -KILL "$(dk_keeper_pid n1 "$id")"
	job_done "$id"
	gate_open n1
	out=$(job_output "$id")
	assert_match "$out" "t: the keeper of this job has died: nothing more is staged.*waiting ends with 5"
	assert_match "$out" "asking: .*stagingd has ended.*What was ready can be read"
	assert_contains "$out" "$(cat "$pfs"/data/flat/* | cksum)"
	wait_until 10 job_nodes_clean "$id"
}

dk_no_stagingd() {
	! on "$1" pgrep -x stagingd >/dev/null
}

# A step that begins after the keeper's death, and the line in the system's log that does not wait
# for the reaper. Fails when a held task asks stagingd alone, and when stagingd says nothing of it.
test_a_held_task_begins_with_what_is_ready_when_the_keeper_is_dead() {
	local id out

	forgive_crashes n1
	system_log n1 /var/log/dk-log
	id=$(job_submit alice -w n1 --stage-wait=tasks --stage-data="t=$data/many.tar" <<-EOS
	stagectl wait -q && echo begun; $until_let_go
	srun sh -c 'cat \$STAGE_DATA_PATH_T/*/* | cksum'
	EOS
	)
	job_wait_says "$id" begun
	on n1 kill -KILL "$(dk_keeper_pid n1 "$id")"
	wait_until 10 dk_lock_is_free n1 "$id"
	wait_until 10 on n1 grep -q "stagingd.*job=$id the keeper is gone: nothing more is staged" /var/log/dk-log
	wait_until 10 dk_no_stagingd n1
	let_go "$id"
	job_done "$id"
	out=$(job_output "$id")
	assert_contains "$out" "all datasets are ready, so the task begins"
	assert_contains "$out" "$(cat "$pfs"/data/many/*/* | cksum)"
	wait_until 10 job_nodes_clean "$id"
}

dk_stop_slurmctld() {
	# shellcheck disable=SC2016
	on ctl bash -c 'kill $(cat /run/slurmctld.pid)
		while [[ -e /proc/$(cat /run/slurmctld.pid 2>/dev/null) ]] && pgrep -x slurmctld; do sleep 0.1; done' >/dev/null
}

dk_start_slurmctld() {
	on ctl pgrep -x slurmctld >/dev/null || on ctl slurmctld </dev/null
	wait_until 20 on ctl scontrol ping
}

# The job's own processes tell that it runs, where nobody else can.
dk_survives_without_slurmctld() {
	local id

	forgive_crashes n1
	id=$(dk_begin n1)
	on n1 kill -KILL "$(dk_keeper_pid n1 "$id")"
	wait_until 10 dk_lock_is_free n1 "$id"
	at_end dk_start_slurmctld
	dk_stop_slurmctld
	assert_contains "$(dk_reap)" "job $id: its keeper is dead, and processes of it are on this node"
	assert on n1 test -d "/run/stage-data/$id/t/data"
	dk_start_slurmctld
	let_go "$id"
	job_done "$id"
	assert_eq "$(dk_expected)" "$(dk_output "$id")" "what the job read"
	wait_until 10 job_nodes_clean "$id"
}

# Fails when a Slurm that does not answer is taken for the end of all jobs.
test_a_running_job_keeps_its_data_while_slurmctld_is_away() {
	need_fuse
	need_cgroup
	dk_survives_without_slurmctld
}

# Slurm's step daemon is the only process that tells.
# Fails when only groups are looked at.
test_a_running_job_without_cgroups_keeps_its_data_while_slurmctld_is_away() {
	need_fuse
	"$cluster" restart --cgroups none
	dk_survives_without_slurmctld
}

# Fails when neither the groups of version 2 nor step daemons are looked at.
test_a_running_job_in_cgroup_v2_keeps_its_data_while_slurmctld_is_away() {
	need_fuse
	"$cluster" restart --cgroups v2
	dk_survives_without_slurmctld
}

# dk_without_plugin NODE...: their slurmds call nothing of ours from now on
dk_without_plugin() {
	local node conf=$base/etc/slurm/plugstack.conf

	at_end "for node in $*; do '$cluster' slurmd-restart \$node; done; wait_until 20 nodes_are_fine"
	sed -i 's/^optional/#&/' "$conf"
	at_end "sed -i 's/^#optional/optional/' '$conf'"
	for node; do
		restart_slurmd "$node" &
	done
	wait
	sed -i 's/^#optional/optional/' "$conf"
}

# The job is over and its epilog was never called. Fails when what Slurm does not tell is taken for
# the end of the job, and when it is not asked again.
test_what_slurm_does_not_tell_about_is_kept_until_it_does() {
	local id said

	forgive_crashes n1
	id=$(dk_begin n1)
	dk_without_plugin n1
	on n1 kill -KILL "$(dk_keeper_pid n1 "$id")"
	let_go "$id"
	job_done "$id"
	at_end dk_start_slurmctld
	dk_stop_slurmctld
	said=$(dk_reap)
	assert_match "$said" "job $id: .*not known"
	assert on n1 test -d "/run/stage-data/$id/t/data"
	dk_start_slurmctld
	dk_reap
	assert job_nodes_clean "$id"
	assert_eq "" "$(on n1 find /srv/local -name "stage-data-$id*")" "what is left on the disk"
}

# Three keepers that nobody tells that their jobs are over: one is well, one is stopped, the manager
# of the third is. Fails when a lock that is held is all that the reaper looks for.
test_keepers_that_nobody_ends_are_ended() {
	local ids=() node i

	for node in n1 n2 n3; do
		ids+=("$(dk_begin $node)")
	done
	dk_without_plugin n1 n2 n3
	on n2 kill -STOP "$(dk_keeper_pid n2 "${ids[1]}")"
	on n3 kill -STOP "$(dk_manager_pid n3 "${ids[2]}")"
	# Of a job that runs it ends none.
	for node in n1 n2 n3; do
		dk_reap $node &
	done
	wait
	for i in 0 1 2; do
		assert on n$((i + 1)) test -d "/run/stage-data/${ids[i]}/t/data"
		let_go "${ids[i]}"
	done
	for i in 0 1 2; do
		job_done "${ids[i]}"
		assert_eq "$(dk_expected)" "$(dk_output "${ids[i]}")" "what the job read"
	done
	assert_match "$(on n1 "$prefix/bin/stagectl" doctor || true)" \
		"warn  leftovers.*job ${ids[0]} is over.* its keeper"
	for node in n1 n2 n3; do
		dk_reap $node &
	done
	wait
	for i in 0 1 2; do
		assert job_nodes_clean "${ids[i]}"
		assert_eq 1 "$(dk_log n$((i + 1)) | grep -c "job=${ids[i]} .*nobody has ended its keeper")" "lines of it"
		assert_not on n$((i + 1)) pgrep -x 'stage-keeper|stage-manager'
		# None of them has crashed.
		assert_not on n$((i + 1)) test -s /run/stage-data/.crashes
	done
}

# With two crashes within the hour a third opens the breaker; a keeper that is killed because it
# hangs is none. Fails when the keeper that is killed past its time counts.
test_keepers_that_hang_at_the_end_do_not_open_the_breaker() {
	local id who

	forgive_crashes n1
	at_end "on n1 rm -f /run/stage-data/.breaker"
	on n1 mkdir -p /run/stage-data
	on n1 python3 -c 'import sys, time
sys.stdout.buffer.write(int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1000).to_bytes(8, sys.byteorder) * 2)' \
		>"$base/node/n1/local/crashes"
	on n1 cp /srv/local/crashes /run/stage-data/.crashes
	rm "$base/node/n1/local/crashes"
	for who in keeper manager; do
		id=$(dk_begin n1)
		on n1 kill -STOP "$("dk_${who}_pid" n1 "$id")"
		let_go "$id"
		job_done "$id"
		wait_until 20 job_nodes_clean "$id"
		assert_eq 16 "$(on n1 stat -c %s /run/stage-data/.crashes)" "bytes of crashes after a $who was stopped"
	done
	assert_not on n1 test -e /run/stage-data/.breaker
	assert_nodes_fine
}

# dk_leftover ID [TIER]: of an earlier boot, with what it names in a tier of the user's
dk_leftover() {
	on n1 mkdir -p -m 0711 "/run/stage-data/$1"
	{
		printf 'version=2\njob=%u\nrestart=0\nuid=4001\ngid=4001\nboot=%036d\nkeeper=99999:1\nending=0\nfailed=0\n' "$1" 0
		[[ -z ${2:-} ]] || echo "tier=1:$2"
		echo end
	} | on n1 tee "/run/stage-data/$1/state" >/dev/null
}

dk_is_gone() {
	on n1 test ! -e "/run/stage-data/$1"
}

# A file system of the user's hangs, as a tier on dead storage would. Directories are read in any
# order, so there are hanging ones on both sides of each that is not. Fails when the reaper gives
# each leftover half a minute before it looks at the next.
test_leftovers_that_hang_do_not_hold_up_others() {
	local id reaper

	gate_close n1
	for id in 9000001 9000003 9000005; do
		dk_leftover $id /srv/pfs/gate/tier
		dk_leftover $((id + 1))
	done
	dk_leftover 9000007 /srv/pfs/gate/tier
	dk_reap >"$work/reap" 2>&1 &
	reaper=$!
	for id in 9000002 9000004 9000006; do
		wait_until 25 dk_is_gone $id
	done
	assert kill -0 $reaper
	gate_open n1
	wait $reaper || true
	dk_reap
	for id in 9000001 9000003 9000005 9000007; do
		assert dk_is_gone $id
		assert on n1 bash -c "! ls -d /run/stage-data/.trash/$id.*" 2>/dev/null
	done
}
