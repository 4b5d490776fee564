# A mistake of the user is reported in one clear sentence: by sbatch if sbatch can see the mistake,
# otherwise in the job's output. A mistake never drains a node.

# refused ITEM REGEX [SBATCH OPTION...]: sbatch refuses it with one sentence that matches
refused() {
	local item=$1 regex=$2 out

	shift 2
	out=$(job_refused alice "--stage-data=$item" "$@" <<<true)
	assert_match "$out" "$regex"
	assert_one_sentence "$out"
}

# fails ITEM REGEX [SBATCH OPTION...]: the job fails before its script begins
fails() {
	local item=$1 regex=$2 id out

	shift 2
	id=$(job_submit alice "--stage-data=$item" "$@" <<<'echo begun')
	job_failed "$id" 40
	out=$(job_output "$id")
	assert_lacks "$out" begun
	assert_match "$out" "$regex"
	assert_nodes_fine
}

test_a_missing_source_is_refused() { refused "t=$data/no-such.tar" 'no-such\.tar'; }
test_an_unreadable_source_is_refused_or_fails() {
	local id out

	if out=$(as alice sbatch --parsable --stage-data="t=$data/bad/unreadable.tar" --wrap 'echo begun' 2>&1); then
		id=${out##*$'\n'}
		echo "$id" >>"$work/jobs"
		job_failed "$id"
		out=$(job_output "$id")
	fi
	assert_match "$out" 'unreadable\.tar.*Permission denied'
}
test_a_source_that_no_rule_allows_is_refused() { refused "t=/etc/hostname" '/etc/hostname.*(source|rule|allow)'; }
test_an_unknown_option_is_refused() { refused "t=$data/tree.tar::metod=copy" metod; }
test_an_unknown_method_is_refused() { refused "t=$data/tree.tar::method=magic" magic; }
test_an_unknown_tier_is_refused() { refused "t=$data/tree.tar:ramdisk" ramdisk; }
test_a_digest_that_is_too_short_is_refused() { refused "t=$data/many.tar::verify=sha256:AB" '2 digits and sha256 has 64'; }
test_a_tier_that_the_rule_does_not_allow_is_refused() {
	site_conf <<<$'[source only]\nMatch=/srv/pfs/gate/**\nTiers=shm'
	sed -i 's|^Match=/srv/pfs/\*\*|Match=/srv/pfs/data/**|' "$base/etc/stage-data/stage-data.conf"
	refused "t=/srv/pfs/gate/many.tar:ssd" ssd
}
test_a_colon_in_a_path_is_refused_with_the_hint() { refused "/p/run:12/x.tar" '%3A'; }
test_a_url_with_a_colon_in_its_query_is_refused_with_the_hint() { refused 'https://h/a.tar?sig=a%2Bb&t=1:2' '%3A'; }
test_a_url_without_a_path_is_refused() { refused 'https://h:shm' 'path'; }
test_a_name_that_is_none_is_refused_with_another() { refused "my-set=$data/flat" my_set; }
test_two_names_for_one_variable_are_refused() { refused "Train=$data/flat,train=$data/many" '[Tt]rain'; }
test_an_equal_sign_before_the_slash_is_explained() { refused "year=2020/p.parquet" '\./year='; }
test_a_comma_in_a_pattern_is_explained() { refused "$data/*.{tar,zip}::include=*.a,*.b" 'include=\*\.\{a,b\}'; }
test_a_bucket_without_key_is_refused() { refused 's3://b' 'names a bucket and nothing in it'; }
test_plus_none_is_refused() { refused '+none' 'none'; }
test_an_undefined_variable_is_refused() { refused 't=$STAGE_NO_SUCH/x.tar' STAGE_NO_SUCH; }
test_a_value_of_40000_bytes_is_refused() { refused "t=$data/$(printf '%040000d' 0)" 'values have 400[0-9]{2} bytes together.*@@FILE'; }
test_too_many_items_are_refused() {
	site_conf <<<$'[limits]\nMaxItems=2'
	refused "$data/flat/00.bin,$data/flat/01.bin,$data/flat/02.bin" '2'
}
test_an_unknown_wait_is_refused() {
	local out

	out=$(job_refused alice --stage-wait=perhaps --stage-data="$data/flat" <<<true)
	assert_contains "$out" perhaps
}

test_a_missing_source_of_a_job_that_waits_is_a_warning() {
	local id

	id=$(job_submit alice --begin=now+1hour --stage-data="t=$data/comes-later.tar" <<<true 2>"$work/warning")
	assert_contains "$(cat "$work/warning")" comes-later.tar
	job_is "$id" PENDING || fail "not pending"
}

test_half_a_tar() { fails "t=$data/bad/half.tar" 't:.*half\.tar|half\.tar.*(truncated|end|damaged)'; }
test_half_a_tar_gz() { fails "t=$data/bad/half.tar.gz" half.tar.gz; }
test_half_a_tar_xz() { fails "t=$data/bad/half.tar.xz" half.tar.xz; }
test_half_a_tar_zst() { fails "t=$data/bad/half.tar.zst" half.tar.zst; }
test_half_an_image() { need_fuse; fails "t=$data/bad/half.gzip.sqsh" 'half\.gzip\.sqsh.*truncated'; }
# The mount is made while the image is checked. Fails when stagingd leaves what a failed worker has
# mounted.
test_a_damaged_image_leaves_no_mount() {
	local image=$pfs/data/bad/inodes.sqsh out

	need_fuse
	cp "$pfs/data/many.zstd.sqsh" "$image"
	at_end "rm -f $image"
	# Behind the header, which is read first, the inodes' first block
	dd if=/dev/urandom of="$image" bs=1 count=200 conv=notrunc status=none \
		seek=$(($(od -An -t u8 -j 64 -N 8 "$image") + 2))
	out=$(job_run alice -w n1 --stage-wait=no --stage-data="bad=$data/bad/inodes.sqsh,good=$data/many.zstd.sqsh" <<-'EOS'
	stagectl wait good && ls $STAGE_DATA_PATH_GOOD >/dev/null && echo good
	stagectl wait bad || echo "bad $?"
	grep -o "$SLURM_JOB_ID/m/[0-9]* fuse[^ ]*" /proc/mounts
	EOS
	)
	assert_match "$out" 'inodes\.sqsh.*image is damaged'
	assert_eq 1 "$(grep -c ' fuse' <<<"$out")" "mounts in $out"
	assert_contains "$out" $'\ngood\n'
	assert_contains "$out" $'\nbad 1\n'
}
test_flipped_bytes_in_a_tar_gz() { fails "t=$data/bad/flipped.tar.gz" flipped.tar.gz; }
test_flipped_bytes_in_a_tar_xz() { fails "t=$data/bad/flipped.tar.xz" flipped.tar.xz; }
test_an_empty_archive_file() { fails "t=$data/bad/empty.tar.gz" empty.tar.gz; }
test_an_empty_image() { fails "t=$data/bad/empty.sqsh" empty.sqsh; }
test_noise_named_tar() { fails "t=$data/bad/noise.tar" noise.tar; }
test_noise_named_image() { fails "t=$data/bad/noise.sqsh" noise.sqsh; }
test_text_named_tar_zst() { fails "t=$data/bad/text.tar.zst" text.tar.zst; }

# stays_inside NAME REGEX: it is refused by a sentence that matches, and nothing is written outside
# of the dataset. Beside it in the job's own memory only the job can look: what is there goes when
# it ends. The kernel keeps all of this inside, too, whatever is forgotten before: then only the
# sentence is another one.
stays_inside() {
	local id out

	id=$(job_submit alice -w n1 --stage-wait=no --stage-data="t=$data/bad/$1.tar" <<-'EOS'
	stagectl wait -q; echo "status $?"
	! grep -rqs ^root: "$STAGE_DATA_DIR" || echo "a file of the system is inside"
	find "${STAGE_DATA_DIR%/*}" -name escaped -printf 'beside it: %p\n' | grep -vF " $STAGE_DATA_PATH_T/" || true
	EOS
	)
	job_done "$id"
	out=$(job_output "$id")
	assert_lacks "$out" "is inside"
	assert_lacks "$out" "beside it"
	assert_eq "" "$(on n1 bash -c 'find /run /tmp /dev/shm /srv -name escaped')" "escaped files"
	assert_match "$out" "$1\.tar.*$2"
	assert_contains "$out" "status 1"
}

test_members_with_dotdot_stay_inside() { stays_inside dotdot 'escaped leads out by'; }
test_absolute_members_stay_inside() {
	local id out

	id=$(job_submit alice -w n1 --stage-wait=no --stage-data="t=$data/bad/absolute.tar" <<-'EOS'
	stagectl wait -q; echo "status $?"
	echo "inside: $(cat "$STAGE_DATA_PATH_T/tmp/escaped")"
	[ ! -e /tmp/escaped ] || echo "it is outside"
	EOS
	)
	job_done "$id"
	out=$(job_output "$id")
	assert_contains "$out" "status 0"
	assert_contains "$out" "inside: out"
	assert_lacks "$out" "it is outside"
}
test_members_through_links_stay_inside() { stays_inside through-link 'way is a file or a link in the archive'; }
test_hard_links_to_the_outside_are_not_made() { stays_inside hard-link-out 'is a hard link to etc/passwd, which is not in the archive'; }
test_devices_are_not_made() {
	local id out

	id=$(job_submit alice --stage-wait=no --stage-data="t=$data/bad/device.tar" \
		<<<'stagectl wait -q; echo "status $?"; [[ ! -c $STAGE_DATA_PATH_T/zero ]] && echo none')
	job_done "$id"
	out=$(job_output "$id")
	assert_contains "$out" none
	assert_match "$out" 'device\.tar.*zero is a device'
	assert_contains "$out" "status 1"
}

big_file() {
	[[ -e $pfs/data/big.bin ]] || head -c 200M /dev/urandom >"$pfs/data/big.bin"
}

test_too_big_for_the_memory_of_the_job() {
	need_cgroup
	big_file
	fails "t=$data/big.bin:shm" "the job's memory.*more --mem" --mem=100
	assert_not grep -qi oom "$base"/node/n1/log/slurmd.log
}

# Fails when a job is told to ask for memory that the node has not.
test_too_big_for_what_the_node_may_give() {
	local id

	big_file
	site_conf <<<$'[limits]\nKeepFreeMemory=900G'
	id=$(job_submit alice --mem=300 --stage-data="t=$data/big.bin:shm" <<<'echo begun')
	job_failed "$id" 40
	assert_match "$(job_output "$id")" 'the node has 0 B of memory to spare; try :ssd'
	assert_lacks "$(job_output "$id")" "more --mem"
}

# Fails when explain in a job goes by the node's memory.
test_explain_in_a_job_goes_by_its_memory() {
	local out

	need_cgroup
	big_file
	out=$(job_run alice -n1 --mem=100 --stage-data="t=$data/flat" \
		<<<"stagectl explain $data/big.bin:shm; echo status \$?; stagectl explain --mem 1G $data/big.bin:shm; echo status \$?")
	assert_match "$out" "needs 200 MiB, (datasets get at most|the site gives datasets) [0-9]+ % of the job's memory"
	assert_contains "$out" "status 7"
	assert_contains "$out" "status 0"
}

# Fails when the reason of a missing disk has no path.
test_a_tier_whose_directory_is_missing() {
	audit_own /srv/nowhere
	sed -i '/^\[tier ssd\]/,/^$/s|^Path=.*|Path=/srv/nowhere|' "$base/etc/stage-data/stage-data.conf"
	fails "t=$data/flat:ssd" "tier ssd: /srv/nowhere/stage-data-[0-9]+/data can't be made: No such file or directory"
}

test_too_big_for_the_limit_of_the_item() {
	big_file
	fails "t=$data/big.bin:shm:max=10M" '10(\.0)? ?M'
}

test_a_source_that_hangs_is_no_trap_for_sbatch() {
	local t0

	gate_close ctl
	t0=$(now_ms)
	as alice sbatch --parsable --hold --stage-data="t=/srv/pfs/gate/many.tar" --wrap true >>"$work/jobs" || true
	assert_le $(($(now_ms) - t0)) 5000 "ms of sbatch"
}

test_a_stalled_source_ends_at_its_limit() {
	gate_close n1
	fails "t=/srv/pfs/gate/many.tar::stall=2s" 't:' -w n1
}

test_a_timeout_ends_a_slow_source() {
	gate_close n1
	fails "t=/srv/pfs/gate/many.tar::timeout=2s" 't:' -w n1
}

# --- names that want to do something to a terminal ------------------------------------------------
#
# Red when text_escape() or the escapes of client/json.c let one of these through.

# An escape that sets the title, one that clears, a new line that looks like ours, C1,
# right-to-left, no UTF-8
readonly evil=$'\e]0;owned\a\e[2J\nstage-data: t: ready\t\xc2\x9b2J\xe2\x80\xaegnp\xff'

# assert_no_control TEXT: nothing that a terminal would act on, and UTF-8
assert_no_control() {
	local found

	found=$(LC_ALL=C grep -aP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xaa-\xae]|\xe2\x81[\xa6-\xa9]' \
		<<<"$1" | LC_ALL=C cat -v) || true
	assert_eq "" "$found" "control bytes"
	iconv -f UTF-8 -t UTF-8 <<<"$1" >/dev/null || fail "no UTF-8: $(LC_ALL=C cat -v <<<"$1")"
}

evil_data() {
	[[ -e $pfs/data/evil ]] || python3 - "$pfs/data" "$evil" <<-'EOS'
	import io, os, sys, tarfile
	top, name = sys.argv[1], os.fsencode(sys.argv[2]).decode("utf-8", "surrogateescape")
	def tar(path, names, data=b"1"):
	    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT, errors="surrogateescape") as t:
	        for n in names:
	            info = tarfile.TarInfo(n)
	            info.size = len(data)
	            t.addfile(info, io.BytesIO(data))
	tar(f"{top}/evil-out.tar", ["../" + name])
	tar(f"{top}/evil-twice.tar", [name + "/a", name])
	tar(f"{top}/evil-good.tar", [name + ".tar"], open(f"{top}/evil-out.tar", "rb").read())
	os.mkdir(f"{top}/evil")
	os.mkdir(f"{top}/evil/{name}")
	open(f"{top}/evil/{name}/closed{name}", "w").close()
	os.chmod(f"{top}/evil/{name}/closed{name}", 0)
	EOS
}

test_names_in_archives_do_nothing_to_a_terminal() {
	local item id

	evil_data
	for item in evil-out.tar evil-twice.tar; do
		id=$(job_submit alice --stage-data="t=$data/$item" <<<'echo begun')
		job_failed "$id" 40
		assert_no_control "$(job_output "$id")"
		assert_match "$(job_output "$id")" "$item.*(leads out|in another place)"
		assert_contains "$(job_output "$id")" '\x1b]0;owned\x07'
		assert_eq 1 "$(job_output "$id" | grep -c 'stage-data: ')" "lines of ours"
	done
	assert_nodes_fine
}

test_names_of_files_do_nothing_to_a_terminal() {
	local id

	evil_data
	id=$(job_submit alice --stage-data="t=$data/evil" <<<'echo begun')
	job_failed "$id" 40
	assert_no_control "$(job_output "$id")"
	assert_match "$(job_output "$id")" 'may not be read: .*x1b.*closed'
}

test_stagectl_shows_no_control_bytes_and_sound_json() {
	local id out

	evil_data
	id=$(job_submit alice --stage-wait=no --stage-data="t=$data/evil-out.tar,g=$data/evil-good.tar" <<-'EOS'
	stagectl wait t; echo "wait $?"
	stagectl wait g; echo "wait $?"
	stagectl status
	stagectl log
	stagectl explain t
	stagectl explain g
	echo "json $(stagectl status --json | tr -d '\n')"
	EOS
	)
	job_done "$id"
	out=$(job_output "$id")
	assert_no_control "$out"
	assert_contains "$out" 'leads out'
	assert_match "$out" '(member is an archive itself|members are archives themselves) .*x1b.*owned'
	sed -n 's/^json //p' <<<"$out" | python3 -c '
import json, sys
found = json.load(sys.stdin)
assert [d["state"] for d in found["datasets"]] == ["failed", "ready"], found
assert "owned" in found["datasets"][0]["reason"], found' || fail "json: $out"
}

test_values_with_control_bytes_are_refused_and_shown_escaped() {
	local bytes out

	for bytes in $'\e[31m' $'\n' $'\t' $'\r' $'\x7f' $'\xc2\x9b' $'\xe2\x80\xae' $'\xff' $'\xc0\xaf'; do
		out=$(job_refused alice "--stage-data=t=$data/no$bytes.tar" <<<true)
		assert_no_control "$out"
		assert_match "$out" 'no\\x'
		out=$(job_refused alice "--stage-data=t=$data/tree.tar::met${bytes}od=copy" <<<true)
		assert_no_control "$out"
		[[ $bytes == $'\n' || $bytes == $'\r' ]] ||
			assert_no_control "$(job_refused alice <<<$'#!/bin/bash\n#SBATCH --stage-data=t=/p/no'"$bytes"$'.tar\ntrue')"
		assert_no_control "$(as alice env STAGE_DATA="t=/p/no$bytes.tar" sbatch --parsable --wrap true 2>&1)"
		assert_no_control "$(as alice stagectl explain "t=/p/no$bytes.tar" 2>&1)"
		assert_no_control "$(as alice stagectl "no$bytes" 2>&1)"
	done
}
