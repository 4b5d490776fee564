# Each test causes one fault in a job on a real node. docs/faults.md has the complete list.

# --- helpers --------------------------------------------------------------------------------------

# worker_of NODE PATH: pid of the worker that has this file of the nodes open
worker_of() {
	# shellcheck disable=SC2016
	on "$1" bash -c 'for pid in $(pgrep -x stage-worker); do
			find "/proc/$pid/fd" -lname "$1*" 2>/dev/null | grep -q . && echo "$pid"
		done; true' - "$2"
}

has_worker() {
	[[ -n $(worker_of "$@") ]]
}

# keeper_is SCRIPT on n1: runs in place of the keeper, with the real one at $REAL
keeper_is() {
	cp "$(libexec)/stage-keeper" "$base/stage-keeper.real"
	at_end "rm -f '$base/stage-keeper.real'"
	{
		printf '#!/bin/bash\nREAL=%q\n' "$base/stage-keeper.real"
		cat
	} >"$work/wrapper"
	replace_on_n1 stage-keeper <"$work/wrapper"
}

# reaped ID: the timer would come
reaped() {
	on n1 "$base/reap" >/dev/null 2>&1 || true
	job_nodes_clean "$1"
}

real_reaper() {
	printf '#!/bin/bash\nexec %q reap\n' "$(libexec)/stage-keeper" >"$base/reap"
	chmod 0755 "$base/reap"
}

# --- what dies in a job ---------------------------------------------------------------------------

# Fails when the death of a worker is no event in the life of its dataset.
test_a_killed_worker_fails_its_dataset_alone() {
	local id killed

	gate_close n1
	id=$(job_submit alice -w n1 --stage-wait=no --stage-data="t=/srv/pfs/gate/many.tar,d=$data/flat" <<-'EOS'
	stagectl wait -q d && echo "d is ready"
	timeout 20 stagectl wait t; echo "t ends with $? at ${EPOCHREALTIME/[.,]/}"
	cksum <$STAGE_DATA_PATH_D/00.bin
	find $STAGE_DATA_DIR/../.stage/tmp -mindepth 1
	EOS
	)
	job_wait_says "$id" "d is ready"
	wait_until 10 on n1 pgrep -x stage-worker
	killed=$(kill_at n1 "$(on n1 pgrep -x stage-worker)")
	job_done "$id" 10
	assert_match "$(job_output "$id")" 't: .*(killed|signal 9|SIGKILL)'
	assert_contains "$(job_output "$id")" "t ends with 1"
	within_ms_of "$killed" 2000 "the dataset has failed" "$(logged_ms n1 "$id" 'ds=t .*-> failed')"
	within_ms_of "$killed" 2000 "who waits is told" "$(told_ms "$id" "t ends with 1")"
	assert_contains "$(job_output "$id")" "$(cksum <"$pfs/data/flat/00.bin")"
	assert_lacks "$(job_output "$id")" .stage/tmp/
}

# Readers through mmap get SIGBUS and nothing else happens to them; who reads another image goes on.
readonly mapped_readers='
import mmap, os, sys, time
reads, told = os.pipe()
def reader(path):
    if os.fork():
        return
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
        os.write(told, b".")
        while True:
            m.madvise(mmap.MADV_DONTNEED)
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            sum(m[::4096])
            time.sleep(0.02)
for i in range(int(sys.argv[2])):
    reader(f"{sys.argv[1]}/00/{i % 100:03d}")
for i in range(int(sys.argv[2])):
    os.read(reads, 1)
print("begun", flush=True)
ends = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(int(sys.argv[2]))]
print("readers ended by", sorted(set(ends)), "at", time.time_ns() // 1000, flush=True)'

# Fails when a dataset stays ready as its server dies.
test_an_image_server_dies_under_64_mapped_readers() {
	local id pid killed

	need_fuse
	id=$(job_submit alice -w n1 -n1 \
		--stage-data="m=$data/many.zstd.sqsh,x=$data/tree.xz.sqsh,d=$data/flat" <<-EOS
	python3 -c '$mapped_readers' \$STAGE_DATA_PATH_M 64
	for i in {1..100}; do stagectl status m | grep -q failed && break; sleep 0.1; done
	ls \$STAGE_DATA_PATH_M/00 2>&1 | head -n 1
	stagectl status
	cat \$STAGE_DATA_PATH_X/sizes/* | wc -c
	cmp \$STAGE_DATA_PATH_D/00.bin /srv/pfs/data/flat/00.bin && echo "d is right"
	EOS
	)
	job_wait_says "$id" begun
	pid=$(worker_of n1 /srv/pfs/data/many.zstd.sqsh)
	killed=$(kill_at n1 "$pid")
	job_done "$id" 20
	# Some may just have been in open() or read(): that is exit status 1, of an exception.
	assert_match "$(job_output "$id")" 'readers ended by \[-7(, 1)?\]'
	within_ms_of "$killed" 1000 "the dataset has failed" "$(logged_ms n1 "$id" 'ds=m .*-> failed')"
	within_ms_of "$killed" 1000 "the last of 64 readers has its error" "$(told_ms "$id" "readers ended by")"
	assert_match "$(job_output "$id")" 'm +failed'
	assert_match "$(job_output "$id")" 'x +ready'
	assert_contains "$(job_output "$id")" "$(cat "$pfs"/data/tree/sizes/* | wc -c)"
	assert_contains "$(job_output "$id")" "d is right"
	assert_nodes_fine
}

# Where the image is mounted, and the path. Fails when a dataset stays ready as its server ends.
test_a_user_unmounts_his_image() {
	local id

	need_fuse
	id=$(job_submit alice -w n1 --stage-data="m=$data/many.zstd.sqsh,d=$data/flat" <<-'EOS'
	umount "$STAGE_DATA_PATH_M" && umount "$(awk -v d="/run/stage-data/$SLURM_JOB_ID/m/" 'index($5, d) == 1 { print $5 }' /proc/self/mountinfo)" && echo unmounted
	for i in {1..50}; do stagectl status m | grep -q failed && break; sleep 0.1; done
	stagectl status
	ls $STAGE_DATA_PATH_D >/dev/null && echo "d is there"
	EOS
	)
	job_done "$id"
	job_says "$id" unmounted || skip umount "umount(8) doesn't let users unmount"
	assert_match "$(job_output "$id")" 'm +failed'
	assert_contains "$(job_output "$id")" "d is there"
	wait_until 10 job_nodes_clean "$id"
	assert_nodes_fine
}

# Fails when the image server ends at the first error of its source.
test_a_source_that_vanishes_is_an_error_to_who_reads_it() {
	local id pid killed

	need_fuse
	gate_prepare
	on n1 squashfuse_ll -o allow_other,ro /srv/pfs/.gate.sqsh /srv/pfs/gate
	at_end "on n1 umount -l /srv/pfs/gate"
	site_conf <<<$'[source slow]\nMatch=/srv/pfs/gate/many.tar\nMaxRate=1M\n[source image]\nMatch=/srv/pfs/gate/*.sqsh'
	sed -i 's|^Match=/srv/pfs/\*\*|Match=/srv/pfs/data/**|' "$base/etc/stage-data/stage-data.conf"
	id=$(job_submit alice -w n1 --stage-wait=no \
		--stage-data="t=/srv/pfs/gate/many.tar::method=copy,m=/srv/pfs/gate/many.zstd.sqsh" <<-'EOS'
	stagectl wait -q m && echo begun
	stagectl wait t; echo "t ends with $? at ${EPOCHREALTIME/[.,]/}"
	cat $STAGE_DATA_PATH_M/*/* 2>&1 >/dev/null | head -n 1
	echo "m is read at ${EPOCHREALTIME/[.,]/}"
	stagectl status || true
	EOS
	)
	job_wait_says "$id" begun
	pid=$(on n1 pgrep -f '^squashfuse_ll .*gate')
	killed=$(kill_at n1 "$pid")
	job_done "$id" 15
	within_ms_of "$killed" 5000 "the dataset has failed" "$(told_ms "$id" "t ends with 1")"
	within_ms_of "$killed" 5000 "who reads the image is told" "$(told_ms "$id" "m is read")"
	assert_match "$(job_output "$id")" 't: .*many\.tar.*(not connected|abort|Input/output)'
	assert_contains "$(job_output "$id")" "t ends with 1"
	assert_match "$(job_output "$id")" 'Input/output error'
	assert_match "$(job_output "$id")" 'm +ready'
	assert_nodes_fine
}

# Fails when image servers are charged to the job, and the first to be killed.
test_memory_runs_out_by_the_jobs_own_doing() {
	local id

	need_cgroup
	# The image comes when the job's memory group is known, so that its server could be in it.
	id=$(job_submit alice -w n1 --mem=150 --stage-data="t=$data/many.tar" <<-'EOS'
	stagectl add m=/srv/pfs/data/many.zstd.sqsh && stagectl wait -q m
	python3 -c 'x = bytearray(400 << 20)' || echo "the hog is gone"
	cat $STAGE_DATA_PATH_T/*/* | wc -c
	cat $STAGE_DATA_DIR/m/*/* | wc -c
	stagectl status
	EOS
	)
	job_wait "$id"
	assert_contains "$(job_output "$id")" "the hog is gone"
	assert_eq 2 "$(job_output "$id" | grep -c "^$(cat "$pfs"/data/many/*/* | wc -c)$")" "readable datasets"
	assert_match "$(job_output "$id")" 'm +ready'
	wait_until 10 job_nodes_clean "$id"
	assert_nodes_fine
}

# The task takes what a slow writer was promised: they reach the job's limit together, in the
# writer's next page. Fails when writers have no oom_score_adj: then the task, which has most, is
# killed.
test_the_writer_and_the_task_run_out_of_memory_together() {
	local id

	need_cgroup
	[[ -e $pfs/data/big.bin ]] || head -c 200M /dev/urandom >"$pfs/data/big.bin"
	ln -f "$pfs/data/big.bin" "$pfs/gate/big.bin"
	at_end "rm -f '$pfs/gate/big.bin'"
	site_conf <<<$'[source slow]\nMatch=/srv/pfs/gate/big.bin\nMaxRate=10M'
	sed -i 's|^Match=/srv/pfs/\*\*|Match=/srv/pfs/data/**|' "$base/etc/stage-data/stage-data.conf"
	id=$(job_submit alice -w n1 -n1 --mem=500 --stage-wait=no --stage-data="t=/srv/pfs/gate/big.bin:shm" <<-'EOS'
	until stagectl status t | grep -q staging; do sleep 0.1; done
	python3 -c '
	import subprocess
	x = bytearray(b"x") * (400 << 20)
	print("the task has its memory", flush=True)
	print("t ends with", subprocess.run(["stagectl", "wait", "t"]).returncode, flush=True)
	print("the task has", x.count(b"x") >> 20)'
	echo "the task ended with $?"
	stagectl status t || true
	EOS
	)
	job_done "$id" 60
	assert_contains "$(job_output "$id")" "t ends with 1"
	assert_match "$(job_output "$id")" 't: the worker was killed by signal 9 .*out of memory perhaps; ask for more --mem'
	assert_contains "$(job_output "$id")" "the task has 400"
	assert_contains "$(job_output "$id")" "the task ended with 0"
	wait_until 10 job_nodes_clean "$id"
	assert_nodes_fine
}

# --- storage that never answers -------------------------------------------------------------------

# hang_on_n1 FILE: /srv/pfs/gate has this file alone, and its server answers until hang_now
hang_on_n1() {
	rm -f "$base/hang"
	install -m 0755 "$here/../lib/hanging-file" "$base/hanging-file"
	cp "$1" "$base/${1##*/}"
	on n1 "$base/hanging-file" "$base/${1##*/}" /srv/pfs/gate "$base/hang" >"$work/hanging" 2>&1 &
	at_end "hang_over; rm -f '$base/hang' '$base/hanging-file' '$base/${1##*/}'"
	wait_until 10 grep -q ready "$work/hanging"
}

hang_now() {
	touch "$base/hang"
}

hang_over() {
	on n1 pkill -f /hanging-file || true
	on n1 umount -l /srv/pfs/gate 2>/dev/null || true
}

# Our server can't be killed, as it waits for storage; nor can those who wait for our server. Nor is
# fusectl mounted, by which they are freed: the keeper has to reach it by itself. Fails when stuck
# readers aren't seen, or fusectl is looked for at its usual place alone.
test_an_image_on_storage_that_never_answers_does_not_drain_the_node() {
	local id

	need_fuse
	site_conf <<<$'[daemon]\nAbortAfter=1s'
	real_reaper
	on n1 umount /sys/fs/fuse/connections
	at_end "on n1 mount -t fusectl fusectl /sys/fs/fuse/connections"
	hang_on_n1 "$pfs/data/many.zstd.sqsh"
	pipe_make
	id=$(job_submit alice -w n1 --stage-data="m=/srv/pfs/gate/many.zstd.sqsh" \
		<<<"trap '' TERM; echo begun; $until_let_go; $hold_pipe; exec dd if=\$STAGE_DATA_PATH_M/00/000 of=/dev/null iflag=direct")
	job_wait_says "$id" begun
	hang_now
	let_go "$id"
	# Past the page cache: who waits for a page of it can be killed.
	wait_until 10 on n1 bash -c 'grep -q "State:.D" /proc/$(pgrep -x -u alice dd)/task/*/status'
	as alice scancel "$id"
	job_wait "$id" 25
	within_ms_of "$(kill_wait_over_ms n1 "$id")" 4000 "the stuck reader is gone" "$(pipe_end_ms)"
	wait_until 15 on ctl bash -c '[[ $(scontrol show node n1) == *State=IDLE* ]]'
	assert_nodes_fine
	job_run alice -w n1 --stage-data="d=$data/flat" <<<'ls $STAGE_DATA_PATH_D >/dev/null'
	hang_over
	wait_until 15 reaped "$id"
}

# Fails when stagingd itself opens the source.
test_an_archive_on_storage_that_never_answers_does_not_hold_up_the_job() {
	local id

	real_reaper
	hang_on_n1 "$pfs/data/many.tar"
	hang_now
	id=$(job_submit alice -w n1 --stage-wait=no --stage-data="t=/srv/pfs/gate/many.tar,d=$data/flat" <<-'EOS'
	stagectl wait -q d
	timeout 5 stagectl status >/dev/null; echo "status ends with $?"
	EOS
	)
	job_done "$id" 25
	assert_lacks "$(job_output "$id")" "with 124"
	wait_until 15 on ctl bash -c '[[ $(scontrol show node n1) == *State=IDLE* ]]'
	assert_nodes_fine
	hang_over
	wait_until 15 reaped "$id"
}

# --- Slurm and the node ---------------------------------------------------------------------------

# Fails when `stagectl add` asks Slurm.
test_slurmctld_and_munge_are_away_during_a_job() {
	local id

	gate_close n1
	id=$(job_submit alice -w n1 --stage-wait=no --stage-data="t=/srv/pfs/gate/many.tar,m=$data/many.zstd.sqsh" <<-'EOS'
	echo begun
	stagectl wait -q t && echo "$(ls $STAGE_DATA_PATH_T | wc -l) are there"
	stagectl add x=/srv/pfs/data/flat && stagectl wait -q x && echo "x too"
	EOS
	)
	job_wait_says "$id" begun
	on ctl bash -c 'kill $(cat /run/slurmctld.pid) $(cat /run/munged/munged.pid)
		while [[ -e /proc/$(cat /run/slurmctld.pid 2>/dev/null) ]] && pgrep -x slurmctld; do sleep 0.1; done' >/dev/null
	gate_open n1
	wait_until 20 grep -q "x too" "$pfs/home/alice/slurm-$id.out"
	assert_contains "$(cat "$pfs/home/alice/slurm-$id.out")" "20 are there"
	on ctl bash -c 'rm -f /run/munge/munge.socket.2; setpriv --reuid munge --regid munge --clear-groups munged \
		--num-threads 2 --key-file /run/munged/key --seed-file /run/munged/seed \
		--pid-file /run/munged/munged.pid --log-file /run/munged/log --socket /run/munge/munge.socket.2
		slurmctld </dev/null'
	wait_until 20 on ctl scontrol ping
	job_wait "$id" 40
	wait_until 20 job_nodes_clean "$id"
	wait_until 20 nodes_are_fine
}

# Fails when `clean` does not end a keeper that is alive.
test_slurmd_is_gone_for_good() {
	local id

	id=$(job_submit alice -w n1 --stage-data="$items" <<<"echo begun; $until_let_go")
	job_wait_says "$id" begun
	"$cluster" slurmd-kill9 n1
	let_go "$id"
	wait_until 10 eval "! on n1 pgrep -f '^slurmstepd: .$id.batch'"
	on n1 "$(libexec)/stage-keeper" clean --job "$id"
	# The keeper may have begun by itself, and then frees behind what the clean-up found taken
	# away.
	wait_until 10 eval '[[ -z $(on n1 find /run/stage-data /srv/local -name "$id.*" -o -name "$id" -o -name "stage-data-$id*") ]]'
	wait_until 10 eval "! on n1 pgrep -x 'stagingd|stage-worker|stage-keeper|stage-manager'"
	"$cluster" slurmd-start n1
	job_wait "$id"
	wait_until 20 nodes_are_fine
}

# Nothing of this job's stands on n1, and nothing of ours runs there.
n1_is_rid_of() {
	[[ -z $(on n1 find /run/stage-data /srv/local -name "$1" -o -name "$1.*" -o -name "stage-data-$1*") ]] &&
		! on n1 pgrep -x 'stagingd|stage-worker|stage-keeper|stage-manager|stage-helper'
}

readonly test_the_end_of_a_job_is_seen_without_slurmd_seconds=300
# Nobody calls `clean` here: stagingd asks Slurm. The job is not over as long as its script runs,
# however long there is no slurmd. The partition is hidden, of which squeue shows users nothing
# unless it is asked to. Fails where nobody asks, where the keeper is not told, where a job in any
# state is over, or none, and without `squeue -a`.
test_the_end_of_a_job_is_seen_without_slurmd() {
	local id ended sum conf=$base/etc/slurm/slurm.conf

	sum=$(cat "$pfs"/data/many/*/* | cksum)
	# else Slurm gives up the node, and the job with it, after 20 s
	sed -i 's/^SlurmdTimeout=.*/SlurmdTimeout=600/' "$conf"
	on ctl scontrol reconfigure
	at_end "sed -i 's/^SlurmdTimeout=.*/SlurmdTimeout=20/' '$conf'; on ctl scontrol reconfigure"
	on ctl scontrol update PartitionName=other Hidden=YES
	at_end "on ctl scontrol update PartitionName=other Hidden=NO"
	id=$(job_submit alice -w n1 -p other --stage-data="$items" <<-EOS
	echo begun; $until_let_go
	cat \$STAGE_DATA_PATH_T/*/* | cksum; cat \$STAGE_DATA_PATH_M/*/* | cksum; ls \$STAGE_DATA_PATH_D | wc -l; echo read
	EOS
	)
	job_wait_says "$id" begun
	wait_until 10 eval '[[ -n $(on n1 bash -c "find /proc/\$(pgrep -x stagingd)/fd -lname \"*pidfd*\"") ]]'
	"$cluster" slurmd-kill9 n1
	at_end "on n1 pgrep -x slurmd >/dev/null || '$cluster' slurmd-start n1"
	sleep 45 # two looks
	let_go "$id"
	wait_until 20 job_says "$id" read
	assert_eq "begun $sum $sum 10 read" "$(job_output "$id" | paste -sd ' ')" "what the job read"
	ended=$(now_ms)
	wait_until 120 n1_is_rid_of "$id"
	note "taken away $((($(now_ms) - ended) / 1000)) s after the job's end"
	assert job_is "$id" COMPLETING
	"$cluster" slurmd-start n1
	job_done "$id"
	job_run alice -w n1 --stage-data="$items" <<<'ls $STAGE_DATA_PATH_T' >/dev/null
	assert_nodes_fine
}

# staging_begun NODE ID: has its worker written a file?
staging_begun() {
	on "$1" find "/run/stage-data/$2/t/.stage/tmp" -type f -print -quit 2>/dev/null | grep -q .
}

# keepers_of ID: the processes that serve the job on the three nodes
keepers_of() {
	local node

	for node in n1 n2 n3; do
		on $node sed -n 's/^keeper=//p' "/run/stage-data/$1/state"
	done
}

# The controller is reconfigured 50 times, and each slurmd is restarted once. The sources hang until
# that is over, however long it takes: some releases need a second for each time.
readonly test_reconfigured_and_restarted_while_staging_seconds=300
# Fails when the reaper of slurmd's start ends keepers that are alive.
test_reconfigured_and_restarted_while_staging() {
	local id i node keepers

	site_conf <<<$'[source slow]\nMatch=/srv/pfs/gate/**\nMaxRate=600K'
	sed -i 's|^Match=/srv/pfs/\*\*|Match=/srv/pfs/data/**|' "$base/etc/stage-data/stage-data.conf"
	for node in n1 n2 n3; do
		gate_close $node
	done
	id=$(job_submit alice -N3 --stage-data="t=/srv/pfs/gate/many.tar" \
		<<<"srun -N3 bash -c 'cat \$STAGE_DATA_PATH_T/*/* | cksum'; echo all is there; $until_let_go")
	for node in n1 n2 n3; do
		gate_open $node
		wait_until 20 staging_begun $node "$id"
		on $node kill -STOP "$(cat "$work/gate.$node")"
	done
	keepers=$(keepers_of "$id")
	for ((i = 0; i < 50; i++)); do
		on ctl scontrol reconfigure
		[[ $i != 25 ]] || for node in n1 n2 n3; do
			"$cluster" slurmd-restart $node &
		done
	done
	wait
	for node in n1 n2 n3; do
		assert on $node pgrep -x stage-worker
		gate_open $node
	done
	# An srun that asks for its step while slurmctld 24.11 is reconfigured asks again after a
	# minute.
	job_wait_says "$id" "all is there" 110
	# A step would start another keeper, which stages again.
	assert_eq "$keepers" "$(keepers_of "$id")" "keepers"
	let_go "$id"
	job_done "$id"
	assert_eq 3 "$(job_output "$id" | grep -c "^$(cat "$pfs"/data/many/*/* | cksum)$")" "right copies"
	assert_nodes_fine
}

# Fails when the epilog does not clean up.
test_suspended_resumed_and_cancelled_while_suspended() {
	local id n

	id=$(job_submit alice -w n1 --stage-data="$items" <<<"$reader")
	job_wait_says "$id" "read 2"
	on ctl scontrol suspend "$id"
	wait_until 10 job_is "$id" SUSPENDED
	n=$(job_output "$id" | grep -c ^read)
	sleep 0.5
	on ctl scontrol resume "$id"
	job_wait_says "$id" "read $((n + 3))"
	on ctl scontrol suspend "$id"
	wait_until 10 job_is "$id" SUSPENDED
	as alice scancel "$id"
	ends_clean "$id"
	assert_lacks "$(job_output "$id")" lost
}

# lane_of_suspended ID TIMES: the job is suspended while it reads, goes on, and is requeued while it
# reads
lane_of_suspended() {
	local i n

	for ((i = 0; i < $2; i++)); do
		job_wait_says "$1" "run $i" 60
		n=$(n_read "$1")
		wait_until 60 has_read "$1" $((n + 1))
		sleep "0.$(printf %03d $((RANDOM % 500)))"
		on ctl scontrol suspend "$1"
		wait_until 20 job_is "$1" SUSPENDED
		n=$(n_read "$1")
		on ctl scontrol resume "$1"
		wait_until 60 has_read "$1" $((n + 2))
		on ctl scontrol requeue "$1"
		wait_until 40 job_is "$1" PENDING
		wait_until 10 job_nodes_clean "$1"
		on ctl scontrol update "jobid=$1" starttime=now
	done
	job_wait_says "$1" "run $2" 60
}

# n_read ID: how often the job has read its data so far
n_read() {
	job_output "$1" | awk '/^read/ { n++ } END { print n + 0 }'
}

# has_read ID N
has_read() {
	(($(n_read "$1") >= $2))
}

readonly test_suspended_and_requeued_20_times_seconds=600
# A job on each node at once, 7 times each, at moments of their own. Fails when the epilog does not
# clean up.
test_suspended_and_requeued_20_times() {
	local node id status=0 pids=() ids=()

	for node in n1 n2 n3; do
		id=$(job_submit alice -w $node -n1 --requeue --open-mode=append --stage-data="$items" \
			<<<'echo "run ${SLURM_RESTART_COUNT:-0}"'$'\n'"$reader")
		ids+=("$id")
		lane_of_suspended "$id" 7 >"$work/suspended.$id" 2>&1 &
		pids+=($!)
	done
	for id in "${pids[@]}"; do
		wait "$id" || status=$?
	done
	cat "$work"/suspended.*
	assert_eq 0 "$status" "status of a lane"
	for id in "${ids[@]}"; do
		as alice scancel "$id"
		job_wait "$id" 40
		assert_lacks "$(job_output "$id")" lost
		assert_eq 8 "$(job_output "$id" | grep -c '^run [0-7]$')" "runs of job $id"
		wait_until 10 job_nodes_clean "$id"
	done
	assert_nodes_fine
}

# Fails when the epilog does not clean up.
test_preempted_and_requeued() {
	local id other conf=$base/etc/slurm/slurm.conf

	cp "$conf" "$work/slurm.conf"
	at_end "cp '$work/slurm.conf' '$conf'; \"$cluster\" restart --prolog-flags Contain"
	sed -i 's/^PartitionName=other.*/& PriorityTier=10/; $a PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE' "$conf"
	on ctl bash -c 'kill $(cat /run/slurmctld.pid); while pgrep -x slurmctld >/dev/null; do sleep 0.1; done; slurmctld </dev/null'
	wait_until 20 on ctl scontrol reconfigure
	id=$(job_submit alice -N3 -n6 --requeue --open-mode=append --stage-data="$items" <<-'EOS'
	echo "run ${SLURM_RESTART_COUNT:-0}: $(ls $STAGE_DATA_PATH_T | wc -l)"
	[[ -n ${SLURM_RESTART_COUNT:-} ]] || sleep 60
	EOS
	)
	job_wait_says "$id" "run 0: 20"
	other=$(job_submit bob -p other -w n1 -n2 --stage-data="d=$data/flat" <<<'ls $STAGE_DATA_PATH_D | wc -l; sleep 1')
	job_done "$other" 60
	assert_contains "$(job_output "$other")" 10
	on ctl scontrol update "jobid=$id" starttime=now 2>/dev/null || true
	job_done "$id" 60
	assert_contains "$(job_output "$id")" "run 1: 20"
	wait_until 10 job_nodes_clean "$id"
	assert_nodes_fine
}

# As after a reset: the record is of another boot, what it names on disk stands there yet.
# Fails when slurmd's start does not call the reaper.
test_the_node_comes_back_from_a_reset() {
	local id

	real_reaper
	id=$(job_submit alice -w n1 --stage-data="$items" <<<'echo begun; sleep 60')
	job_wait_says "$id" begun
	on n1 bash -c 'rm -rf /tmp/before && cp -a /srv/local/stage-data-$1 /tmp/before && cp /run/stage-data/$1/state /tmp/state' - "$id"
	as alice scancel "$id"
	ends_clean "$id"
	on n1 bash -c 'mkdir -m 711 /run/stage-data/$1 && mv /tmp/before /srv/local/stage-data-$1
		sed "s/^boot=..../boot=0000/" /tmp/state >/run/stage-data/$1/state; rm /tmp/state' - "$id"
	"$cluster" slurmd-restart n1
	wait_until 5 job_nodes_clean "$id"
	wait_until 5 eval '[[ -z $(on n1 find /srv/local -name "stage-data-*") ]]'
	wait_until 20 nodes_are_fine
}

# Real programs are replaced as by a package's upgrade: what runs goes on with what it was started
# from. Fails when the keeper opens the worker by its path again.
test_upgraded_while_a_job_runs() {
	local id name

	id=$(job_submit alice -w n1 --stage-data="t=$data/many.tar,m=$data/many.zstd.sqsh" <<<"echo begun; $until_let_go"'
	stagectl add x=/srv/pfs/data/flat && stagectl wait -q x && ls $STAGE_DATA_DIR/x | wc -l
	cat $STAGE_DATA_PATH_T/*/* $STAGE_DATA_PATH_M/*/* | wc -c')
	job_wait_says "$id" begun
	for name in stagingd stage-worker; do
		replace_on_n1 $name </dev/null
	done
	let_go "$id"
	job_done "$id"
	assert_eq "10 8126000" "$(job_output "$id" | tail -n 2 | paste -sd' ')" "files added, bytes read"
	wait_until 10 job_nodes_clean "$id"
}

# --- the end of a job that goes wrong -------------------------------------------------------------

# The hook gives up, the node stays in service, the reaper finishes. Without the hook's deadline
# the epilog waits for ever.
# Fails when the hook waits for the clean-up without an end.
test_the_clean_up_of_the_epilog_hangs_and_is_killed() {
	local id

	real_reaper
	keeper_is <<<$'[[ $1 != clean ]] || exec sleep 60.25\nexec "$REAL" "$@"'
	# The keeper has been stopped, so it is the reaper's.
	id=$(job_submit alice -w n1 --stage-data="$items" <<<"echo begun; $until_let_go")
	job_wait_says "$id" begun
	forgive_crashes n1
	on n1 pkill -KILL -x stage-keeper.re
	let_go "$id"
	job_done "$id" 30
	wait_until 15 on ctl bash -c '[[ $(scontrol show node n1) == *State=IDLE* ]]'
	assert_nodes_fine
	assert on n1 test -e "/run/stage-data/$id"
	on n1 pkill -KILL -fx 'sleep 60.25'
	wait_until 10 reaped "$id"
	assert_eq "" "$(on n1 find /srv/local -name "stage-data-*")" "what is left on the disk"
}

readonly spoil_tree='
import os, sys
def deep(top, n):
    os.chdir(top)
    for i in range(n):
        os.mkdir("d"); os.chdir("d")
    open("f", "w").close()
for top, n in zip(sys.argv[1::2], sys.argv[2::2]):
    deep(top, int(n))
    os.makedirs(f"{top}/closed/inner")
    open(f"{top}/closed/inner/f", "w").close()
    for name in "inner/f", "inner", "":
        os.chmod(f"{top}/closed/{name}", 0)
    os.symlink("/etc", f"{top}/link")
    os.chmod(top, 0)'

# Fails when a directory that its mode closes is not opened up.
test_the_user_has_made_his_data_hard_to_remove() {
	local id t0

	id=$(job_submit alice -w n1 --mem=1000 --stage-data="t=$data/many.tar,d=$data/flat:ssd" <<-EOS
	python3 -c '$spoil_tree' \$(readlink -f \$STAGE_DATA_PATH_T) 100000 \$(readlink -f \$STAGE_DATA_PATH_D) 2000 &&
	chmod 0 \$STAGE_DATA_DIR && echo spoilt
	EOS
	)
	job_done "$id"
	assert_contains "$(job_output "$id")" spoilt
	t0=$(now_ms)
	wait_until 10 job_nodes_clean "$id"
	wait_until 90 nothing_aside
	echo "all is removed after $(($(now_ms) - t0)) ms" | tee -a "${STAGE_TEST_NUMBERS:-/dev/null}"
	assert on n1 test -e /etc/hosts
}

# --- limits ---------------------------------------------------------------------------------------

# Fails when what is free is asked of /dev/shm in place of the job's own tmpfs.
test_dev_shm_is_full_of_somebody_elses() {
	on n1 bash -c 'mount -o remount,size=8m /dev/shm; head -c 9M /dev/zero >/dev/shm/full 2>/dev/null || true'
	at_end "on n1 bash -c 'rm -f /dev/shm/full; mount -o remount,size=2g /dev/shm'"
	job_run alice -w n1 --stage-data="t=$data/many.tar:shm" <<<'ls $STAGE_DATA_PATH_T/00/000'
}

# Fails when the keeper goes on without a record.
test_the_run_directory_is_full() {
	on n1 mkdir -p /run/stage-data
	on n1 mount -t tmpfs -o size=4k,mode=0755 tmpfs /run/stage-data
	at_end "on n1 umount /run/stage-data"
	on n1 bash -c 'head -c 4096 /dev/zero >/run/stage-data/.full'
	broken_on_n1 'make /run/stage-data/[0-9]+: No space left'
}

# The daemon's account of the job refuses them, or the worker's own of the dataset. A plain tar is
# mounted then, unless it is to be extracted. Fails when MaxFiles= is read to another limit's place.
test_more_files_than_the_site_allows() {
	local id

	site_conf <<<$'[limits]\nMaxFiles=100'
	id=$(job_submit alice -w n1 --stage-wait=no --stage-data="t=$data/many.tar::method=extract,d=$data/flat" \
		<<<'stagectl wait -q t || echo "t fails"; stagectl wait -q d && echo "d is ready"')
	job_done "$id"
	assert_match "$(job_output "$id")" 't: .*(more files than MaxFiles=100 of this site|more than the 100 files allowed)'
	assert_contains "$(job_output "$id")" "t fails"
	assert_contains "$(job_output "$id")" "d is ready"
	id=$(job_submit alice -w n1 --stage-data="m=$data/many.tar" <<<'stagectl status')
	job_done "$id"
	assert_match "$(job_output "$id")" 'm +ready +mount '
}

# Each limit takes the keeper or what it starts; the job fails with a sentence, or does without.
# Fails when a task that is not begun doesn't say why.
test_the_keeper_has_few_descriptors() {
	local n id

	forgive_crashes n1
	for n in 8 14; do
		keeper_is <<<"ulimit -n $n; exec \"\$REAL\" \"\$@\""
		id=$(job_submit alice -w n1 --stage-data="t=$data/flat,m=$data/many.zstd.sqsh" <<<'echo begun')
		job_wait "$id" 30
		[[ $(job_state "$id") == COMPLETED ]] || assert_one_sentence "$(job_output "$id")"
		run_at_end
		at_end_commands=()
		forgive_crashes n1
		wait_until 10 job_nodes_clean "$id"
		assert_nodes_fine
	done
}

# Fails when what the manager, the daemon and the workers may start is left as slurmd was given it:
# others of nobody's count, too, those of other jobs among them.
test_a_limit_of_processes_that_slurmd_has_is_not_ours() {
	local id

	keeper_is <<<$'ulimit -S -u 1; exec "$REAL" "$@"'
	id=$(job_submit alice -w n1 --stage-data="t=$data/flat,m=$data/many.zstd.sqsh" <<<'echo begun')
	job_done "$id" 30
	assert_contains "$(job_output "$id")" begun
	wait_until 10 job_nodes_clean "$id"
	assert_nodes_fine
}

# Fails when a worker that could not be made is tried once, or for ever.
test_the_group_of_the_keeper_is_full() {
	local id again failed

	on n1 test -e /sys/fs/cgroup/pids/cgroup.procs || skip cgroup "no pids controller v1"
	on n1 mkdir /sys/fs/cgroup/pids/few
	at_end "wait_until 10 on n1 rmdir /sys/fs/cgroup/pids/few"
	on n1 bash -c 'echo 3 >/sys/fs/cgroup/pids/few/pids.max'    # keeper, manager, stagingd
	keeper_is <<<$'[[ $1 != run ]] || echo $$ >/sys/fs/cgroup/pids/few/cgroup.procs; exec "$REAL" "$@"'
	id=$(job_submit alice -w n1 --stage-data="t=$data/flat" <<<'echo begun')
	job_failed "$id" 30
	assert_match "$(job_output "$id")" 't: the worker could not be started: twice no more processes .*pids\.max'
	again=$(logged_ms n1 "$id" 'no more processes can be created: trying again')
	failed=$(logged_ms n1 "$id" 'ds=t .*-> failed')
	within_ms_of "$again" 2000 "the dataset has failed" "$failed"
	wait_until 10 job_nodes_clean "$id"
	assert_nodes_fine
}

# --- surroundings ---------------------------------------------------------------------------------

# jump SECONDS: the time of day on n1, for our programs
jump() {
	on n1 python3 -c 'import struct, sys; open("/run/clock-jump", "r+b").write(struct.pack("<q", int(sys.argv[1])))' "$1"
}

# Fails when common/util/clock.c asks for CLOCK_REALTIME.
test_the_clock_jumps() {
	local id days

	gcc -shared -fPIC -D_GNU_SOURCE -O2 -o "$base/clock-jump.so" "$here/../lib/clock-jump.c"
	audit_own "$base/clock-jump.so" /run/clock-jump
	on n1 bash -c 'head -c 8 /dev/zero >/run/clock-jump'
	echo "$base/clock-jump.so" >"$base/etc/ld.so.preload"
	at_end "rm -f '$base/etc/ld.so.preload' '$base/clock-jump.so'; on n1 rm -f /run/clock-jump"
	site_conf <<<$'[source slow]\nMatch=/srv/pfs/gate/**\nMaxRate=4M'
	sed -i 's|^Match=/srv/pfs/\*\*|Match=/srv/pfs/data/**|' "$base/etc/stage-data/stage-data.conf"
	for days in 1 -1; do
		id=$(job_submit alice -w n1 --stage-data="t=/srv/pfs/gate/many.tar::stall=20s+timeout=50s,m=$data/many.zstd.sqsh" \
			<<<'date +%s; stagectl status; cat $STAGE_DATA_PATH_T/*/* $STAGE_DATA_PATH_M/*/* | wc -c; sleep 1')
		wait_until 10 on n1 pgrep -x stage-worker
		jump $((days * 86400))
		job_wait_says "$id" 8126000
		jump $((days * -43200))
		job_done "$id"
		wait_until 10 job_nodes_clean "$id"
		assert_match "$(tail -n 40 "$base/node/n1/log/stage-data.log")" \
			"$(date -u -d "now $((days * 86400)) seconds" +%Y-%m-%dT)"
		jump 0
	done
	assert_not on n1 test -e /run/stage-data/.breaker
}

# Fails when the keeper opens its log without O_NONBLOCK.
test_nobody_reads_the_log() {
	local id

	# shellcheck disable=SC2016
	on n1 bash -c 'mkfifo /run/fifo.log
		sleep 1000 <>/run/fifo.log &
		echo $! >/run/log.pids
		python3 -c "
import os, socket, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(\"/dev/log\")
os.chmod(\"/dev/log\", 0o666)
time.sleep(1000)" &
		echo $! >>/run/log.pids' >/dev/null 2>&1
	at_end "on n1 bash -c 'kill \$(cat /run/log.pids); rm -f /run/fifo.log /dev/log /run/log.pids'"
	wait_until 5 on n1 test -S /dev/log
	on n1 python3 -c '
import contextlib, os, socket
fd = os.open("/run/fifo.log", os.O_WRONLY | os.O_NONBLOCK)
with contextlib.suppress(BlockingIOError):
    while True:
        os.write(fd, b"x" * 4096)
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.setblocking(False)
with contextlib.suppress(BlockingIOError):
    s.connect("/dev/log")
    while True:
        s.send(b"x")'
	node_conf n1 <<<$'[daemon]\nLogFile=/run/fifo.log'
	for _ in {1..3}; do
		id=$(job_submit alice -w n1 --stage-data="t=$data/bad/half.tar::onfail=ignore,m=$data/many.zstd.sqsh,d=$data/flat" \
			<<<'ls $STAGE_DATA_PATH_M $STAGE_DATA_PATH_D >/dev/null')
		job_done "$id" 20
	done
	wait_until 10 job_nodes_clean "$id"
}

# Fails when a line that can't be written ends stagingd.
test_the_disk_of_the_log_is_full() {
	audit_own /run/full.log
	at_end "on n1 rm -f /run/full.log"
	on n1 mknod -m 0600 /run/full.log c 1 7 # as /dev/full
	node_conf n1 <<<$'[daemon]\nLogFile=/run/full.log'
	job_run alice -w n1 --stage-data="t=$data/many.tar,m=$data/many.zstd.sqsh" <<<'ls $STAGE_DATA_PATH_T/00/000 $STAGE_DATA_PATH_M/00/000'
}

# on_kernel VERSION: a job whose keeper, with all that it starts, has no call that came later
on_kernel() {
	local id

	gcc -D_GNU_SOURCE -O2 -o "$base/old-kernel" "$here/../lib/old-kernel.c"
	at_end "rm -f '$base/old-kernel'"
	keeper_is <<-EOS
	exec "$base/old-kernel" $1 "\$REAL" "\$@"
	EOS
	forgive_crashes n1
	id=$(job_submit alice -w n1 \
		--stage-data="t=$data/tree.tar.gz,m=$data/many.zstd.sqsh,d=$data/many:ssd,s=$data/many::subdir=00" \
		<<<'cmp $STAGE_DATA_PATH_S/000 /srv/pfs/data/many/00/000 || exit; cat $STAGE_DATA_PATH_M/*/* $STAGE_DATA_PATH_D/*/* | wc -c; ls $STAGE_DATA_PATH_T/sizes | wc -l; grep "$SLURM_JOB_ID/m/.* fuse" /proc/self/mounts')
	job_done "$id"
	assert_contains "$(job_output "$id")" 8126000
	assert_match "$(job_output "$id")" "$id/m/.* fuse"
	wait_until 10 job_nodes_clean "$id"
}

# Fails when openat2 has no way around it.
test_the_kernel_of_rhel_8() { on_kernel 4.18; }
# Fails when a later call is made: fchmodat2 in stage-helper.
test_the_kernel_of_rhel_9() { on_kernel 5.14; }

# --- what fails inside of the keeper --------------------------------------------------------------

# inject_on_all WHAT COUNT: tests/lib/inject on three nodes at once. A manager is traced from its
# first call on.
inject_on_all() {
	local i status=0 pids=() seed=${STAGE_TEST_SEED:-$RANDOM}

	[[ $1 == record || $1 == memory ]] || ((!${STAGE_TEST_AUDIT:-0})) || skip audit "it fails calls by strace, which can't be under strace"
	install -m 0755 "$here/../lib/inject" "$base/inject"
	at_end "rm -f '$base/inject'"
	if [[ $1 == manager* ]]; then
		gcc -shared -fPIC -D_GNU_SOURCE -O2 -o "$base/stop-manager.so" "$here/../lib/stop-manager.c"
		echo "$base/stop-manager.so" >"$base/etc/ld.so.preload"
		at_end "rm -f '$base/etc/ld.so.preload' '$base/stop-manager.so'"
	fi
	for i in 0 1 2; do
		on n$((i + 1)) "$base/inject" "$prefix" "$1" --part $i/3 --most "$2" --seed "$seed" >"$work/inject.$i" 2>&1 &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" || status=$?
	done
	echo "seed $seed"
	cat "$work"/inject.? | tee -a "${STAGE_TEST_NUMBERS:-/dev/null}"
	for i in 1 2 3; do
		on n$i bash -c 'rm -f /tmp/inject.* /run/inject.stop'
	done
	assert_eq 0 "$status" "status of tests/lib/inject"
}

# n_calls N COUNT: on each node so many, chosen by the seed; where STAGE_TEST_TURN does not have the
# N-th two
n_calls() {
	if in_turn "$1"; then echo "${STAGE_TEST_CALLS:-$2}"; else echo "${STAGE_TEST_CALLS:-2}"; fi
}

readonly test_each_call_of_a_keeper_fails_once_seconds=3000
readonly test_each_call_of_a_manager_fails_once_seconds=3000 test_each_call_of_a_clean_ups_manager_fails_once_seconds=3000
readonly test_each_call_of_a_clean_up_fails_once_seconds=3000 test_memory_is_refused_once_to_each_program_seconds=3000
# Fails when a keeper that can't set the job up crashes.
test_each_call_of_a_keeper_fails_once() { inject_on_all keeper "$(n_calls 0 6)"; }
# Fails when a manager that can't set the job up crashes.
test_each_call_of_a_manager_fails_once() { inject_on_all manager "$(n_calls 1 6)"; }
# Fails when the keeper waits for a child that was never let begin.
test_a_child_of_the_keeper_is_not_let_begin() { inject_on_all go 20; }
# Fails when the keeper crashes because a child of its has failed.
test_memory_is_refused_once_to_each_program() { inject_on_all memory "$(n_calls 2 5)"; }
# Fails when the reaper does not go through the jobs.
test_each_call_of_a_clean_up_fails_once() { inject_on_all clean "$(n_calls 3 5)"; }
# The same.
test_each_call_of_a_clean_ups_manager_fails_once() { inject_on_all manager-clean "$(n_calls 4 5)"; }
# Fails when a pid is signalled without a look at its start.
test_the_record_is_damaged_or_names_others() { inject_on_all record 20; }

# --- off, and contained ---------------------------------------------------------------------------

# Jobs of bob's on n1 that have nothing to do with us, until load_end
load_begin() {
	rm -f "$work/load.stop"
	(
		while [[ ! -e $work/load.stop ]]; do
			as_on bob n1 srun -Q -w n1 -n1 --mem=50 true || echo "failed with $?"
			echo job
		done
	) >"$work/load" 2>&1 &
	load_pid=$!
	at_end "touch '$work/load.stop'; wait $load_pid" # where the test fails before load_end
}

load_end() {
	touch "$work/load.stop"
	wait $load_pid
	echo "$(grep -c '^job' "$work/load") jobs of others"
	assert_not grep -v '^job$' "$work/load"
	(($(grep -c '^job' "$work/load") > 0)) || fail "no load"
	assert_nodes_fine
}

# refused_on_n1 REGEX: a job with the option fails there, with one sentence
refused_on_n1() {
	local id

	id=$(job_submit alice -w n1 -n1 --mem=100 --stage-data="d=$data/flat" <<<'echo begun')
	job_failed "$id" 30
	assert_match "$(job_output "$id")" "$1"
	assert_one_sentence "$(job_output "$id")"
}

# Fails when the breaker allows 30.
test_three_crashes_of_keepers_under_load_turn_staging_off() {
	local i id

	load_begin
	for i in 1 2 3; do
		id=$(job_submit alice -w n1 -n1 --mem=100 --stage-data="d=$data/flat" <<<"echo begun; $until_let_go")
		job_wait_says "$id" begun
		on n1 pkill -KILL -x stage-keeper
		let_go "$id"
		job_done "$id"
		wait_until 10 job_nodes_clean "$id"
	done
	forgive_crashes n1
	at_end "on n1 rm -f /run/stage-data/.breaker"
	assert on n1 test -e /run/stage-data/.breaker
	refused_on_n1 'off on this node after several crashes'
	job_run alice -w n2 --stage-data="d=$data/flat" <<<'ls $STAGE_DATA_PATH_D >/dev/null'
	load_end
}

# Who submits again and again: a line for each, when it began, when it was answered, and by what
readonly submit_all_the_time='
while [[ ! -e $1 ]]; do
	t0=${EPOCHREALTIME/[.,]/}
	answer=$(sbatch --parsable --hold -n1 --mem=100 --stage-data=d=/srv/pfs/data/flat --wrap=true 2>&1)
	echo "$((t0 / 1000)) $((${EPOCHREALTIME/[.,]/} / 1000)) ${answer//$'"'\\n'"'/ }"
done'

# The file gets its name when all of it is there, and that time is its ctime. Who begins later is
# refused. Fails when the file `disabled` is not looked at.
test_switched_off_under_load_within_a_second() {
	local off began answered answer first= n=0 submitting stop=/srv/pfs/home/alice/off.stop

	load_begin
	job_run alice -w n1 -n1 --mem=100 --stage-data="d=$data/flat" <<<'ls $STAGE_DATA_PATH_D >/dev/null'
	as alice bash -c "$submit_all_the_time" - $stop >"$work/submitted" &
	submitting=$!
	at_end "rm -f '$pfs/home/alice/off.stop'"
	wait_until 20 grep -qE '^[0-9]+ [0-9]+ [0-9]+ *$' "$work/submitted"
	echo "closed for today" >"$base/etc/stage-data/disabled.new"
	mv "$base/etc/stage-data/disabled.new" "$base/etc/stage-data/disabled"
	off=$(stat -c %.3Z "$base/etc/stage-data/disabled" | tr -d .)
	wait_until 20 grep -q "closed for today" "$work/submitted"
	touch "$pfs/home/alice/off.stop"
	wait $submitting
	while read -r began answered answer; do
		if [[ $answer != *"closed for today"* ]]; then
			echo "${answer%%[!0-9]*}" >>"$work/jobs"
			n=$((n + 1))
			((began <= off)) || fail "taken, though it began $((began - off)) ms after the file was there"
			continue
		fi
		[[ -n $first ]] || first=$answered
	done <"$work/submitted"
	echo "$n were taken before"
	within_ms_of "$off" 1000 "the first is refused" "$first"
	as alice scancel --state=PENDING --user alice
	rm "$base/etc/stage-data/disabled"
	# and on a node alone, for who was let in at the login node
	node_conf n1 <<<$'[daemon]\nEnabled=no'
	refused_on_n1 'off on this node'
	load_end
}

# A job has two hooks that wait for a keeper, the prolog's and the first step's. How long is between
# what they have started and Slurm's log; they end it then, having found no directory of the job's.
# Fails when the hook waits for the keeper without an end, or three times as long as it says.
test_the_keeper_hangs_under_load() {
	local id began gave_up n=0

	audit_own /var/log/keeper.begun
	replace_on_n1 stage-keeper <<<$'#!/bin/bash\necho "${EPOCHREALTIME/[.,]/}" >>/var/log/keeper.begun\nexec sleep 120.75'
	at_end "on n1 pkill -fx 'sleep 120.75' || true; on n1 rm -f /var/log/keeper.begun"
	load_begin
	refused_on_n1 'could not start on n1: stage-keeper is not running'
	load_end
	id=$(tail -n 1 "$work/jobs")
	while read -r began gave_up; do
		within_ms_of $((began / 1000)) 700 "the hook has given up" "$gave_up"
		n=$((n + 1))
	done < <(paste -d' ' "$base/node/n1/log/keeper.begun" <(gave_up_ms "$id"))
	assert_eq 2 "$n" "hooks that gave up"
	assert_not on n1 pgrep -fx 'sleep 120.75'
}

# gave_up_ms ID: when the hooks of the job said so in slurmd's log, a line each
gave_up_ms() {
	sed -nE "s/^\\[([^]]+)\\] .*job=$1: stage-keeper has not answered.*/\\1/p" "$base/node/n1/log/slurmd.log" |
		while read -r at; do date -d "$at" +%s%3N; done
}
