# What runs for a job has lost what it does not need, in each phase of its life: as the kernel tells.
# shellcheck shell=bash

classes_are() {
	on n1 /srv/pfs/process-state 4001 4001 >"$work/state"
	# stage-hand comes and goes
	sed -i 's/ stage-hand:[0-9]//' "$work/state"
	[[ $(tail -n 1 "$work/state") == "looked at $1" ]]
}

# state_is CLASSES: these processes are there, or come soon, and none of the job's deviates
state_is() {
	within 10 classes_are "$1" || true
	assert_eq "looked at $1" "$(cat "$work/state")" "state of the processes"
}

# Fails when the launch leaves the umask as it is.
test_processes_have_nothing_that_they_do_not_need() {
	local id out pid

	((!${STAGE_TEST_AUDIT:-0})) || skip audit "strace has its own filter of calls in them"
	need_fuse
	install -m 0755 "$here/process-state" "$pfs/process-state"
	gate_close n1
	id=$(job_submit alice -w n1 --stage-wait=no \
		--stage-data="m=$data/many.zstd.sqsh,g=/srv/pfs/gate/many.tar,d=$data/flat:ssd" <<-'EOS'
	trap "echo ending; sleep 3" TERM
	stagectl wait m d && echo "two are there"
	stagectl wait && echo "all is there"
	sleep 60 & wait
	EOS
	)
	job_wait_says "$id" "two are there"
	state_is "server:1 stage-keeper:1 stagingd:1 writer:1"
	gate_open n1
	job_wait_says "$id" "all is there"
	state_is "server:1 stage-keeper:1 stagingd:1"
	as alice scancel "$id"
	job_wait_says "$id" ending
	state_is "server:1 stage-keeper:1 stagingd:1"

	job_wait "$id"

	# The same look sees what is not as it should be.
	on n1 env SECRET=1 PATH=/usr/bin:/bin bash -c 'ulimit -n 5000; cd /srv; umask 022; exec 7</etc/hostname
		exec setpriv --reuid 4001 --regid 4001 --groups 4001,4002 python3 -c "
import time
open(\"/proc/self/comm\", \"w\").write(\"stagingd\")
time.sleep(60)"' &
	pid=$!
	wait_until 10 on n1 pgrep -x stagingd
	out=$(on n1 /srv/pfs/process-state 4001 4001)
	assert_contains "$out" "Groups is 4001 4002"
	assert_contains "$out" "NoNewPrivs is 0"
	assert_contains "$out" "CapBnd is"
	assert_contains "$out" "limit: Max open files"
	assert_contains "$out" "SECRET is in the environment"
	assert_contains "$out" "the directory is /srv"
	assert_contains "$out" "descriptor 7 is /etc/hostname"
	assert_contains "$out" "Umask is 0022"
	on n1 pkill -KILL -x stagingd
	wait "$pid" || true
}
