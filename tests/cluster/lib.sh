# What the tests of the cluster suite may call. Sourced by tests/cluster/run, which starts each
# test_* function in a subshell of its own with `set -e`: a command that fails ends the test, and
# so does an assertion. What a test breaks (configuration, PrologFlags) the runner repairs.
#
# From the runner: $cluster (tests/lib/cluster), $base (its base directory), $prefix (where
# stage-data is installed), $work (a directory of this test's own on the host).
# shellcheck shell=bash

readonly pfs=$base/pfs      # /srv/pfs as the host sees it
readonly data=/srv/pfs/data # the test data as the nodes see it

# --- where commands run ---------------------------------------------------------------------------

on() {
	"$cluster" in "$@"
}

# as USER CMD...: on the login node
as() {
	local user=$1

	shift
	"$cluster" as "$user" ctl "$@"
}

# as_on USER NODE CMD...
as_on() {
	"$cluster" as "$@"
}

# --- verdicts -------------------------------------------------------------------------------------

# What a test calls at its end, last first, also when it fails
at_end_commands=()

at_end() {
	at_end_commands=("$*" "${at_end_commands[@]}")
}

# system_log NODE FILE: reads /dev/log of a node into FILE there until the test ends. The reader is
# ended by its pid: a pattern of pkill also matches the shell that runs pkill, and the socket would
# stay for the next test.
system_log() {
	at_end "on $1 sh -c 'kill \$(cat /run/system-log.pid); rm -f /dev/log /run/system-log.pid \$0' $2"
	{ on "$1" python3 - "$2" <<<'
import os, socket, sys
with open("/run/system-log.pid", "w") as f:
    f.write(str(os.getpid()))
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind("/dev/log")
os.chmod("/dev/log", 0o666)
with open(sys.argv[1], "ab", 0) as f:
    while True:
        f.write(s.recv(65536) + b"\n")' || true; } &
	wait_until 10 on "$1" test -S /dev/log
}

run_at_end() {
	local command

	for command in "${at_end_commands[@]}"; do
		eval "$command" || true
	done
}

# Says where in the test it was called; on stderr, since it may happen inside $( ), whose status
# nobody looks at where it stands among arguments: so the runner looks for $work/failed, too.
fail() {
	local i

	[[ ! -d ${work:-} ]] || : >"$work/failed"
	echo "FAIL: $*" >&2
	for ((i = 1; i < ${#FUNCNAME[@]} - 1; i++)); do
		[[ ${BASH_SOURCE[i]} == */lib.sh || ${BASH_SOURCE[i]} == */run ]] ||
			echo "  at ${BASH_SOURCE[i]##*/}:${BASH_LINENO[i - 1]} ${FUNCNAME[i]}" >&2
	done
	exit 1
}

# skip FEATURE WHY: a failure where STAGE_TEST_MUST lists the feature (or says "all")
skip() {
	case ,${STAGE_TEST_MUST:-}, in
	*,"$1",* | *,all,*) fail "$1 must be there (STAGE_TEST_MUST): $2" ;;
	esac
	echo "SKIP: $1: $2"
	exit "$skip_status"
}

# note TEXT: what a test did in place of what it says; the runner prints it beside the verdict
note() {
	echo "NOTE: $*"
}

# assert_json SCHEMA TEXT: it fits the schema in docs/schema
assert_json() {
	local r=0

	"${BASH_SOURCE[0]%/*}/../lib/check-json" "$1" <<<"$2" || r=$?
	((r != 77)) || skip jsonschema "no python3-jsonschema"
	((r == 0)) || fail "does not fit $1: $2"
}

need_fuse() {
	on n1 bash -c ": <>/dev/fuse" 2>/dev/null || skip fuse "/dev/fuse cannot be opened"
}

need_cgroup() {
	on n1 test -d /sys/fs/cgroup/memory || skip cgroup "no cgroup v1 memory controller"
}

assert() {
	"$@" || fail "not so: $*"
}

assert_not() {
	! "$@" || fail "should not be so: $*"
}

assert_eq() {
	[[ $2 == "$1" ]] || fail "${3:-value}: expected '$1', got '$2'"
}

assert_contains() {
	[[ $1 == *"$2"* ]] || fail "'$2' is not in: $1"
}

assert_lacks() {
	[[ $1 != *"$2"* ]] || fail "'$2' should not be in: $1"
}

# assert_match TEXT REGEX
assert_match() {
	[[ $1 =~ $2 ]] || fail "'$2' does not match: $1"
}

# assert_le VALUE LIMIT WHAT: whole numbers
assert_le() {
	(($1 <= $2)) || fail "${3:-value}: $1 is more than $2"
}

# assert_one_sentence TEXT: one line of ours that ends the matter, no trace of a program's insides
assert_one_sentence() {
	local n

	n=$(grep -cE '(stage-data|stagectl|stagingd): ' <<<"$1") || true
	assert_eq 1 "$n" "number of our messages in: $1"
	[[ ! $1 =~ (Assertion|Segmentation|backtrace|\(null\)|core dumped) ]] ||
		fail "a program's insides show: $1"
}

# in_turn N: what repeats the same thing often does so where STAGE_TEST_TURN=I/M has the N-th of
# such tests, and always without
in_turn() {
	local turn=${STAGE_TEST_TURN:-0/1}

	(($1 % ${turn#*/} == ${turn%/*}))
}

# --- time -----------------------------------------------------------------------------------------

now_ms() {
	local t=${EPOCHREALTIME/[.,]/}

	echo $((t / 1000))
}

# wait_until SECONDS CMD...: fails the test when CMD is not true in time
wait_until() {
	local end=$(($(now_ms) + $1 * 1000)) seconds=$1

	shift
	until "$@"; do
		(($(now_ms) < end)) || fail "not within $seconds s: $*"
		sleep 0.05
	done
}

# --- bounds ---------------------------------------------------------------------------------------
#
# When something was caused and when it came about is told by who does it, in milliseconds since
# 1970: our log, Slurm's, the job, the pipe that a process held. What the test itself takes to get
# at a node and to look there is not in it.

# within_ms_of CAUSED-MS LIMIT-MS WHAT MS: fails the test when it took longer
within_ms_of() {
	[[ -n $1 && -n $4 ]] || fail "$3: unknown when: from '$1' to '$4'"
	echo "$3 after $(($4 - $1)) ms of $2" | tee -a "${STAGE_TEST_NUMBERS:-/dev/null}" >&2
	assert_le $(($4 - $1)) "$2" "ms until $3"
	# A line of the log is written a moment after what it says; more than that is another event.
	assert_le "$1" $(($4 + 500)) "$3: cause and effect"
}

# kill_at NODE PID...: kills them, and says when
kill_at() {
	local node=$1

	shift
	# shellcheck disable=SC2016,SC2048,SC2086
	on "$node" bash -c 'echo $((${EPOCHREALTIME/[.,]/} / 1000)); kill -KILL "$@"' - $*
}

# logged_ms NODE ID REGEX: when the first line of ours about this job that fits was written
logged_ms() {
	local at

	at=$(grep -E "job=$2 .*$3" "$base/node/$1/log/stage-data.log" | head -n 1 | grep -oE '[0-9-]{10}T[0-9:.]+Z' | head -n 1)
	[[ -z $at ]] || date -d "$at" +%s%3N
}

# told_ms ID WORDS: when the job said so: its first line `WORDS … at MICROSECONDS`
told_ms() {
	job_output "$1" | sed -nE "s/^$2.* at ([0-9]+)[0-9]{3}$/\1/p" | head -n 1
}

# kill_wait_over_ms NODE ID: when Slurm sent the job's script SIGKILL, having waited for KillWait
kill_wait_over_ms() {
	local at

	at=$(sed -nE "s/^\[([^]]+)\] .*Sent SIGKILL signal to StepId=$2\.batch.*/\1/p" "$base/node/$1/log/slurmd.log" | head -n 1)
	[[ -z $at ]] || date -d "$at" +%s%3N
}

# A pipe that a job's script holds, with all that it starts, from $hold_pipe on; pipe_end_ms says
# when the last of them was gone, if pipe_make was called before the job began.
readonly hold_pipe='exec 9>~/held.pipe'

pipe_make() {
	rm -f "$pfs/home/alice/held.pipe"
	mkfifo -m 0666 "$pfs/home/alice/held.pipe"
	{
		read -r _ <"$pfs/home/alice/held.pipe" || true
		now_ms >"$work/held.ms"
	} &
	at_end "kill $! 2>/dev/null; rm -f '$pfs/home/alice/held.pipe'"
}

pipe_end_ms() {
	cat "$work/held.ms" 2>/dev/null || true
}

# --- jobs -----------------------------------------------------------------------------------------

# job_submit USER [SBATCH OPTION...] <SCRIPT: prints the job's id. `#!/bin/bash` may be left out.
job_submit() {
	local user=$1 script id

	shift
	script=$(cat)
	[[ $script == '#!'* ]] || script=$'#!/bin/bash\n'$script
	id=$(as "$user" sbatch --parsable --no-requeue "$@" <<<"$script" 2>"$work/sbatch.err") || {
		cat "$work/sbatch.err" >&2
		fail "sbatch refused the job"
	}
	cat "$work/sbatch.err" >&2
	id=${id%%;*}
	echo "$id" >>"$work/jobs"
	echo "$id"
}

# job_refused USER [SBATCH OPTION...] <SCRIPT: prints what sbatch says; fails if the job is taken
job_refused() {
	local user=$1 script out id

	shift
	script=$(cat)
	[[ $script == '#!'* ]] || script=$'#!/bin/bash\n'$script
	if out=$(as "$user" sbatch --parsable "$@" <<<"$script" 2>&1); then
		id=${out##*$'\n'}
		echo "$id" >>"$work/jobs"
		fail "sbatch took the job: $out"
	fi
	echo "$out"
}

# For a job's script: it goes on when the test says let_go. A sleep would be over, on a busy
# machine, before the test has done what it wants to do to a job that runs.
readonly until_let_go='until [[ -e ~/go.$SLURM_JOB_ID ]]; do sleep 0.1; done'

# let_go ID [USER]
let_go() {
	touch "$pfs/home/${2:-alice}/go.$1"
	at_end "rm -f '$pfs/home/${2:-alice}/go.$1'"
}

# job_field ID NAME: one value of `scontrol show job`
job_field() {
	on ctl scontrol show job -o "$1" 2>/dev/null | grep -oE "(^| )$2=[^ ]*" | head -n 1 | cut -d= -f2-
}

job_state() {
	job_field "$1" JobState
}

job_exit() {
	job_field "$1" ExitCode
}

job_is() {
	local state

	state=$(job_state "$1")
	shift
	[[ " $* " == *" $state "* ]]
}

job_is_over() {
	job_is "$1" COMPLETED FAILED CANCELLED TIMEOUT NODE_FAIL OUT_OF_MEMORY PREEMPTED BOOT_FAIL
}

job_wait() {
	wait_until "${2:-60}" job_is_over "$1"
}

job_wait_running() {
	wait_until "${2:-20}" job_is "$1" RUNNING
}

# What the job has written so far
job_output() {
	local path

	path=$(job_field "$1" StdOut)
	path=${path/#\/srv\/pfs/$pfs}
	cat "${path//%[Aj]/$1}" 2>/dev/null || true
}

job_says() {
	[[ $(job_output "$1") == *"$2"* ]]
}

job_wait_says() {
	wait_until "${3:-20}" job_says "$1" "$2"
}

# job_done ID [SECONDS]: waits for a job that must succeed
job_done() {
	job_wait "$@"
	assert_eq "COMPLETED 0:0" "$(job_state "$1") $(job_exit "$1")" "end of job $1"
}

# job_failed ID [SECONDS]: waits for a job that must fail as a user's mistake does
job_failed() {
	job_wait "$@"
	assert_eq "FAILED 1:0" "$(job_state "$1") $(job_exit "$1")" "end of job $1"
}

# job_run USER [SBATCH OPTION...] <SCRIPT: runs a job that must succeed, prints its output
job_run() {
	local id

	id=$(job_submit "$@")
	job_done "$id"
	job_output "$id"
}

# job_nodes_clean ID: nothing of this job is left on any node
job_nodes_clean() {
	local node

	for node in n1 n2 n3; do
		! on $node test -e "/run/stage-data/$1" || return 1
		[[ -z $(on $node bash -s cgroups "$1" <"$lib/snapshot") ]] || return 1
	done
}

# --- the site -------------------------------------------------------------------------------------

# site_conf <LINES: more configuration, on all nodes, for this test
site_conf() {
	cat >"$base/etc/stage-data/conf.d/50-test.conf"
}

# node_conf NODE <LINES: the same on one node only
node_conf() {
	local dir=$base/node/$1/stage-data

	rm -rf "$dir"
	cp -a "$base/etc/stage-data" "$dir"
	cat >"$dir/conf.d/60-node.conf"
	"$cluster" override "$1" "$dir"
}

# Tells when the hooks begin and end: tests/lib/slow-hooks.c. `slow` has them last.
mark_hooks() {
	local conf=$base/etc/slurm/plugstack.conf node

	gcc -shared -fPIC -D_GNU_SOURCE -O2 -DFIRST -o "$base/slow-first.so" "$here/../lib/slow-hooks.c"
	gcc -shared -fPIC -D_GNU_SOURCE -O2 -o "$base/slow-last.so" "$here/../lib/slow-hooks.c"
	cp "$conf" "$work/plugstack.conf"
	at_end "cp '$work/plugstack.conf' '$conf'; for node in n1 n2 n3; do on \$node rm -rf /run/slow-hooks; done"
	sed -i "1i required $base/slow-first.so
		\$a required $base/slow-last.so" "$conf"
	for node in n1 n2 n3; do
		on $node mkdir -m 1777 /run/slow-hooks
		[[ $1 != slow ]] || on $node touch /run/slow-hooks/slow
	done
}

# prolog_flags none|Alloc|Contain: for this test
prolog_flags() {
	"$cluster" restart --prolog-flags "$1"
}

# The node is changed in ways that nobody undoes: the runner makes a new cluster after this test.
spoil_cluster() {
	touch "$base/spoiled"
}

# A keeper that dies is counted on its node, and after a few nothing is staged there: in tests that
# kill it on purpose the count goes. Elsewhere it stays, for the runner to find.
forgive_crashes() {
	at_end "on $1 rm -f /run/stage-data/.crashes"
}

# planned: idle, and the scheduler has a job in mind for it
nodes_are_fine() {
	local bad

	bad=$(on ctl sinfo -h -N -p main -o '%N %T %E' | grep -vE ' (idle|planned|mixed|allocated|completing) ') || true
	[[ -z $bad ]] || {
		echo "nodes: $bad"
		return 1
	}
}

assert_nodes_fine() {
	nodes_are_fine || fail "a node is drained or down"
}

n_slurmd_starts() {
	grep -c 'slurmd started on' "$base/node/$1/log/slurmd.log" || true
}

slurmd_has_started_since() {
	(($(n_slurmd_starts "$1") > $2))
}

# restart_slurmd NODE: returns when it has loaded its plugins. slurmd 26.05 loads them when the
# command that started it has ended.
restart_slurmd() {
	local before

	before=$(n_slurmd_starts "$1")
	"$cluster" slurmd-restart "$1"
	wait_until 20 slurmd_has_started_since "$1" "$before"
}

# --- a source that hangs until it is told to go on ------------------------------------------------
#
# On one node, /srv/pfs/gate (elsewhere a plain directory) becomes a FUSE mount whose server is
# stopped: every look into it waits. That is a hung parallel file system, or a very slow node.
# gate_close NODE [IMAGE]: what is seen there, else what $pfs/gate has

gate_prepare() {
	[[ -e $pfs/.gate.sqsh ]] || {
		mksquashfs "$pfs/gate" "$pfs/.gate.sqsh" -noappend -no-progress -quiet -noI -noD -noF \
			-processors 1
	}
}

gate_close() {
	local node=$1 image=${2:-} pid

	[[ $image ]] || gate_prepare
	on "$node" squashfuse_ll -o allow_other,ro "${image:-/srv/pfs/.gate.sqsh}" /srv/pfs/gate
	pid=$(on "$node" pgrep -f '^squashfuse_ll .*gate')
	echo "$pid" >"$work/gate.$node"
	on "$node" kill -STOP "$pid"
	at_end "gate_remove $node"
}

gate_open() {
	on "$1" kill -CONT "$(cat "$work/gate.$1")"
}

gate_remove() {
	[[ -e $work/gate.$1 ]] || return 0
	gate_open "$1" 2>/dev/null || true
	on "$1" umount -l /srv/pfs/gate
	rm "$work/gate.$1"
}
