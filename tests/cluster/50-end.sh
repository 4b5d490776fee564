# However a job ends, at whatever moment: nothing is left after 10 seconds, the data can be read until
# the last task is gone, and no node is taken out of service. The runner looks for what is left.
# shellcheck shell=bash

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
trap "echo got TERM" TERM
echo begun
for i in {1..300}; do
	cat "$STAGE_DATA_PATH_T"/*/* "$STAGE_DATA_PATH_M"/*/* | cksum >~/sum.$SLURM_JOB_ID || echo lost
	[[ $(cut -d" " -f2 ~/sum.$SLURM_JOB_ID) == 8126000 ]] || echo "lost: $(cat ~/sum.$SLURM_JOB_ID)"
	echo read $i
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

test_data_is_readable_until_the_last_task_is_gone() {
	local id before after

	id=$(job_submit alice -N1 --stage-data="$items" <<<"$reader")
	job_wait_says "$id" "read 3"
	as alice scancel --full "$id"
	job_wait_says "$id" "got TERM"
	before=$(job_output "$id" | grep -c ^read)
	ends_clean "$id"
	after=$(job_output "$id" | grep -c ^read)
	assert_lacks "$(job_output "$id")" lost
	assert_le $((before + 10)) "$after" "reads at TERM and 10, against reads at the end"
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
	sleep 0.5
	as alice scancel "$id"
	ends_clean "$id"
	kill $!
	as_on alice n1 pkill -x sleep
}

test_daemons_killed_while_staging_leave_nothing() {
	local id name

	forgive_crashes n1
	for name in stage-worker stagingd stage-keeper; do
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

	id=$(job_submit alice -N1 -w n1 --stage-data="m=$data/many.zstd.sqsh" <<-'EOS'
	echo begun
	sleep 1
	cat $STAGE_DATA_PATH_M/*/* >/dev/null
	EOS
	)
	job_wait_says "$id" begun
	on n1 pkill -STOP -x stage-worker
	sleep 1.5
	as alice scancel "$id"
	job_wait "$id" 40
	wait_until 15 job_nodes_clean "$id"
	assert_nodes_fine
}

test_slurmd_killed_and_restarted_while_the_job_ends() {
	local id

	id=$(job_submit alice -N2 -w n1,n2 --stage-data="$items" <<<'echo begun; sleep 2')
	job_wait_says "$id" begun
	"$cluster" slurmd-kill9 n2
	sleep 3
	"$cluster" slurmd-start n2
	wait_until 60 job_is_over "$id"
	wait_until 40 job_nodes_clean "$id"
}
