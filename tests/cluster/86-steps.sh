# All ways to start something: arrays, heterogeneous components, parallel steps, salloc, and srun
# without sbatch.

# Fails when two jobs are taken for one.
test_array_tasks_are_jobs_of_their_own() {
	local id i

	id=$(job_submit alice --array=1-4 -o '%A_%a.out' --stage-data="t=$data/many.tar" \
		<<<'echo "$SLURM_ARRAY_TASK_ID $(ls $STAGE_DATA_PATH_T | wc -l) $STAGE_DATA_DIR"')
	for i in 1 2 3 4; do
		job_done "${id}_$i"
		assert_match "$(cat "$pfs/home/alice/${id}_$i.out")" "^$i 20 "
	done
	assert_eq 4 "$(cut -d' ' -f3 "$pfs/home/alice/${id}"_?.out | sort -u | wc -l)" "directories"
}

# Fails when a component's options are not forgotten for the next.
test_components_stage_their_own_values() {
	local id

	id=$(job_submit alice -o het.out <<-'EOS'
	#!/bin/bash
	#SBATCH -N1 -n1 --stage-data=a=/srv/pfs/data/many.tar
	#SBATCH hetjob
	#SBATCH -N1 -n1 --stage-data=b=/srv/pfs/data/flat
	srun --het-group=0 bash -c 'echo "0 $STAGE_DATA_NAMES $(ls $STAGE_DATA_PATH_A | wc -l)"'
	srun --het-group=1 bash -c 'echo "1 $STAGE_DATA_NAMES $(ls $STAGE_DATA_PATH_B | wc -l)"'
	EOS
	)
	job_done "$id"
	assert_contains "$(cat "$pfs/home/alice/het.out")" "0 a 20"
	assert_contains "$(cat "$pfs/home/alice/het.out")" "1 b 10"
}

# Fails when the end of a step cleans up.
test_overlapping_steps_share_it() {
	local out

	out=$(job_run alice -N2 --ntasks-per-node=2 --stage-data="t=$data/many.tar" <<-'EOS'
	srun -N2 --overlap bash -c 'sleep 1; echo "a $(ls $STAGE_DATA_PATH_T | wc -l)"' &
	srun -N2 --overlap bash -c 'echo "b $(ls $STAGE_DATA_PATH_T | wc -l)"' &
	srun -N1 -n1 --overlap bash -c 'echo "c $(ls $STAGE_DATA_PATH_T | wc -l)"' &
	wait
	EOS
	)
	assert_eq 4 "$(grep -c '^a 20$' <<<"$out")" "tasks of a"
	assert_eq 4 "$(grep -c '^b 20$' <<<"$out")" "tasks of b"
	assert_eq 1 "$(grep -c '^c 20$' <<<"$out")" "tasks of c"
}

# Fails when the step does not get it by srun's environment.
test_srun_alone_stages() {
	local out

	out=$(as alice srun -N2 --ntasks-per-node=2 --stage-data="t=$data/many.tar" \
		bash -c 'ls $STAGE_DATA_PATH_T | wc -l' 2>"$work/err")
	cat "$work/err"
	assert_eq "20 20 20 20" "$(paste -sd' ' <<<"$out")" "what tasks see"
}

# Fails when the end of stagectl does not count.
test_srun_alone_fails_with_one_sentence() {
	local status=0

	as alice srun -N1 --stage-data="t=$data/bad/half.tar.gz" echo begun \
		>"$work/out" 2>"$work/err" || status=$?
	assert_not grep begun "$work/out"
	assert_contains "$(cat "$work/err")" half.tar.gz
	((status != 0)) || fail "srun says success"
}

# Fails when salloc publishes nothing.
test_salloc_stages_for_its_steps() {
	local out

	out=$(as alice salloc -N2 --stage-data="t=$data/many.tar" bash -c '
		srun -N2 bash -c "ls \$STAGE_DATA_PATH_T | wc -l"; srun -N2 stagectl wait -q && echo ready' 2>&1)
	assert_eq 2 "$(grep -c '^20$' <<<"$out")" "nodes that see it in: $out"
	assert_contains "$out" ready
}

# Its shell is on none of the nodes, also where there is one alone. Fails where the number of nodes
# decides.
test_salloc_asks_its_only_node() {
	local out

	out=$(as alice salloc -N1 --stage-data="t=$data/many.tar" bash -c '
		stagectl wait -q --all-nodes && stagectl status --all-nodes && stagectl wait -q || echo "here $?"' 2>&1)
	assert_match "$out" $'\n/run/[^\n]*/t\n.*n1 +t +ready'
	assert_contains "$out" "here 5"
}

# Fails when the batch script alone is given the variables.
test_export_none() {
	local out

	out=$(job_run alice --export=NONE -N2 --stage-data="t=$data/many.tar" <<-'EOS'
	echo "batch $(ls $STAGE_DATA_PATH_T | wc -l)"
	srun -N2 /bin/bash -c 'echo "step $(ls $STAGE_DATA_PATH_T | wc -l)"'
	srun -N2 --export=NONE /bin/bash -c 'echo "step $(ls $STAGE_DATA_PATH_T | wc -l)"'
	EOS
	)
	assert_contains "$out" "batch 20"
	assert_eq 4 "$(grep -c '^step 20$' <<<"$out")" "tasks"
}

# Fails when STAGE_DATA is not looked at.
test_the_environment_gives_the_option() {
	local out

	out=$(as alice env STAGE_DATA="t=$data/many.tar" srun -N1 bash -c 'ls $STAGE_DATA_PATH_T | wc -l')
	assert_contains "$out" 20
	out=$(as alice env STAGE_DATA="t=$data/many.tar" srun -N1 --stage-data="t=$data/flat" \
		bash -c 'ls $STAGE_DATA_PATH_T | wc -l')
	assert_contains "$out" 10
}

# Fails when the command line adds to the script without a "+".
test_the_command_line_replaces_adds_or_cancels() {
	local script='#!/bin/bash
#SBATCH --stage-data=a=/srv/pfs/data/flat
echo "names $STAGE_DATA_NAMES"'

	assert_contains "$(job_run alice <<<"$script")" "names a"
	assert_match "$(job_run alice --stage-data="b=$data/many.tar" <<<"$script")" 'names b$'
	assert_match "$(job_run alice --stage-data="+b=$data/many.tar" <<<"$script")" 'names a[, ]b'
	assert_match "$(job_run alice --stage-data=none <<<"$script")" 'names $'
}

# Fails when the outer job's spec is not taken out of the environment.
test_a_job_in_a_job_inherits_nothing() {
	local out id

	out=$(job_run alice --stage-data="t=$data/many.tar" \
		<<<'sbatch --parsable -o inner.out --wrap "echo names \$STAGE_DATA_NAMES; ls -d /run/stage-data/\$SLURM_JOB_ID 2>/dev/null; true"')
	id=$(tail -n 1 <<<"$out")
	job_done "$id"
	assert_lacks "$(cat "$pfs/home/alice/inner.out")" "/run/stage-data/$id"
}

# Fails when paths are relative to /.
test_variables_and_relative_paths_are_expanded_at_submission() {
	local out

	cp "$pfs/data/many.tar" "$pfs/home/alice/mine.tar"
	chown 4001:4001 "$pfs/home/alice/mine.tar"
	out=$(job_run alice <<-'EOS'
	#!/bin/bash
	#SBATCH --stage-data=a=$HOME/mine.tar
	#SBATCH --stage-data=b=~/mine.tar
	#SBATCH --stage-data=c=mine.tar
	ls $STAGE_DATA_PATH_A $STAGE_DATA_PATH_B $STAGE_DATA_PATH_C | grep -c '^[0-9]'
	EOS
	)
	assert_contains "$out" 60
}

# Fails when --all-nodes asks this one.
test_status_of_all_nodes() {
	local out

	out=$(job_run alice -N3 --stage-data="t=$data/many.tar" <<<'stagectl status --all-nodes; stagectl wait --all-nodes -q; echo "status $?"')
	assert_contains "$out" n1
	assert_contains "$out" n2
	assert_contains "$out" n3
	assert_contains "$out" "status 0"
}

# Fails when a login node has to be told how many nodes the job has.
test_status_of_all_nodes_from_a_login_node() {
	local id out

	id=$(job_submit alice -N2 --stage-data="t=$data/many.tar" <<<"echo begun; $until_let_go")
	job_wait_says "$id" begun
	out=$(as alice env SLURM_JOB_ID="$id" stagectl status --all-nodes 2>&1) || fail "$out"
	assert_eq 2 "$(grep -c 'n[123].* ready' <<<"$out")"
	let_go "$id"
	job_done "$id"
	out=$(as alice env SLURM_JOB_ID="$id" stagectl status --all-nodes 2>&1) && fail "$out"
	assert_contains "$out" "is not running"
}

# Fails when its first component alone is asked for, which is no step of srun's.
test_status_of_all_components_from_a_login_node() {
	local id out

	id=$(job_submit alice -o het.out <<-EOS
	#!/bin/bash
	#SBATCH -N1 -n1 --stage-data=a=/srv/pfs/data/many.tar
	#SBATCH hetjob
	#SBATCH -N1 -n1 --stage-data=b=/srv/pfs/data/flat
	echo begun >>het.begun
	$until_let_go
	EOS
	)
	at_end "rm -f '$pfs/home/alice/het.begun'"
	wait_until 20 test -e "$pfs/home/alice/het.begun"
	out=$(as alice env SLURM_JOB_ID="$id" stagectl wait --all-nodes 2>&1) || fail "$out"
	out=$(as alice env SLURM_JOB_ID="$id" stagectl status --all-nodes 2>&1) || fail "$out"
	assert_match "$out" 'a +ready'
	assert_match "$out" 'b +ready'
	out=$(as alice env SLURM_JOB_ID="$((id + 1))" stagectl status --all-nodes 2>&1) && fail "$out"
	assert_contains "$out" "SLURM_JOB_ID=$id"
	let_go "$id"
	job_done "$id"
}

# Fails when a release leaves the data.
test_add_and_release_inside_a_job() {
	local out

	out=$(job_run alice --stage-data="t=$data/flat" <<-'EOS'
	stagectl add "x=/srv/pfs/data/many.tar" && stagectl wait -q x && ls "$(stagectl path x)" | wc -l
	stagectl release t && [[ ! -e $STAGE_DATA_PATH_T ]] && echo released
	EOS
	)
	assert_contains "$out" 20
	assert_contains "$out" released
}
