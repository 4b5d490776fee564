# With whatever PrologFlags: the same for the user.
# shellcheck shell=bash

works_with() {
	local out id

	prolog_flags "$1"
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

test_no_prolog_flags() { works_with none; }
test_prolog_flags_alloc() { works_with Alloc; }
test_prolog_flags_contain() { works_with Contain; }

test_a_step_on_one_node_of_a_job_without_prolog_flags() {
	local out

	prolog_flags none
	out=$(job_run alice -N3 --stage-wait=tasks --stage-data="t=$data/many.tar" \
		<<<'srun -N1 -n1 -w n2 bash -c "ls \$STAGE_DATA_PATH_T | wc -l"')
	assert_contains "$out" 20
}
