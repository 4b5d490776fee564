# A job may end in any way and at any moment. After 10 seconds nothing is left, the data can be
# read until the last task has ended, and no node is drained. The runner checks what is left.

# ends_clean ID: the job ends by itself and its nodes are clean in time
ends_clean() {
	job_wait "$1" 40
	wait_until 10 job_nodes_clean "$1"
	assert_nodes_fine
}

readonly items="t=/srv/pfs/data/many.tar,m=/srv/pfs/data/many.zstd.sqsh,d=/srv/pfs/data/flat:ssd"

test_after_a_normal_end() {
	local id

	id=$(job_submit alice -N3 --stage-data="$items" <<<'srun -N3 ls $STAGE_DATA_PATH_T $STAGE_DATA_PATH_M')
	job_done "$id"
	ends_clean "$id"
}

test_after_a_failing_script() {
	local id

	id=$(job_submit alice -N2 --stage-data="$items" <<<'exit 3')
	ends_clean "$id"
	assert_eq "FAILED 3:0" "$(job_state "$id") $(job_exit "$id")" "end"
}

test_cancelled_right_after_submission() {
	local id delay

	for delay in 0 0.1 0.2 0.3 0.4 0.5 0.6 0.8; do
		id=$(job_submit alice -N3 --stage-data="$items" <<<'sleep 30')
		sleep $delay
		as alice scancel "$id"
		ends_clean "$id"
	done
}

# cancelled_while_staging SCANCEL-OPTION...
cancelled_while_staging() {
	local id

	gate_close n1
	id=$(job_submit alice -N2 -w n1,n2 --stage-data="t=/srv/pfs/gate/many.tar" <<<'echo begun')
	wait_until 20 on n1 pgrep -x stage-worker
	as alice scancel "$@" "$id"
	ends_clean "$id"
	assert_lacks "$(job_output "$id")" begun
}

test_cancelled_while_staging() { cancelled_while_staging; }
test_killed_while_staging() { cancelled_while_staging -s KILL; }

test_cancelled_while_probing_a_hung_file_system_and_opened_later() {
	cancelled_while_staging
	gate_open n1
	sleep 1
	assert_nodes_fine
}

test_cancelled_when_ready() {
	local id

	id=$(job_submit alice -N2 --stage-data="$items" <<<'echo begun; sleep 60')
	job_wait_says "$id" begun
	as alice scancel "$id"
	ends_clean "$id"
}

# A task that reads all the time, does not end on TERM, and tells when it can read no more
readonly reader='
trap "echo got TERM at \${EPOCHREALTIME/[.,]/}" TERM
echo begun
for i in {1..300}; do
	cat "$STAGE_DATA_PATH_T"/*/* "$STAGE_DATA_PATH_M"/*/* | cksum >~/sum.$SLURM_JOB_ID || echo lost
	[[ $(cut -d" " -f2 ~/sum.$SLURM_JOB_ID) == 8126000 ]] || echo "lost: $(cat ~/sum.$SLURM_JOB_ID)"
	echo read $i at ${EPOCHREALTIME/[.,]/}
	sleep 0.1
done'

# reading_until_the_end SCANCEL-OPTION...
reading_until_the_end() {
	local id n

	id=$(job_submit alice -N1 --stage-data="$items" <<<"$reader")
	job_wait_says "$id" "read 3"
	as alice scancel "$@" "$id"
	ends_clean "$id"
	assert_lacks "$(job_output "$id")" lost
}

# last_at ID WORDS: when the job's last line that begins so was written, in microseconds
last_at() {
	job_output "$1" | sed -nE "s/^$2.* at ([0-9]+)$/\1/p" | tail -n 1
}

# The cluster's KillWait is 5 s. How many reads those are is a question of the machine, until when
# they went on is not. What breaks it: a reader that sleeps from TERM on, as one does whose reads
# hang.
test_data_is_readable_until_the_last_task_is_gone() {
	local id

	id=$(job_submit alice -N1 --stage-data="$items" <<<"$reader")
	job_wait_says "$id" "read 3"
	as alice scancel --full "$id"
	job_wait_says "$id" "got TERM"
	ends_clean "$id"
	assert_lacks "$(job_output "$id")" lost
	assert_le 3000000 $(($(last_at "$id" read) - $(last_at "$id" "got TERM"))) "microseconds from TERM to the last read"
}

# From 24.05 on the plugin's mark that there is an epilog goes with slurmd's restart. Fails when the
# extern step's end is taken for the job's, as it would be then.
test_a_restarted_slurmd_leaves_the_data_to_the_last_task() {
	local id

	id=$(job_submit alice -w n1 --stage-data="$items" <<<"$reader")
	job_wait_says "$id" "read 3"
	"$cluster" slurmd-restart n1
	wait_until 20 nodes_are_fine
	as alice scancel --full "$id"
	job_wait_says "$id" "got TERM"
	ends_clean "$id"
	assert_lacks "$(job_output "$id")" lost
}

test_cancelled_while_reading() { reading_until_the_end; }
test_killed_while_reading() { reading_until_the_end -s KILL; }
test_signals_of_the_user_change_nothing() {
	local id

	id=$(job_submit alice -N1 --stage-data="$items" <<<"trap '' USR1; $reader")
	job_wait_says "$id" "read 2"
	as alice scancel -s USR1 "$id"
	as alice scancel -s USR1 --batch "$id"
	sleep 1
	as alice scancel -s KILL "$id"
	ends_clean "$id"
	assert_lacks "$(job_output "$id")" lost
}

test_time_limit_gives_the_data_its_grace() {
	local id

	id=$(job_submit alice -N1 -t 1 --stage-data="$items" <<<"$reader; $reader; $reader")
	job_wait_says "$id" begun
	job_wait "$id" 110
	assert_eq TIMEOUT "$(job_state "$id")" state
	wait_until 10 job_nodes_clean "$id"
	assert_lacks "$(job_output "$id")" lost
	assert_contains "$(job_output "$id")" "got TERM"
}

test_a_requeued_job_begins_afresh() {
	local id

	id=$(job_submit alice -N2 --requeue --open-mode=append --stage-data="$items" <<-'EOS'
	echo "run ${SLURM_RESTART_COUNT:-0}: $(ls $STAGE_DATA_PATH_T | wc -l)"
	[[ -n ${SLURM_RESTART_COUNT:-} ]] || sleep 60
	EOS
	)
	job_wait_says "$id" "run 0: 20"
	on ctl scontrol requeue "$id"
	wait_until 30 job_is "$id" PENDING
	wait_until 10 job_nodes_clean "$id"
	on ctl scontrol update "jobid=$id" starttime=now
	job_done "$id" 40
	assert_contains "$(job_output "$id")" "run 1: 20"
}

test_a_process_that_left_the_job_does_not_keep_the_data() {
	local id

	# A process that holds a file and a directory open, outside of the job's cgroups
	id=$(job_submit alice -N1 -w n1 --stage-data="$items" \
		<<<'echo "$STAGE_DATA_DIR" >~/dir; echo begun; sleep 60')
	job_wait_says "$id" begun
	as_on alice n1 bash -c 'cd "$(cat ~/dir)/t" && exec 3<00/000 && exec sleep 25' &
	wait_until 10 on n1 pgrep -x -u alice -f 'sleep 25'
	as alice scancel "$id"
	ends_clean "$id"
	kill $!
	as_on alice n1 pkill -x sleep
}

test_daemons_killed_while_staging_leave_nothing() {
	local id name

	forgive_crashes n1
	for name in stage-worker stagingd stage-keeper stage-manager; do
		gate_close n1
		id=$(job_submit alice -N1 -w n1 --stage-wait=no --stage-data="t=/srv/pfs/gate/many.tar" \
			<<<'stagectl wait; echo "status $?"')
		wait_until 20 on n1 pgrep -x stage-worker
		sleep 0.3
		on n1 pkill -KILL -x "$name"
		[[ $name == stage-worker ]] || gate_open n1
		job_wait "$id" 30
		ends_clean "$id"
		assert_not job_says "$id" "status 124"
		gate_remove n1
	done
}

test_image_server_killed_while_reading() {
	local id

	id=$(job_submit alice -N1 -w n1 --stage-data="m=$data/many.zstd.sqsh" <<-'EOS'
	echo begun
	while cat $STAGE_DATA_PATH_M/*/* >/dev/null 2>&1; do :; done
	echo over
	EOS
	)
	job_wait_says "$id" begun
	on n1 pkill -KILL -x stage-worker
	job_done "$id" 20
	ends_clean "$id"
}

test_a_stopped_image_server_does_not_drain_the_node() {
	local id

	site_conf <<<$'[daemon]\nAbortAfter=1s'
	pipe_make
	# Past the page cache, and nothing but SIGKILL ends them
	id=$(job_submit alice -N1 -w n1 --stage-data="m=$data/many.zstd.sqsh" <<-EOS
	trap "" TERM
	$hold_pipe
	for i in 1 2 3 4; do
		while dd if=\$STAGE_DATA_PATH_M/00/00\$i of=/dev/null iflag=direct 2>/dev/null; do :; done &
	done
	echo begun
	wait
	EOS
	)
	job_wait_says "$id" begun
	on n1 pkill -STOP -x stage-worker
	sleep 0.5
	as alice scancel "$id"
	job_wait "$id" 40
	within_ms_of "$(kill_wait_over_ms n1 "$id")" 4000 "the last reader is gone" "$(pipe_end_ms)"
	wait_until 10 job_nodes_clean "$id"
	assert_nodes_fine
}

test_slurmd_killed_and_restarted_while_the_job_ends() {
	local id t0

	id=$(job_submit alice -N2 -w n1,n2 --stage-data="$items" <<<'echo begun; sleep 2')
	job_wait_says "$id" begun
	"$cluster" slurmd-kill9 n2
	sleep 3
	"$cluster" slurmd-start n2
	t0=$(now_ms)
	wait_until 60 job_nodes_clean "$id"
	within_ms_of "$t0" 15000 "n2 is clean" "$(now_ms)"
	wait_until 60 job_is_over "$id"
}

# --- much data ------------------------------------------------------------------------------------

# many_files NAME COUNT: an archive of so many files of 500 bytes. strace stops the worker at each,
# too.
many_files() {
	local store=$base.data/$1

	((!${STAGE_TEST_AUDIT:-0} || $2 < 100000)) || skip audit "$2 files take minutes under strace"
	[[ -e $store ]] || python3 - "$store" "$2" <<-'EOS'
	import io, sys, tarfile
	with tarfile.open(sys.argv[1] + ".new", "w", format=tarfile.USTAR_FORMAT) as tar:
	    for i in range(int(sys.argv[2])):
	        member = tarfile.TarInfo(f"{i // 1000:04}/{i:07}")
	        member.size = 500
	        tar.addfile(member, io.BytesIO(b"%0500d" % i))
	EOS
	[[ -e $store ]] || mv "$store.new" "$store"
	ln -f "$store" "$pfs/data/$1"
}

# idle_after ID: milliseconds from the end of the job's script until its node is idle
idle_after() {
	local ended idle

	job_wait "$1"
	idle=$(on ctl bash -c 'until [[ $(scontrol show node n1) == *State=IDLE* ]]; do :; done; date +%s%3N')
	ended=$(job_output "$1" | tail -n 1)
	echo $((idle - ended))
}

# median_idle_after SBATCH-OPTION...: of three
median_idle_after() {
	local i id

	for i in 1 2 3; do
		id=$(job_submit alice -w n1 -n1 "$@" <<<'exec date +%s%3N')
		idle_after "$id"
	done | sort -n | sed -n 2p
}

readonly test_the_end_takes_no_longer_with_200000_files_alone=1
test_the_end_takes_no_longer_with_200000_files() {
	local with without

	many_files 200k.tar 200000
	without=$(median_idle_after)
	with=$(median_idle_after --mem=2000 --stage-data="t=/srv/pfs/data/200k.tar")
	echo "idle after $without ms without, $with ms with 200,000 files"
	assert_le "$with" $((without + 1000)) "ms until the node is idle"
	# The removal continues after the end. On a busy machine, it takes longer than the runner
	# waits.
	wait_until 60 nothing_aside
}

nothing_aside() {
	! on n1 find /run/stage-data/.trash -mindepth 1 2>/dev/null | grep -q . || return 1
	! on n1 find /srv/local -name 'stage-data-*' | grep -q .
}

memory_is_back() {
	(($(shared_memory n1) <= $1 + 2))
}

# keeper_killed_behind ITEM: when the job is over and its keeper still frees what it had
keeper_killed_behind() {
	local before id

	before=$(shared_memory n1)
	id=$(job_submit alice -w n1 -n1 --mem=2000 --stage-data="$1" <<<'echo begun; sleep 60')
	job_wait_says "$id" begun 60
	as alice scancel "$id"
	on n1 bash -c 'while [[ -e /run/stage-data/$1 ]]; do :; done; pkill -KILL -x stage-keeper' - "$id"
	wait_until 10 memory_is_back "$before"
	job_wait "$id"
	assert_nodes_fine
	assert_match "$(on n1 "$prefix/bin/stagectl" list --node)" "job=$id\\.[0-9]+ .*keeper=dead"
}

readonly test_killed_while_memory_is_freed_gives_it_back_and_the_next_job_tidies_up_alone=1
test_killed_while_memory_is_freed_gives_it_back_and_the_next_job_tidies_up() {
	many_files 200k.tar 200000
	keeper_killed_behind "t=/srv/pfs/data/200k.tar"
	job_run alice -w n1 --stage-data="d=/srv/pfs/data/flat" <<<true
	wait_until 10 nothing_aside
}

readonly test_killed_while_a_disk_is_freed_and_reaped_alone=1
test_killed_while_a_disk_is_freed_and_reaped() {
	many_files 20k.tar 20000
	keeper_killed_behind "t=/srv/pfs/data/20k.tar:ssd"
	on n1 "$prefix/libexec/stage-data/stage-keeper" reap
	assert nothing_aside
}

# empty_there: what is the user's in the job's tmpfs (its top is root's), as the process sees it
# that stands in its own copy of the mount. By a path it would be seen no more: the directory has
# another name by then.
empty_there() {
	on n1 bash -c 'pid=$(pgrep -fx "sleep 20.5") && names=$(find "/proc/$pid/cwd/" -mindepth 2) && [[ -z $names ]]'
}

test_a_private_mount_namespace_does_not_keep_the_memory() {
	local id

	id=$(job_submit alice -w n1 -n1 --stage-data="t=/srv/pfs/data/many.tar" \
		<<<'echo begun; while :; do :; done')
	job_wait_says "$id" begun
	on n1 unshare --mount --propagation private \
		bash -c 'cd "/run/stage-data/$1/t" && exec sleep 20.5' - "$id" &
	wait_until 5 on n1 pgrep -fx 'sleep 20.5'
	assert_not empty_there
	as alice scancel "$id"
	job_wait "$id"
	wait_until 5 empty_there
	on n1 pkill -fx 'sleep 20.5'
}

test_the_next_job_waits_for_the_memory_that_is_being_freed() {
	local id

	many_files 200k.tar 200000
	id=$(job_submit alice -w n1 -n1 --mem=2000 --stage-data="t=/srv/pfs/data/200k.tar" <<<true)
	on n1 bash -c 'until [[ -e /run/stage-data/$1 ]]; do :; done
		while [[ -e /run/stage-data/$1 ]]; do :; done
		pkill -STOP -x stage-keeper' - "$id"
	at_end "on n1 pkill -CONT -x stage-keeper"
	job_wait "$id"
	# The node is short of memory for a job of 2000 MB until what is being freed is there again.
	echo "KeepFreeMemory=$(awk '$1 == "MemAvailable:" { print int($2 / 1024) - 800 }' /proc/meminfo)M" |
		{ echo "[limits]"; cat; } | site_conf
	id=$(job_submit alice -w n1 -n1 --mem=2000 --stage-wait=no --stage-data="t=/srv/pfs/data/many.tar" \
		<<<'sleep 0.5; stagectl status; echo asked; stagectl wait -q && echo ready')
	job_wait_says "$id" asked
	assert_contains "$(job_output "$id")" queued
	on n1 pkill -CONT -x stage-keeper
	job_done "$id"
}
