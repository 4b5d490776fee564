# With each value of PrologFlags and each version of cgroups, users see the same results.

works_with() {
	prolog_flags "$1"
	works
}

works() {
	local out id

	out=$(job_run alice -N3 --ntasks-per-node=2 --stage-data="t=$data/many.tar,m=$data/many.zstd.sqsh" <<-'EOS'
	cat $STAGE_DATA_PATH_T/*/* | cksum
	for step in 1 2; do
		srun bash -c 'cat $STAGE_DATA_PATH_T/*/* | cksum'
		srun bash -c 'cat $STAGE_DATA_PATH_M/*/* | cksum'
	done
	srun -N3 -n3 bash -c 'echo "daemons $(pgrep -cx stagingd)"'
	EOS
	)
	assert_eq 25 "$(grep -c '^[0-9]' <<<"$out")" "checksums"
	assert_eq 1 "$(grep '^[0-9]' <<<"$out" | sort -u | wc -l)" "different checksums"
	assert_eq 3 "$(grep -c '^daemons 1$' <<<"$out")" "nodes with one daemon"

	id=$(job_submit alice -N2 --stage-data="t=$data/many.tar" <<<'echo begun; srun -N2 sleep 60')
	job_wait_says "$id" begun
	as alice scancel "$id"
	job_wait "$id"
	wait_until 10 job_nodes_clean "$id"

	id=$(job_submit alice -N2 --stage-data="t=$data/bad/half.tar.gz" <<<'echo begun')
	job_failed "$id"
	assert_lacks "$(job_output "$id")" begun
	assert_nodes_fine
}

# With cgroup version 2 Slurm ends whatever is in a job's groups, which are below its own scope. The
# controllers stay with this kernel's version 1: what is staged is charged to nobody here. Seen
# failing with a keeper that stays in the group of the step that launched it.
works_on_cgroup_v2() {
	local id group

	"$cluster" restart --cgroups v2 --prolog-flags "$1"
	assert_contains "$(on n1 cat /etc/slurm/cgroup.conf)" cgroup/v2
	works
	id=$(job_submit alice -w n1 --stage-data="t=$data/many.tar,m=$data/many.zstd.sqsh" <<-EOS
		cat /proc/self/cgroup
		srun --overlap true
		echo begun
		$until_let_go
	EOS
	)
	job_wait_says "$id" begun
	# job_N, or from 26.05 on the job's SLUID
	group=$(job_output "$id" | sed -nE 's|^0::/system.slice/[^/]*slurmstepd.scope/([^/]+)/.*|\1|p')
	assert_match "$group" "^(job_$id|s[0-9A-Z]{13})$"
	assert_le 3 "$(groups_of_ours n1 | wc -l)" "programs"
	# The server of the image is charged to the job, in a group beside its steps; the daemons
	# are elsewhere.
	assert_lacks "$(groups_of_ours n1 | grep -v ^stage-worker)" "$group"
	assert_match "$(groups_of_ours n1 | grep ^stage-worker)" "$group/stage-data$"
	# systemd ends what is in slurmd's own group with slurmd, unless the unit says otherwise.
	assert_match "$(groups_of_ours n1 | grep ^stagingd)" "slurmstepd.scope/system$"
	assert_match "$(groups_of_ours n1 | grep ^stage-keeper)" "slurmstepd.scope/system$"
	let_go "$id"
	job_done "$id"
	wait_until 10 job_nodes_clean "$id"
	assert_nodes_fine
}

# The program and its group in version 2, one a line
groups_of_ours() {
	# shellcheck disable=SC2016
	on "$1" bash -c 'for pid in $(pgrep "^stag"); do
			echo "$(cat /proc/$pid/comm) $(grep ^0:: /proc/$pid/cgroup)"
		done'
}

# Seen failing with a keeper that is killed after a second, and when the epilog does not clean up.
test_without_cgroups() {
	local before

	"$cluster" restart --cgroups none
	before=$(on n1 find /sys/fs/cgroup -name 'job_*' | sort) # Slurm 24.11 may leave some of earlier jobs
	assert_contains "$(on ctl scontrol show config)" proctrack/linuxproc
	works
	assert_eq "$before" "$(on n1 find /sys/fs/cgroup -name 'job_*' | sort)" "groups of jobs"
}

# Fails when the epilog does not clean up.
test_cgroup_v2() { works_on_cgroup_v2 Contain; }
# Fails when the epilog does not clean up.
test_cgroup_v2_with_alloc() { works_on_cgroup_v2 Alloc; }
# Fails when a keeper stays in the group of its step.
test_cgroup_v2_where_a_step_launches() { works_on_cgroup_v2 none; }

knows_run_in_job() {
	on ctl sinfo --version | awk '{ exit !(substr($2, 1, 5) >= "24.05") }'
}

# Fails when a keeper stays in the group of its step.
test_cgroup_v2_with_run_in_job() {
	if knows_run_in_job; then
		works_on_cgroup_v2 RunInJob
	else
		note "no RunInJob in $(on ctl sinfo --version): Launch=step in its place"
		printf '[daemon]\nLaunch=step\n' | site_conf
		works_on_cgroup_v2 none
	fi
}

# Fails when steps do not launch.
test_no_prolog_flags() { works_with none; }
# These two fail when the epilog does not clean up.
test_prolog_flags_alloc() { works_with Alloc; }
test_prolog_flags_contain() { works_with Contain; }

# No hook of the allocation is called, so the first step starts the keeper. Where Slurm is too old
# to know RunInJob it is told by the configuration to leave the start to the steps; the clean-up is
# the epilog's there.
steps_launch() {
	if knows_run_in_job; then
		prolog_flags RunInJob
	else
		note "no RunInJob in $(on ctl sinfo --version): Launch=step in its place"
		printf '[daemon]\nLaunch=step\n' | site_conf
	fi
}

# Fails when steps do not launch.
test_prolog_flags_run_in_job() {
	steps_launch
	works
}

staged_memory() {
	on n1 find /sys/fs/cgroup/memory -path "*/job_$1/stage-data" -exec cat '{}/memory.usage_in_bytes' ';'
}

# Red without the clean-up in the extern step's exit, and when it takes a signal of the user's for
# the job's end.
test_where_steps_launch_the_jobs_end_cleans_up() {
	local id keeper

	steps_launch
	id=$(job_submit alice -N2 --mem=100 --stage-data="t=$data/many.tar" <<-EOS
		trap 'echo signalled' USR1
		echo begun
		$until_let_go
		srun -N2 bash -c 'cat \$STAGE_DATA_PATH_T/*/* | cksum'
	EOS
	)
	job_wait_says "$id" begun
	[[ ! -d /sys/fs/cgroup/memory ]] || assert_le 5000000 "$(staged_memory "$id")" "bytes charged to the job"
	as alice scancel -s USR1 --full "$id"
	job_wait_says "$id" signalled # and not in the moment that srun begins in
	let_go "$id"
	job_done "$id"
	assert_eq 2 "$(job_output "$id" | grep -c "^$(cat "$pfs"/data/many/*/* | cksum)$")" "right copies"
	wait_until 10 job_nodes_clean "$id"

	id=$(job_submit alice -N2 --stage-data="t=$data/many.tar" <<<'echo begun; sleep 60')
	job_wait_says "$id" begun
	forgive_crashes n1
	keeper=$(on n1 sed -nE 's/^keeper=([0-9]+):.*/\1/p' "/run/stage-data/$id/state")
	on n1 kill -KILL "$keeper"
	as alice scancel "$id"
	job_wait "$id"
	wait_until 10 job_nodes_clean "$id"
	assert_nodes_fine
}

# Fails when a task is not held.
test_a_step_on_one_node_of_a_job_without_prolog_flags() {
	local out

	prolog_flags none
	out=$(job_run alice -N3 --stage-wait=tasks --stage-data="t=$data/many.tar" \
		<<<'srun -N1 -n1 -w n2 bash -c "ls \$STAGE_DATA_PATH_T | wc -l"')
	assert_contains "$out" 20
}
