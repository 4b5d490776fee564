# One job on 40 nodes: a cluster of its own, with as many nodes, beside the one that the other tests have.
# shellcheck shell=bash

readonly n_many=40
readonly many_base=$base.$n_many
# A new cluster of 41 nodes is part of it: 65 s beside a load of 18 on two processors.
readonly test_a_job_on_40_nodes_seconds=300
readonly many_nodes_items=t=/srv/pfs/x.tar:shm,m=/srv/pfs/x.sqsh

many() {
	STAGE_CLUSTER=$many_base "$cluster" "$@"
}

# What the cluster starts outlives a test that is killed, and the runner's locks must not.
many_up() {
	at_end "STAGE_CLUSTER='$many_base' '$cluster' down"
	many up --nodes $n_many --prefix "$prefix" 7>&- 8>&- 9>&-
	mkdir -p "$work/x/x"
	head -c 300K /dev/urandom >"$work/x/x/noise"
	tar -C "$work/x" -cf "$many_base/pfs/x.tar" x
	mksquashfs "$work/x/x" "$many_base/pfs/x.sqsh" -quiet -no-progress -processors 1
	cp "$work/x/x/noise" "$many_base/pfs/"
	chmod a+r "$many_base"/pfs/{x.tar,x.sqsh,noise}
}

# many_submit <SCRIPT: prints the job's id
many_submit() {
	{ echo '#!/bin/bash'; cat; } | many as alice ctl sbatch --parsable --no-requeue -N$n_many --ntasks-per-node=1 --mem=200 \
		-o out.%j --stage-data=$many_nodes_items
}

many_output() { cat "$many_base/pfs/home/alice/out.$1" 2>/dev/null || true; }
many_state() { many in ctl scontrol show job -o "$1" | grep -oE '(JobState|ExitCode)=[^ ]*' | cut -d= -f2 | paste -sd' '; }
many_is_over() { [[ $(many_state "$1") != @(PENDING|CONFIGURING|RUNNING|COMPLETING)* ]]; }

# Of jobs and of ours on any node: processes, mounts, run directories, groups. All from outside, for 40 shells on 40 nodes
# take long. A freezer group may be Slurm's own loss (tests/lib/snapshot), so it does not count.
many_left() {
	local node pid groups

	groups=$(many cgroups n1)
	for node in $(many nodes); do
		pid=$(cat "$many_base/node/$node/pid")
		{
			find "/proc/$pid/root/run/stage-data" -mindepth 1 -maxdepth 1 -name '[0-9]*'
			grep -E ' /run/stage-data/| fuse\.' "/proc/$pid/mounts" || true
			# shellcheck disable=SC2086
			find ${groups//-n1/-$node} -type d -name 'job_*' ! -path '*/freezer/*'
			many_processes "${groups%%$'\n'*}" "$node"
		} 2>/dev/null | sed "s/^/$node: /"
	done
}

# many_processes GROUP-OF-N1 NODE
many_processes() {
	find "${1%-n1}-$2" -name cgroup.procs -exec cat {} + | while read -r pid; do
		grep -HE '^(stag|slurmstepd)' "/proc/$pid/comm" | grep -v ':stage-cluster' || true
	done
}

many_ends_clean() {
	wait_until 20 eval '[[ $(many in ctl sinfo -h -p main -o "%D %T") == "$n_many idle" ]]'
	wait_until 20 eval '[[ -z $(many in ctl squeue -h) ]]'
	assert_eq "" "$(many_left)" "what is left"
}

# What the commands print does not grow with the number of nodes.
job_on_many_nodes() {
	local id out

	id=$(many_submit <<-'EOS'
	srun bash -c 'cmp $STAGE_DATA_PATH_T/x/noise /srv/pfs/noise && cmp $STAGE_DATA_PATH_M/noise /srv/pfs/noise && echo same'
	echo wait:
	stagectl wait --all-nodes
	echo status:
	stagectl status --all-nodes
	EOS
	)
	wait_until 60 many_is_over "$id"
	out=$(many_output "$id" 2>&1)
	echo "$out"
	assert_eq "COMPLETED 0:0" "$(many_state "$id")" "end of the job"
	assert_eq $n_many "$(grep -c '^same$' <<<"$out")" "nodes with the right data"
	assert_le "$(sed -n '/^wait:/,/^status:/p' <<<"$out" | wc -l)" 8 "lines of wait with its two marks"
	assert_match "$out" "m +$n_many +$n_many ready"
	assert_eq 3 "$(sed '1,/^status:/d' <<<"$out" | wc -l)" "lines of status"
}

# One of them is switched off: its reason is told once, and the script does not begin.
job_with_a_failing_node() {
	local id out

	cp -a "$many_base/etc/stage-data" "$many_base/off"
	echo "for repair" >"$many_base/off/disabled"
	many override n17 "$many_base/off"
	id=$(many_submit <<<'echo begun')
	wait_until 60 many_is_over "$id"
	out=$(many_output "$id" 2>&1)
	echo "$out"
	assert_eq "FAILED 1:0" "$(many_state "$id")" "end of the job"
	assert_lacks "$out" begun
	assert_match "$out" "n17.*for repair"
	assert_le "$(wc -l <<<"$out")" 3 "lines"
	many override n17 -
}

# Fails when status prints a row per node.
test_a_job_on_40_nodes() {
	need_fuse
	many_up
	job_on_many_nodes
	job_with_a_failing_node
	many_ends_clean
}
