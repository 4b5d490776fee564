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

# Fails when a tar's size counts as unknown until it is written: it was written to memory, then to disk.
test_what_is_larger_than_the_limit_is_not_begun() {
	local id out

	set_limit "source pfs" MaxBytes=20M
	mkdir "$pfs/large"
	at_end "rm -rf '$pfs/large' '$pfs/large.tar'"
	head -c 38M /dev/urandom | split -b 32K -a 4 - "$pfs/large/"
	tar -C "$pfs/large" -cf "$pfs/large.tar" .
	chmod 0644 "$pfs/large.tar"
	id=$(job_submit alice -w n1 --stage-data="l=/srv/pfs/large.tar" <<<'echo begun')
	job_failed "$id"
	out=$(job_output "$id")
	assert_lacks "$out" begun
	assert_match "$out" "takes at least 3[0-9.]* MiB, the limit for one dataset is 20(\.0)? MiB"
	assert_one_sentence "$out"
	assert_contains "$(grep "job=$id " "$base/node/n1/log/stage-data.log")" " bytes=0 "
}

# Fails when another tier is tried with what no tier may have.
test_a_limit_is_the_same_in_every_tier() {
	local id

	set_limit "source pfs" MaxBytes=20M
	mkdir "$pfs/zeros"
	at_end "rm -rf '$pfs/zeros' '$pfs/zeros.tar.gz'"
	head -c 38M /dev/zero | split -b 64K -a 4 - "$pfs/zeros/"
	tar -C "$pfs/zeros" -czf "$pfs/zeros.tar.gz" .
	chmod 0644 "$pfs/zeros.tar.gz"
	id=$(job_submit alice -w n1 --stage-data="z=/srv/pfs/zeros.tar.gz" <<<'echo begun')
	job_failed "$id"
	assert_contains "$(job_output "$id")" "larger than the limit of 20.0 MiB for one dataset"
	assert_lacks "$(grep "job=$id " "$base/node/n1/log/stage-data.log")" "planning again"
}
