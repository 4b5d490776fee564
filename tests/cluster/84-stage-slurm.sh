# stage-slurm says what squeue and scontrol say, and where it is missing or can't be loaded those
# are asked. Names begin with ss_, because each file of tests is read into the same shell.
# shellcheck shell=bash

ss_program() {
	echo "$(libexec)/stage-slurm"
}

# ss_same ARG...: both print the same lines, in some order, and end the same
ss_same() {
	local ours theirs

	ours=$(as_on alice n1 "$(ss_program)" "$@" 2>/dev/null | sort) || true
	theirs=$(as_on alice n1 squeue "$@" 2>/dev/null | sort) || true
	printf '%s\n--\n%s\n' "$ours" "$theirs" >"$work/compared"
	[[ $ours == "$theirs" ]]
}

# A second may have passed between the two.
ss_same_soon() {
	wait_until 20 ss_same "$@" || { cat "$work/compared" >&2; fail "different: $*"; }
}

readonly test_stage_slurm_says_what_squeue_says_seconds=180
# Fails where a job's state or reason has another name, where jobs of other users, nodes or
# partitions are listed, and where those of hidden partitions or of arrays are not.
test_stage_slurm_says_what_squeue_says() {
	local alice uid ids=() id format='%A|%T|%M|%l|%P|%r|%j'

	uid=$(as alice id -u)
	on ctl scontrol update PartitionName=other Hidden=YES
	at_end "on ctl scontrol update PartitionName=other Hidden=NO"
	at_end "as alice scancel -u alice; as bob scancel -u bob"
	ids+=("$(as alice sbatch --parsable -w n1 -J stage-mover-1 -t 90 --wrap "echo begun; exec sleep 600")")
	ids+=("$(as alice sbatch --parsable -w n2 -p other --wrap "exec sleep 600")")
	ids+=("$(as alice sbatch --parsable -H --array=1-3%2 -J 'a name|b' --wrap true)")
	ids+=("$(as alice sbatch --parsable --begin=now+1days -t 2-0 --wrap true)")
	ids+=("$(as alice sbatch --parsable -d "afterany:${ids[0]}" --wrap true)")
	ids+=("$(as alice sbatch --parsable -N1 -w n2 --mem=50 : -N1 -w n3 --mem=50 --wrap "exec sleep 600" | cut -d+ -f1)")
	ids+=("$(as bob sbatch --parsable -w n1 --mem=50 --wrap "exec sleep 600")")
	id=$(as alice sbatch --parsable -w n3 --wrap false)
	job_wait "$id" 60
	for alice in "${ids[0]}" "${ids[1]}" "${ids[6]}"; do
		wait_until 30 job_is "$alice" RUNNING
	done
	ss_same_soon -h -a -t all -u "$uid" -w n1 -o '%A %t'
	assert_contains "$(<"$work/compared")" "${ids[0]} R"
	assert_lacks "$(<"$work/compared")" "${ids[6]}"
	ss_same_soon -h -a -t all -u "$uid" -w n2 -o '%A %t'
	assert_contains "$(<"$work/compared")" "${ids[1]} R"
	ss_same_soon -h -a -u "$uid" -t PD,R,S,CF -o "$format"
	assert_contains "$(<"$work/compared")" "JobHeldUser|a name|b"
	assert_contains "$(<"$work/compared")" "|2-00:00:00|main|BeginTime|"
	assert_contains "$(<"$work/compared")" "|Dependency|"
	for alice in "${ids[@]}" "$id" 4000000; do
		ss_same_soon -h -t R -o '%A %i %D' -j "$alice"
		ss_same_soon -h -a -t all -o '%A %t' -j "$alice"
		ss_same_soon -h -a -t all -o '%A %t' -u "$uid" -w n1 -j "$alice"
	done
	ss_same_soon -h -t all -o '%A %t' -j "${ids[0]},${ids[2]},$id,4000000"
	assert_contains "$(<"$work/compared")" "$id F"
	ss_same_soon -h -a -t all -u "$uid" -w nowhere -o '%A %t'
	assert_contains "$(as_on alice n1 "$(ss_program)" -h -j 4000000 -o %A 2>&1 || echo "ended with $?")" \
		$'Invalid job id specified\nended with 3'
	assert_contains "$(as_on alice n1 "$(ss_program)" -h -w nowhere -o %A 2>&1 || echo "ended with $?")" "ended with 3"
}

# Fails where the count begins at 1, and where the list is sorted.
test_stage_slurm_knows_places_in_lists() {
	local list names node

	for list in n1 'n[1-3]' 'm,n[007-012],a' 'r[0-1]c[0-3],x' 'n[1-3,7],m'; do
		names=$(on n1 scontrol show hostnames "$list")
		assert_eq "$names" "$(on n1 "$(ss_program)" show hostnames "$list")" "the names of $list"
		for node in $names; do
			assert_eq "$(($(grep -nxF "$node" <<<"$names" | cut -d: -f1) - 1)) $(wc -l <<<"$names")" \
				"$(on n1 "$(ss_program)" place "$node" "$list")" "the place of $node in $list"
		done
		assert_not on n1 "$(ss_program)" place nowhere "$list"
	done
}

# ss_reaped: a job's data is reaped, of which nobody but Slurm knows that it is over. Prints what
# the reaper says.
ss_reaped() {
	local id

	need_fuse
	forgive_crashes n1
	id=$(dk_begin n1)
	dk_without_plugin n1
	on n1 kill -KILL "$(dk_keeper_pid n1 "$id")"
	let_go "$id"
	job_done "$id"
	dk_reap
	assert job_nodes_clean "$id"
	assert_eq "" "$(on n1 find /srv/local -name "stage-data-$id*")" "what is left on the disk"
}

# ss_status_is_known: stagectl asks Slurm how many nodes the job has
ss_status_is_known() {
	local id out

	id=$(job_submit alice -w n1,n2 -N 2 --stage-data="t=$data/many.tar" <<<"echo begun; $until_let_go")
	job_wait_says "$id" begun
	out=$(as alice env "SLURM_JOB_ID=$id" stagectl status --all-nodes 2>&1) || fail "$out"
	assert_match "$out" 'n1 .*ready'
	assert_match "$out" 'n2 .*ready'
	let_go "$id"
	job_done "$id"
}

# ss_cover FILE PROGRAM: on the nodes where the tests ask
ss_cover() {
	local node

	for node in ctl n1; do
		on $node mount --bind "$1" "$2"
		at_end "on $node umount '$2'"
	done
}

readonly test_slurm_is_asked_without_squeue_seconds=120
# Fails where stage-slurm is not asked.
test_slurm_is_asked_without_squeue() {
	ss_cover /dev/null /usr/bin/squeue
	assert_not on n1 squeue
	ss_status_is_known
	ss_reaped
}

readonly test_squeue_is_asked_without_stage_slurm_seconds=240
# As without the plugin's package, and with that of another release of Slurm.
# Fails where squeue is not asked after it.
test_squeue_is_asked_without_stage_slurm() {
	local said

	sed 's/libslurm\.so\.[0-9]*/libslurm.so.XX/' "$(ss_program)" >"$pfs/other-stage-slurm"
	chmod 0755 "$pfs/other-stage-slurm"
	at_end "rm -f '$pfs/other-stage-slurm'"
	ss_cover /dev/null "$(ss_program)"
	assert_not on n1 "$(ss_program)" place n1 'n[1-2]'
	ss_status_is_known
	ss_reaped
	ss_cover /srv/pfs/other-stage-slurm "$(ss_program)"
	said=$(on n1 "$(ss_program)" place n1 'n[1-2]' 2>&1 || true)
	assert_contains "$said" "cannot open shared object file"
	ss_status_is_known
	ss_reaped
}
