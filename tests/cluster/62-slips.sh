# What people mistype, forget or mean otherwise: sbatch says what was meant, before the job waits in a queue.
# shellcheck shell=bash

# slip TYPED MEANT: sbatch refuses TYPED, in one sentence that ends with MEANT, which it takes
slip() {
	local out id

	out=$(job_refused alice "--stage-data=$1" <<<true)
	assert_contains "$out" "'$2'"
	assert_one_sentence "$out"
	id=$(job_submit alice --hold "--stage-data=$2" <<<true)
	on ctl scancel "$id"
}

test_a_slip_is_answered_by_an_item_to_paste() {
	slip "$data/many.tar:shm+keep=2h" "$data/many.tar:shm:keep=2h"
	slip "$data/many.tar:shm:strip=1:nested" "$data/many.tar:shm:strip=1+nested"
	slip "$data/many.tar: ssd" "$data/many.tar:ssd"
	slip "shm:$data/many.tar" "$data/many.tar:shm"
	slip "$data/many.tar+strip=1" "$data/many.tar::strip=1"
	slip "$data/many.tar,nested" "$data/many.tar::nested"
	slip "flat:$data/flat" "flat=$data/flat"
}

test_a_comma_in_a_name_is_explained() {
	cp "$pfs/data/flat/00.bin" "$pfs/home/alice/a,b.bin"
	at_end "rm -f '$pfs/home/alice/a,b.bin'"
	slip "/srv/pfs/home/alice/a,b.bin" "/srv/pfs/home/alice/a%2Cb.bin"
}

test_braces_that_the_shell_expanded_are_warned_of() {
	local id

	id=$(job_submit alice --hold --stage-data=$data/flat/0{0..5}.bin <<<true)
	on ctl scancel "$id"
	assert_contains "$(cat "$work/sbatch.err")" "--stage-data='$data/flat/0{0..5}.bin'"
}
