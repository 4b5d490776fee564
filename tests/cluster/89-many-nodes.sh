# One job on 40 nodes. These nodes are a separate cluster beside that of the other tests.

readonly n_many=40
readonly many_base=$base.$n_many
# A new cluster of 41 nodes is part of it: 65 s beside a load of 18 on two processors. So is a node
# that dies, for which Slurm's other nodes wait 60 s.
readonly test_a_job_on_40_nodes_seconds=600
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
	head -c 4M /dev/urandom >"$many_base/pfs/slow"
	chmod a+r "$many_base"/pfs/{x.tar,x.sqsh,noise,slow}
	# A step's daemon waits 60 s for that of a node that has died, and the node is drained where
	# Slurm has less patience.
	sed -i 's/^UnkillableStepTimeout=.*/UnkillableStepTimeout=180/' "$many_base/etc/slurm/slurm.conf"
	many in ctl scontrol reconfigure
}

# many_submit [ITEMS [OPTION...]] <SCRIPT: prints the job's id
many_submit() {
	{ echo '#!/bin/bash'; cat; } | many as alice ctl sbatch --parsable --no-requeue -N$n_many --ntasks-per-node=1 --mem=200 \
		-o out.%j --stage-data="${1:-$many_nodes_items}" "${@:2}"
}

many_output() { cat "$many_base/pfs/home/alice/out.$1" 2>/dev/null || true; }
many_state() { many in ctl scontrol show job -o "$1" | grep -oE '(JobState|ExitCode)=[^ ]*' | cut -d= -f2 | paste -sd' '; }
many_is_over() { [[ $(many_state "$1") != @(PENDING|CONFIGURING|RUNNING|COMPLETING)* ]]; }

# Of jobs and of ours on any node: processes, mounts, run directories, groups. All from outside, for
# 40 shells on 40 nodes take long. A freezer group may be Slurm's own loss (tests/lib/snapshot), so
# it does not count.
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
	wait_until 60 eval '[[ $(many in ctl sinfo -h -p main -o "%D %T") == "$n_many idle" ]]'
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

# many_configure NODE COMMAND...: this node alone has the configuration that the command makes in
# its working directory
many_configure() {
	cp -a "$many_base/etc/stage-data" "$many_base/$1.etc"
	(cd "$many_base/$1.etc" && "${@:2}")
	many override "$1" "$many_base/$1.etc"
}

# many_switch_off NODE REASON
many_switch_off() { many_configure "$1" tee disabled <<<"$2" >/dev/null; }
# many_slow NODE RATE: of all that it reads
many_slow() { many_configure "$1" sed -i "s|^Match=/srv/pfs/.*|&\nMaxRate=$2|" stage-data.conf; }

many_configure_again() {
	many override "$1" -
	rm -r "$many_base/$1.etc"
}

# Three of them are switched off. The script does not begin; status about all nodes has a line for
# each dataset and reason.
job_with_failing_nodes() {
	local id out node

	many_switch_off n17 "for repair"
	many_switch_off n18 "for cooling"
	many_switch_off n19 "for cooling"
	id=$(many_submit <<<'echo begun')
	wait_until 60 many_is_over "$id"
	out=$(many_output "$id" 2>&1)
	echo "$out"
	assert_eq "FAILED 1:0" "$(many_state "$id")" "end of the job"
	assert_lacks "$out" begun
	assert_match "$out" "^stage-data: staging failed, so the script was not started: n1[789].*: .*for (repair|cooling)"
	assert_le "$(wc -l <<<"$out")" 4 "lines"

	id=$(many_submit $many_nodes_items --stage-wait=no <<<'stagectl status --all-nodes')
	wait_until 60 many_is_over "$id"
	out=$(many_output "$id" 2>&1)
	echo "$out"
	assert_eq 2 "$(grep -cE '^[mt] failed on 1 node \(n17\): .*for repair$' <<<"$out")" "lines of the one reason"
	assert_eq 2 "$(grep -cE '^[mt] failed on 2 nodes \(n18, n19\): .*for cooling$' <<<"$out")" "lines of the other"
	assert_le "$(wc -l <<<"$out")" 7 "lines"
	for node in n17 n18 n19; do
		many_configure_again $node
	done
}

# The script waits for it. Of 40 nodes the slow one is named.
job_with_a_slow_node() {
	local id out

	many_slow n5 500K
	id=$(many_submit slow=/srv/pfs/slow:shm <<<'srun bash -c "cmp \$STAGE_DATA_PATH_SLOW /srv/pfs/slow && echo same"; stagectl status --all-nodes')
	wait_until 120 many_is_over "$id"
	out=$(many_output "$id" 2>&1)
	echo "$out"
	assert_eq "COMPLETED 0:0" "$(many_state "$id")" "end of the job"
	assert_eq $n_many "$(grep -c '^same$' <<<"$out")" "nodes with the right data"
	assert_match "$out" "39 ready, 1 staging, slowest n5"
	assert_match "$out" "slow +$n_many +$n_many ready .* n5 \("
	assert_le "$(grep -vc '^same$' <<<"$out")" 5 "other lines"
	many_configure_again n5
}

# Its slurmd is started when the others have begun.
job_with_a_node_that_joins_late() {
	local id

	many slurmd-stop n31
	id=$(many_submit <<<'srun bash -c "cmp \$STAGE_DATA_PATH_T/x/noise /srv/pfs/noise && echo same"')
	sleep 2
	assert_eq "" "$(many_output "$id")" "output before it joins"
	many slurmd-start n31
	wait_until 120 many_is_over "$id"
	many_output "$id"
	assert_eq "COMPLETED 0:0" "$(many_state "$id")" "end of the job"
	assert_eq $n_many "$(many_output "$id" | grep -c '^same$')" "nodes with the right data"
}

# All but its init and munged is killed, while it stages. The job ends with the node's name, and
# nothing of it stays on any node.
job_with_a_node_that_dies() {
	local id out

	many_slow n23 50K
	id=$(many_submit slow=/srv/pfs/slow:shm <<<'echo begun')
	wait_until 60 many in n23 pgrep -x stage-worker >/dev/null
	many in n23 pkill -KILL '^(slurmd|slurmstepd|stag|sleep)' # an extern step has a sleep
	wait_until 60 many_has_failed "$id"
	out=$(many_output "$id" 2>&1)
	echo "$out"
	assert_lacks "$out" begun
	assert_match "$out" "n23([^0-9]|\$)|DUE TO NODE FAILURE" # by us, or by Slurm if that is first
	assert_le "$(grep -vcE '^(srun|slurmstepd-\S+): ' <<<"$out")" 3 "lines that are not Slurm's"
	many_configure_again n23
	many slurmd-start n23
	wait_until 150 many_is_over "$id"
	wait_until 20 eval '[[ -z $(many_groups n23 -name stage-data) ]]'
	# Slurm's own, which a step daemon that was killed has left: empty, or they could not be
	# removed
	many_groups n23 -path '*/job_*' -exec rmdir {} ';'
}

# many_groups NODE CONDITION...: directories among the node's groups, the innermost first
many_groups() {
	# shellcheck disable=SC2046
	find $(many cgroups "$1") -depth -type d "${@:2}" 2>/dev/null || true
}

many_has_failed() { many in ctl scontrol show job -o "$1" | grep -qE 'ExitCode=1:|JobState=NODE_FAIL|Reason=NodeDown'; }

# Fails when status prints a row per node, or a node's failure has no line.
test_a_job_on_40_nodes() {
	local job

	need_fuse
	many_up
	for job in job_on_many_nodes job_with_failing_nodes job_with_a_slow_node job_with_a_node_that_joins_late \
		job_with_a_node_that_dies; do
		echo "--- $job, $SECONDS s"
		$job
		many_ends_clean
	done
}
