# The ground the other tests stand on: jobs without the option run as they always did.
# shellcheck shell=bash

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
	assert_not timeout 1 "$cluster" as alice n2 cat /srv/pfs/gate/01.bin
	gate_open n2
	assert cmp <(as_on alice n2 cat /srv/pfs/gate/01.bin) "$pfs/gate/01.bin"
}
