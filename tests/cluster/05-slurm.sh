# Jobs without the option run as they do without stage-data. The other tests rely on this.

test_a_job_without_the_option_is_not_touched() {
	local out

	out=$(job_run alice -N3 <<-'EOS'
	env | grep -E '^(STAGE_|SLURM_SPANK|SPANK)' && echo touched
	srun -N3 bash -c 'ls -d /run/stage-data/$SLURM_JOB_ID 2>/dev/null && echo touched; hostname'
	EOS
	)
	assert_lacks "$out" touched
	assert_eq "n1 n2 n3" "$(sort <<<"$out" | paste -sd' ')" "nodes"
}

readonly test_a_job_starts_within_two_seconds_alone=1
test_a_job_starts_within_two_seconds() {
	local start id

	start=$(now_ms)
	id=$(job_submit alice <<<'true')
	job_done "$id"
	assert_le $(($(now_ms) - start)) 2000 "ms from sbatch to the end of the job"
}

test_a_job_survives_a_killed_and_restarted_slurmd() {
	local id

	id=$(job_submit alice -N2 -w n1,n2 <<<'echo begun; srun -N2 sleep 3; echo over')
	job_wait_says "$id" begun
	"$cluster" slurmd-kill9 n2
	"$cluster" slurmd-start n2
	"$cluster" slurmd-restart n1
	job_done "$id"
	assert_contains "$(job_output "$id")" over
}

test_the_gate_holds_readers_on_one_node_only() {
	need_fuse
	gate_close n2
	as_on alice n1 cat /srv/pfs/gate/00.bin >/dev/null
	assert_not timeout 1 "$cluster" as alice n2 cksum /srv/pfs/gate/01.bin
	gate_open n2
	assert cmp <(as_on alice n2 cat /srv/pfs/gate/01.bin) "$pfs/gate/01.bin"
}

# witness ID WORD: is it the last that tests/lib/slurm-witness.c said of the job's group on n1?
witness() {
	[[ $(on n1 grep "/job_$1 " /var/log/slurm-witness.log | tail -n 1) == *"/job_$1 $2" ]]
}

# What Slurm loses by itself is not held against us, and every other empty group is. What breaks it:
# a snapshot that calls no group lost, in its first part, one that calls each empty one so, in its
# second, and one that doesn't read Slurm's log, in its third.
test_only_a_group_that_slurm_has_lost_by_itself_is_let_pass() {
	local id group pid

	need_cgroup
	at_end 'on n1 rm -f /run/slow-threads /run/refuse-extern; on n1 find /sys/fs/cgroup -depth -path "*/job_*" -type d -exec rmdir {} +'
	on n1 touch /run/slow-threads
	id=$(job_submit alice -w n1 <<<true)
	job_done "$id"
	group=/sys/fs/cgroup/freezer/slurm_n1/uid_4001/job_$id
	wait_until 10 witness "$id" ending
	on n1 rm /run/slow-threads
	assert on n1 test -d "$group"
	wait_until 5 eval '[[ -z $(on n1 cat "$group/tasks") ]]'
	assert_eq "" "$(on n1 bash -s cgroups "$id" <"$lib/snapshot")" "what is left"

	id=$(job_submit alice -w n1 <<<'sleep 1')
	job_wait_running "$id"
	group=${group%_*}_$id
	# shellcheck disable=SC2016
	pid=$(on n1 bash -c 'sleep 60 >/dev/null 2>&1 & echo $! >"$1/cgroup.procs"; echo $!' - "$group")
	job_done "$id"
	wait_until 10 witness "$id" others
	on n1 kill "$pid"
	wait_until 5 eval '[[ -z $(on n1 cat "$group/tasks") ]]'
	assert_eq "cgroup $group" "$(on n1 bash -s cgroups "$id" <"$lib/snapshot")" "what is left"

	on n1 touch /run/refuse-extern
	id=$(job_submit alice -w n1 <<<true)
	job_done "$id"
	group=${group%_*}_$id
	wait_until 10 on n1 grep -qF "[$id.extern] error: Unable to move pid" /var/log/slurmd.log
	assert on n1 test -d "$group"
	wait_until 5 eval '[[ -z $(on n1 cat "$group/step_extern/tasks") ]]'
	assert_eq "" "$(on n1 bash -s cgroups "$id" <"$lib/snapshot")" "what is left"
}

# The same on cgroup v2. What breaks it: a snapshot that does not read Slurm's log, or takes our
# group for Slurm's.
test_a_group_that_slurm_has_lost_on_cgroup_v2_is_let_pass() {
	local job=4000000 group

	"$cluster" restart --cgroups v2
	group=$(on n1 find /sys/fs/cgroup -type d -name 'n1_slurmstepd.scope')/job_$job
	at_end "on n1 sh -c 'find $group -depth -type d -exec rmdir {} +'"
	assert on n1 mkdir -p "$group/step_extern/slurm"
	assert_eq "cgroup $group" "$(on n1 bash -s cgroups $job <"$lib/snapshot")" "what is left without a word of Slurm's"
	# shellcheck disable=SC2016
	on n1 sh -c 'echo "[$1.extern] error: Unable to rmdir($2/step_extern/slurm), unexpected error: Permission denied" >>/var/log/slurmd.log' \
		- $job "$group"
	assert_eq "" "$(on n1 bash -s cgroups $job <"$lib/snapshot")" "what is left"
	assert on n1 mkdir "$group/stage-data"
	assert_eq "cgroup $group" "$(on n1 bash -s cgroups $job <"$lib/snapshot")" "what is left of ours"
}
