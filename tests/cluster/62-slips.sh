# Mistakes that people make when they type the option. sbatch prints the corrected option, before
# the job is in the queue.

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

test_a_name_like_a_pattern_is_a_name() {
	local dir=$pfs/home/alice/names path=/srv/pfs/home/alice/names out item

	mkdir "$dir" "$dir/in[1]"
	at_end "rm -rf '$dir'"
	echo literal >"$dir/run[1].bin"
	echo fits >"$dir/run1.bin"
	echo star >"$dir/a*{b}?.bin"
	echo dollar >"$dir/a\$b.bin"
	echo below >"$dir/in[1]/x"
	chown -R 4001:4001 "$dir"
	for item in "$path/run[1].bin literal" "$path/run%5B1%5D.bin literal" "$path/a*{b}?.bin star" \
		"$path/a%24b.bin dollar" "$path/in[1]/x below"; do
		out=$(job_run alice --stage-data="t=${item% *}" <<<'cat "$STAGE_DATA_PATH_T"')
		assert_eq "$out" "${item##* }"
	done
	job_run alice --stage-data="t=$path/run[1].bin" <<<true
	assert_contains "$(cat "$work/sbatch.err")" "is staged as the file of this name"
	out=$(job_refused alice --stage-data="t=$path/a\$b.bin" <<<true)
	assert_contains "$out" "a \$ of a name is written %24"
}

test_braces_that_the_shell_expanded_are_warned_of() {
	local id

	id=$(job_submit alice --hold --stage-data=$data/flat/0{0..5}.bin <<<true)
	on ctl scancel "$id"
	assert_contains "$(cat "$work/sbatch.err")" "--stage-data='$data/flat/{00..05}.bin'"
}

# warned REGEX ITEM [SBATCH OPTION...]: sbatch takes it, and warns
warned() {
	local regex=$1 item=$2 id

	shift 2
	id=$(job_submit alice --hold "--stage-data=$item" "$@" <<<true)
	on ctl scancel "$id"
	assert_match "$(cat "$work/sbatch.err")" "warning: $regex"
}

test_what_sbatch_knows_it_says() {
	local out

	out=$(job_refused alice "--stage-data=t=$data/flat/no-*.bin" <<<true)
	assert_contains "$out" "$data/flat/no-*.bin: no file fits this pattern"
	out=$(job_refused alice "--stage-data=t=$data/flat/{00..77}.bin" <<<true)
	assert_contains "$out" "the first or the last is not there"
	warned 't: .* has .*, but datasets get at most .* in memory \(shm\)' "t=$data/many.tar:shm" --mem=2
	warned 't: keep= has no effect: what is in memory goes with the job' "t=$data/flat:shm:keep=2h"
	warned 't: keep= has no effect: nothing is kept between jobs here' "t=$data/flat::keep=2h"
	warned 't: DEST ssd has no effect: method=link' "t=$data/flat:ssd:method=link"
	sed -i '/^Path=/a MaxKeep=1h' "$base/etc/stage-data/stage-data.conf"
	out=$(job_submit alice --hold "--stage-data=t=$data/flat::keep=2h" <<<true)
	on ctl scancel "$out"
	assert_lacks "$(cat "$work/sbatch.err")" warning
}

test_explain_has_slurms_units_and_speaks_of_keep() {
	local out

	out=$(as alice stagectl explain --mem 300 "$data/flat:shm")
	assert_contains "$out" "plan  copy to memory"
	out=$(as alice stagectl explain "$data/flat:shm:keep=2h")
	assert_contains "$out" "keep  no: what is in memory goes with the job"
	sed -i '/^Path=/a MaxKeep=1h' "$base/etc/stage-data/stage-data.conf"
	out=$(as alice stagectl explain "$data/flat:ssd:keep=2h")
	assert_contains "$out" "keep  for 1:00:00 after the last job that used it: the site's MaxKeep="
	out=$(as alice stagectl explain --json "$data/flat:ssd:keep=10m")
	assert_contains "$out" '"keep":"for 10:00 after the last job that used it"'
}

test_run_under_a_umask_that_takes_ones_own_rights() {
	local out

	as_on alice n1 bash -c "umask 177; stagectl run -q --stage-data='t=$data/flat' -- bash -c umask" >"$work/out" 2>&1 || true
	assert_contains "$(cat "$work/out")" 0177
	out=$(as_on alice n1 stagectl run -q --stage-data="t=$data/flat" -- bash -c 'ls $STAGE_DATA_PATH_T | wc -l')
	assert_eq 10 "$out" files
}

# Intel MPI's and MPICH's variables, with a script for each rank: no process but the launcher is
# common to them.
test_run_in_a_script_for_each_rank_stages_once() {
	local out

	cat >"$pfs/home/alice/rank.sh" <<-EOF
	stagectl run -q --stage-data=t=$data/flat -- bash -c 'stat -c %i \$STAGE_DATA_PATH_T'
	:
	EOF
	at_end "rm -f '$pfs/home/alice/rank.sh'"
	out=$(as_on alice n1 bash -c 'for i in 0 1 2; do
			MPI_LOCALRANKID=$i MPI_LOCALNRANKS=3 bash -c "bash /srv/pfs/home/alice/rank.sh; :" &
		done; wait')
	assert_eq 3 "$(wc -l <<<"$out")" tasks
	assert_eq 1 "$(sort -u <<<"$out" | wc -l)" copies
}

test_run_without_dev_shm_says_what_helps() {
	local out status=0

	out=$(on n1 unshare -m bash -c "mount -o bind,ro /dev/shm /dev/shm; mount -o remount,bind,ro /dev/shm
		setpriv --reuid alice --regid alice --init-groups env -u TMPDIR $prefix/bin/stagectl run --stage-data=t=$data/flat -- true" 2>&1) ||
		status=$?
	assert_eq 1 "$status" "exit status"
	assert_contains "$out" "/dev/shm is not writable"
	assert_contains "$out" "by --dir or TMPDIR"
	out=$(as_on alice n1 bash -c "mkdir -p /tmp/run.alice; stagectl run -q --dir /tmp/run.alice --stage-data=t=$data/flat -- \
		bash -c 'echo \$STAGE_DATA_DIR; ls \$STAGE_DATA_PATH_T | wc -l'; ls -A /tmp/run.alice; rmdir /tmp/run.alice")
	assert_contains "$out" /tmp/run.alice/stage-data-
	assert_contains "$out" 10
}

# The site's file as it is installed, with no [source]; in a user namespace root's files are
# nobody's.
test_run_needs_no_rule_and_works_in_a_container() {
	local out

	sed -i '/^.source pfs/,/^Match/d' "$base/etc/stage-data/stage-data.conf"
	out=$(as_on alice n1 stagectl run -q --stage-data="t=$data/flat" -- bash -c 'ls $STAGE_DATA_PATH_T | wc -l')
	assert_eq 10 "$out" files
	out=$(as_on alice n1 unshare -Ur stagectl run -q --stage-data="t=$data/many.tar" -- bash -c 'cat $STAGE_DATA_PATH_T/*/* | cksum')
	assert_contains "$out" " 4063000"
	site_conf <<<$'[daemon]\nRunRules=yes'
	out=$(as_on alice n1 stagectl run --stage-data="t=$data/flat" -- true 2>&1) && fail "the rules do not hold"
	assert_contains "$out" "this site allows no source"
}

# Seen failing where a run looks for a rule and does not obey it.
test_rules_hold_for_run_where_the_site_says_so() {
	local out

	site_conf <<<$'[daemon]\nRunRules=yes'
	sed -i "s|^Match=.*|Match=$data/flat/**\nMethods=copy\nTiers=shm|" "$base/etc/stage-data/stage-data.conf"
	out=$(as_on alice n1 stagectl run -q --stage-data="t=$data/flat" -- bash -c 'ls $STAGE_DATA_PATH_T | wc -l')
	assert_eq 10 "$out" files
	out=$(as_on alice n1 stagectl run --stage-data="t=$data/flat::method=link" -- true 2>&1) && fail "the methods do not hold"
	assert_contains "$out" "[source pfs]"
	out=$(as_on alice n1 stagectl run --stage-data="t=$data/many.tar" -- true 2>&1) && fail "the paths do not hold"
	assert_contains "$out" "no rule of the site matches"
}
