# What an administrator relies on while staging is tried: limits that hold, nodes that don't have the plugin yet, and what
# the log says of it.
# shellcheck shell=bash

set_limit() {
	sed -i "s/^\[$1\]/&\n$2/" "$base/etc/stage-data/stage-data.conf"
}

# Fails when one open partition of several is enough: Slurm may start the job in the other one.
test_a_job_that_may_start_elsewhere_passes_no_canary() {
	local out partitions

	set_limit daemon Partitions=main
	for partitions in main,other other,main; do
		out=$(job_refused alice -p $partitions --stage-data="t=$data/flat" <<<true)
		assert_contains "$out" "may start in partition other, which has no staging"
		assert_one_sentence "$out"
	done
	out=$(job_refused alice -p main -p other --stage-data="t=$data/flat" <<<true)
	assert_contains "$out" "partition other has no staging"
	job_run alice -p other -p main --stage-data="t=$data/flat" <<<'test -e $STAGE_DATA_PATH_T/00.bin'
}
