# keep=: data that a job has staged to disk stays for the next job of the same user on the node.

readonly local_dir=/srv/local

# keep_site [LINES]: what is kept goes with the test
keep_site() {
	cat >"$base/etc/stage-data/stage-data.conf" <<-CONF
	[daemon]
	LogFile=/var/log/stage-data.log
	[limits]
	KeepFreeMemory=64M
	[source pfs]
	Match=/srv/pfs/**
	${1:-}
	[tier shm]
	Kind=memory
	[tier ssd]
	Kind=disk
	Path=$local_dir
	MaxKeep=1h
	CONF
	at_end "for n in n1 n2 n3; do on \$n bash -c 'rm -rf $local_dir/stage-keep-*'; done"
}

# A source of alice's own, in $pfs/kept
own_source() {
	rm -rf "$pfs/kept"
	mkdir "$pfs/kept"
	cp -a "$pfs/data/flat" "$pfs/kept/tree"
	cp "$pfs/data/many.tar" "$pfs/kept/"
	chown -R 4001:4001 "$pfs/kept"
	at_end "rm -rf '$pfs/kept'"
}

# The staged files themselves: their inodes and when they were last changed
readonly what_it_is='find -L $STAGE_DATA_PATH_T -type f -printf "%i %C@\n" | sort | cksum | sed "s/^/is /"'

# staged OPTIONS...: of alice's job on n1
staged() {
	job_run alice -w n1 "$@" <<<"$what_it_is; stagectl explain t"
}

is() {
	grep -o '^is .*' <<<"$1"
}

n_kept() {
	on n1 bash -c "cd $local_dir/stage-keep-$1 2>/dev/null && ls -d [0-9a-f]*" 2>/dev/null | grep -cE '^[0-9a-f]{64}$' || true
}

unfinished() {
	on n1 bash -c "ls -d $local_dir/stage-keep-4001/{new,old}-* 2>/dev/null" || true
}

reap() {
	on n1 "$prefix/libexec/stage-data/stage-keeper" reap
}

all_is_gone() {
	reap
	! on n1 bash -c "ls -d $local_dir/stage-keep-*" &>/dev/null
}

# Fails when a tree goes by its name alone.
test_the_next_job_finds_it_until_the_source_changes() {
	local first second third

	keep_site
	own_source
	first=$(staged --stage-data="t=/srv/pfs/kept/tree:ssd:keep=30m,a=/srv/pfs/kept/many.tar:ssd:keep=30m")
	assert_eq 2 "$(n_kept 4001)"
	second=$(staged --stage-data="t=/srv/pfs/kept/tree::keep=10m")
	assert_eq "$(is "$first")" "$(is "$second")"
	assert_contains "$second" "kept by an earlier job"
	assert_contains "$(as_on alice n1 stagectl list --kept)" /srv/pfs/kept/many.tar
	assert_match "$(on n1 "$prefix/bin/stagectl" list --node)" 'kept=[0-9a-f]+ uid=4001 bytes=[1-9].* keep=1800 used=0 source=/srv/pfs/kept/'
	# a byte, and its time put back
	touch -r "$pfs/kept/tree/05.bin" "$work/time"
	printf x | dd of="$pfs/kept/tree/05.bin" conv=notrunc status=none
	touch -r "$work/time" "$pfs/kept/tree/05.bin"
	third=$(staged --stage-data="t=/srv/pfs/kept/tree:ssd:keep=30m")
	assert_lacks "$third" "kept by an earlier job"
	[[ $(is "$first") != "$(is "$third")" ]] || fail "the old data was used: $third"
	# what shapes it differs
	third=$(staged --stage-data="t=/srv/pfs/kept/tree:ssd:keep=30m+exclude=00.bin")
	assert_lacks "$third" "kept by an earlier job"
	wait_until 10 nodes_are_fine >/dev/null
}

# Fails when the place is made for others to list: nothing is kept there then.
test_nobody_gets_what_is_not_his() {
	local id out

	keep_site
	own_source
	staged --stage-data="t=/srv/pfs/kept/many.tar:ssd:keep=30m" >/dev/null
	out=$(job_run bob -w n1 --stage-data="t=/srv/pfs/kept/many.tar:ssd:keep=30m" \
		<<<"stagectl explain t; ls $local_dir/stage-keep-4001; true")
	assert_lacks "$out" "kept by an earlier job"
	assert_contains "$out" "Permission denied"
	assert_eq 1 "$(n_kept 4002)"
	assert_eq "drwx------ 4001" "$(on n1 stat -c '%A %u' $local_dir/stage-keep-4001)"
	# who may not read the source any more gets nothing
	id=$(job_submit alice -H -w n1 --stage-data="t=/srv/pfs/kept/many.tar:ssd:keep=30m" <<<'echo begun')
	chown 0:0 "$pfs/kept/many.tar"
	chmod 600 "$pfs/kept/many.tar"
	on ctl scontrol release "$id"
	job_failed "$id"
	assert_lacks "$(job_output "$id")" begun
	wait_until 10 nodes_are_fine >/dev/null
}

# Fails when what was kept is not checked against its fingerprint.
test_what_the_user_has_changed_is_staged_anew() {
	local out

	keep_site
	own_source
	out=$(job_run alice -w n1 --stage-data="t=/srv/pfs/kept/tree:ssd:keep=30m" <<-'EOS'
	chmod u+w $STAGE_DATA_PATH_T/03.bin 2>&1
	cd /srv/local/stage-keep-$UID/*/data && chmod u+w 03.bin && echo mine >03.bin
	EOS
	)
	assert_contains "$out" "Read-only file system"
	out=$(job_run alice -w n1 --stage-data="t=/srv/pfs/kept/tree:ssd:keep=30m" \
		<<<'cmp $STAGE_DATA_PATH_T/03.bin /srv/pfs/kept/tree/03.bin && echo equal')
	assert_contains "$out" equal
	# all sorts of rubbish, which goes at the end of the next job
	on n1 bash -c "cd $local_dir/stage-keep-4001 && mkdir -p x/y && chmod 0 x/y && ln -s /etc old-1 &&
		touch new-1 && chown -hR 4001:4001 x old-1 new-1"
	staged --stage-data="t=/srv/pfs/kept/tree:ssd:keep=30m" | grep -q "kept by an earlier job" || fail "not found"
	reap
	assert_eq 1 "$(on n1 ls $local_dir/stage-keep-4001 | wc -l)"
	wait_until 10 nodes_are_fine >/dev/null
}

# Fails when a sweep does not look for leases.
test_it_goes_when_it_is_due_and_not_while_it_is_used() {
	local id

	keep_site
	own_source
	id=$(job_submit alice -w n1 --stage-data="t=/srv/pfs/kept/many.tar:ssd:keep=1" \
		<<<'sleep 1.5; echo slept; until [[ -e /srv/pfs/kept/go ]]; do sleep 0.1; done
		ls $STAGE_DATA_PATH_T | wc -l | sed "s/^/there: /"')
	job_wait_says "$id" slept
	reap
	sleep 1.2 # a lease that was ended begins the time anew
	reap
	assert_eq 1 "$(n_kept 4001)"
	touch "$pfs/kept/go"
	job_done "$id"
	assert_contains "$(job_output "$id")" "there: 20"
	wait_until 20 all_is_gone
	wait_until 10 nodes_are_fine >/dev/null
}

# slow_site BYTES: a source that comes at 1 MB/s, in the middle of which is plenty of time
slow_site() {
	keep_site MaxRate=1M
	own_source
	head -c "$1" /dev/urandom >"$pfs/kept/big"
}

is_being_made() {
	[[ -n $(unfinished) ]]
}

# Fails when who finds it being made stages his own.
test_an_array_stages_it_once_and_who_comes_meanwhile_waits() {
	local ids id

	slow_site 3000000
	ids=$(job_submit alice -w n1 -a 1-4 -o "/srv/pfs/home/alice/keep-%a" \
		--stage-data="t=/srv/pfs/kept/big:ssd:keep=30m" <<<"$what_it_is")
	at_end "rm -f $pfs/home/alice/keep-*"
	wait_until 60 bash -c "[[ \$(cat $pfs/home/alice/keep-* 2>/dev/null | grep -c '^is ') == 4 ]]"
	for id in $(on ctl squeue -h -j "$ids" -o %A 2>/dev/null); do
		job_wait "$id"
	done
	assert_eq 1 "$(cat "$pfs"/home/alice/keep-* | sort -u | wc -l)" "kinds of data"
	assert_eq 1 "$(n_kept 4001)"
	wait_until 10 nodes_are_fine >/dev/null
}

# Once it came to lie there later than a dataset that left less than it takes. Fails when what is
# there is looked for only where there is room.
test_what_is_kept_is_found_where_no_room_is_left() {
	local id

	memory_site
	sed -i "s/^\\[limits\\]/&\\nMaxMemoryPercent=10/" "$base/etc/stage-data/stage-data.conf"
	own_source
	head -c 20000000 /dev/urandom >"$pfs/gate/late"
	at_end "rm '$pfs/gate/late'"
	head -c 90000000 /dev/urandom >"$pfs/kept/early"
	mksquashfs "$pfs/gate" "$pfs/kept/late.sqsh" -noappend -no-progress -quiet -noI -noD -noF -processors 1
	gate_close n1 /srv/pfs/kept/late.sqsh
	gate_open n1
	job_run alice -w n1 --mem=1000 --stage-data="t=/srv/pfs/gate/late:shm:keep=30m" <<<true >/dev/null
	assert_eq 1 "$(n_in_memory)"
	on n1 kill -STOP "$(cat "$work/gate.n1")"
	id=$(job_submit alice -w n1 --mem=1000 --stage-wait=no \
		--stage-data="t=/srv/pfs/gate/late:shm:keep=30m,early=/srv/pfs/kept/early:shm" <<-'EOS'
		stagectl wait early && echo the other is there
		stagectl wait
		cmp $STAGE_DATA_PATH_T /srv/pfs/gate/late && echo equal
		stagectl explain t
	EOS
	)
	job_wait_says "$id" "the other is there"
	gate_open n1
	job_done "$id"
	assert_contains "$(job_output "$id")" equal
	assert_contains "$(job_output "$id")" "kept by an earlier job in memory"
	wait_until 10 nodes_are_fine >/dev/null
}

# Fails when what was begun is never swept.
test_killed_in_the_middle_there_is_all_or_nothing() {
	local id what

	slow_site 30000000
	for what in stage-worker stage-keeper stage-manager; do
		[[ $what != stage-worker ]] && forgive_crashes n1
		id=$(job_submit alice -w n1 --stage-data="t=/srv/pfs/kept/big:ssd:keep=30m" <<<'echo begun')
		wait_until 20 is_being_made
		on n1 pkill -KILL -x $what || fail "no $what"
		job_wait "$id"
		assert_lacks "$(job_output "$id")" begun
		wait_until 20 job_nodes_clean "$id"
		reap
		assert_eq "" "$(unfinished)$(n_kept 4001 | sed 's/^0$//')" "after a kill of $what"
	done
	sed -i /MaxRate/d "$base/etc/stage-data/stage-data.conf"
	assert_contains "$(job_run alice -w n1 --stage-data="t=/srv/pfs/kept/big:ssd:keep=30m" \
		<<<'cmp $STAGE_DATA_PATH_T /srv/pfs/kept/big && echo equal')" equal
	assert_eq 1 "$(n_kept 4001)"
	wait_until 10 nodes_are_fine >/dev/null
}

# Fails when nothing is evicted.
test_what_is_unused_makes_room() {
	local out

	keep_site
	own_source
	on n1 mount -t tmpfs -o size=12m,mode=0755 tmpfs $local_dir
	at_end "on n1 umount -l $local_dir"
	head -c 7000000 /dev/urandom >"$pfs/kept/a"
	head -c 7000000 /dev/urandom >"$pfs/kept/b"
	job_run alice -w n1 --stage-data="t=/srv/pfs/kept/a:ssd:keep=30m" <<<true
	out=$(job_run alice -w n1 --stage-data="t=/srv/pfs/kept/b:ssd" <<<'cmp $STAGE_DATA_PATH_T /srv/pfs/kept/b && echo equal')
	assert_contains "$out" equal
	assert_eq 0 "$(n_kept 4001)"
	wait_until 10 nodes_are_fine >/dev/null
}

# Fails when memory is taken for a place to keep things.
test_where_nothing_is_kept_status_says_so() {
	local out

	keep_site
	out=$(job_run alice -w n1 --stage-data="t=$data/many.tar:shm:keep=1h" <<<'stagectl status t')
	assert_contains "$out" "what is in memory goes with the job"
	sed -i /MaxKeep/d "$base/etc/stage-data/stage-data.conf"
	out=$(job_run alice -w n1 --stage-data="t=$data/many.tar:ssd:keep=1h" <<<'stagectl status t')
	assert_contains "$out" "nothing is kept between jobs"
	assert_not on n1 bash -c "ls -d $local_dir/stage-keep-*"
}

# --- images that are mounted from a copy --------------------------------------------------------

# image_read [OPTIONS]: what a job of alice's reads of the image, by what it is mounted, and the
# plan
image_read() {
	job_run alice -w n1 --stage-data="t=/srv/pfs/kept/i.sqsh:ssd:keep=30m${1:-}" \
		<<<'echo "sum $(cat $STAGE_DATA_PATH_T/*/* | cksum)"; grep -o "$SLURM_JOB_ID/m/.* fuse" /proc/self/mounts; stagectl status t; stagectl explain t'
}

kept_image() {
	on n1 bash -c "ls $local_dir/stage-keep-4001/*/data"
}

# Fails when the copy is not moved to where it stays.
test_an_image_that_is_mounted_from_its_copy_is_kept() {
	local out sum inode

	keep_site
	own_source
	cp "$pfs/data/many.zstd.sqsh" "$pfs/kept/i.sqsh"
	sum="sum $(cat "$pfs"/data/many/*/* | cksum)"
	out=$(image_read)
	assert_contains "$out" "$sum"
	assert_contains "$out" fuse
	assert_eq 1 "$(n_kept 4001)"
	inode=$(on n1 stat -c %i "$(kept_image)")
	assert cmp "$pfs/kept/i.sqsh" <(on n1 cat "$(kept_image)")
	out=$(image_read)
	assert_contains "$out" "$sum"
	assert_contains "$out" fuse
	assert_contains "$out" "kept by an earlier job on ssd"
	assert_eq "$inode" "$(on n1 stat -c %i "$(kept_image)")"
	touch "$pfs/kept/i.sqsh"
	out=$(image_read)
	assert_contains "$out" "$sum"
	assert_not grep -q "kept by an earlier job" <<<"$out"
	out=$(image_read +hydrate=copy)
	assert_contains "$out" "$sum"
	assert_contains "$out" "leave hydrate=copy out"
	wait_until 10 nodes_are_fine >/dev/null
}

# Fails when the job fails in place of copying it again, when it asks the disk for the image's size
# twice, and when the next one finds it once more.
test_a_kept_image_that_is_damaged_is_copied_again() {
	local out sum

	keep_site
	own_source
	cp "$pfs/data/many.zstd.sqsh" "$pfs/kept/i.sqsh"
	echo "Quota=$(($(stat -c %s "$pfs/kept/i.sqsh") * 3 / 2))" >>"$base/etc/stage-data/stage-data.conf"
	sum="sum $(cat "$pfs"/data/many/*/* | cksum)"
	image_read >/dev/null
	on n1 bash -c "touch -r $(kept_image) /tmp/then; dd if=/dev/zero of=$(kept_image) bs=96 count=1 conv=notrunc status=none; touch -r /tmp/then $(kept_image); rm /tmp/then"
	out=$(image_read)
	assert_contains "$out" "$sum"
	assert_contains "$out" "the kept copy of an earlier job is not used"
	assert_not grep -q "kept by an earlier job" <<<"$out"
	out=$(image_read)
	assert_contains "$out" "$sum"
	assert_not grep -q "not used" <<<"$out"
	assert_contains "$(image_read)" "kept by an earlier job on ssd"
	wait_until 10 nodes_are_fine >/dev/null
}

# --- in memory ------------------------------------------------------------------------------------

readonly memory_dir=/srv/stage-keep

# memory_site [SIZE]: as keep_site, and what is in memory is kept in a tmpfs of that size
memory_site() {
	keep_site
	audit_own $memory_dir # a tier, too
	sed -i "s|^Kind=memory|&\nPath=$memory_dir\nMaxKeep=1h|" "$base/etc/stage-data/stage-data.conf"
	on n1 mkdir -p $memory_dir
	on n1 mount -t tmpfs -o size="${1:-64m}",mode=0755,nosuid,nodev tmpfs $memory_dir
	at_end "on n1 umount -l $memory_dir"
}

n_in_memory() {
	on n1 bash -c "ls -d $memory_dir/stage-keep-4001/[0-9a-f]*" 2>/dev/null | grep -cE '/[0-9a-f]{64}$' || true
}

# Fails when the disk's MaxKeep= is asked.
test_what_is_in_memory_is_there_for_the_next_job() {
	local first second

	memory_site
	own_source
	sed -i '/tier ssd/,$s/^MaxKeep=.*/MaxKeep=0/' "$base/etc/stage-data/stage-data.conf"
	first=$(staged --mem=200 --stage-data="t=/srv/pfs/kept/tree:shm:keep=30m,a=/srv/pfs/kept/many.tar:shm:keep=2h")
	assert_lacks "$first" "not kept"
	assert_eq 2 "$(n_in_memory)"
	assert_eq "" "$(on n1 find $memory_dir -maxdepth 1 -name 'stage-data-*')" "of the job that is over"
	second=$(staged --mem=200 --stage-data="t=/srv/pfs/kept/tree::keep=10m")
	assert_eq "$(is "$first")" "$(is "$second")"
	assert_contains "$second" "kept by an earlier job in memory"
	assert_contains "$(as_on alice n1 stagectl list --kept)" /srv/pfs/kept/many.tar
	assert_match "$(on n1 "$prefix/bin/stagectl" list --node)" 'kept=[0-9a-f]+ uid=4001 bytes=[1-9].* keep=3600 used=0'
	assert_eq "drwx------ 4001" "$(on n1 stat -c '%A %u' $memory_dir/stage-keep-4001)"
	# by its source, and by the user
	touch "$pfs/kept/tree/05.bin"
	second=$(staged --mem=200 --stage-data="t=/srv/pfs/kept/tree:shm:keep=30m")
	assert_lacks "$second" "kept by an earlier job"
	chmod o+r "$pfs/kept/many.tar"
	second=$(job_run bob -w n1 --mem=200 --stage-data="t=/srv/pfs/kept/many.tar:shm:keep=30m" <<<'stagectl explain t')
	assert_lacks "$second" "kept by an earlier job"
	wait_until 10 nodes_are_fine >/dev/null
}

# Seen failing with a sweep of disks alone, and with one that does not look for leases.
test_memory_is_given_back_when_it_is_due_and_not_while_it_is_used() {
	local id

	memory_site
	own_source
	id=$(job_submit alice -w n1 --stage-data="t=/srv/pfs/kept/many.tar:shm:keep=1" \
		<<<'sleep 1.5; echo slept; until [[ -e /srv/pfs/kept/go ]]; do sleep 0.1; done
		ls $STAGE_DATA_PATH_T | wc -l | sed "s/^/there: /"')
	job_wait_says "$id" slept
	reap
	assert_eq 1 "$(n_in_memory)"
	touch "$pfs/kept/go"
	job_done "$id"
	assert_contains "$(job_output "$id")" "there: 20"
	sleep 1.2
	wait_until 20 memory_is_free
	wait_until 10 nodes_are_fine >/dev/null
}

memory_is_free() {
	reap
	[[ -z $(on n1 ls $memory_dir) ]]
}

# Seen failing with a worker that makes no room.
test_what_is_kept_in_memory_is_no_more_than_the_site_gives() {
	local out

	memory_site 12m
	own_source
	head -c 7000000 /dev/urandom >"$pfs/kept/a"
	head -c 7000000 /dev/urandom >"$pfs/kept/b"
	head -c 14000000 /dev/urandom >"$pfs/kept/c"
	job_run alice -w n1 --mem=200 --stage-data="t=/srv/pfs/kept/a:shm:keep=30m" <<<true >/dev/null
	out=$(job_run alice -w n1 --mem=200 --stage-data="t=/srv/pfs/kept/b:shm:keep=30m" <<<'cmp $STAGE_DATA_PATH_T /srv/pfs/kept/b && echo equal')
	assert_contains "$out" equal
	assert_eq 1 "$(n_in_memory)" "of two that don't fit side by side"
	assert_contains "$(as_on alice n1 stagectl list --kept)" /srv/pfs/kept/b
	out=$(job_run alice -w n1 --mem=200 --stage-data="t=/srv/pfs/kept/c:shm:keep=30m" \
		<<<'cmp $STAGE_DATA_PATH_T /srv/pfs/kept/c && echo equal; stagectl status t; df --output=target $STAGE_DATA_PATH_T')
	assert_contains "$out" equal
	assert_contains "$out" "not kept for your next job: $memory_dir has"
	assert_contains "$out" "/t"
	wait_until 10 nodes_are_fine >/dev/null
}

# Seen failing with a stage-helper that looks at no file system.
test_without_a_tmpfs_of_its_own_nothing_is_kept_in_memory() {
	local out kind

	memory_site
	own_source
	for kind in none unsized roots; do
		on n1 umount -l $memory_dir
		case $kind in
		none) ;;
		unsized) on n1 mount -t tmpfs -o size=0,mode=0755 tmpfs $memory_dir ;;
		roots) on n1 mount -t tmpfs -o size=64m,mode=1777 tmpfs $memory_dir ;;
		esac
		out=$(job_run alice -w n1 --mem=200 --stage-data="t=/srv/pfs/kept/many.tar:shm:keep=30m" \
			<<<'ls $STAGE_DATA_PATH_T | wc -l; stagectl status t')
		assert_contains "$out" "there is no place for it on this node"
		assert_eq 20 "$(grep -x 20 <<<"$out" || true)" "what the job listed"
		assert_eq "" "$(on n1 find $memory_dir -mindepth 1)" "what is in it ($kind)"
		[[ $kind == none ]] && on n1 mount -t tmpfs tmpfs $memory_dir # for the next turn to take away
	done
	wait_until 10 nodes_are_fine >/dev/null
}

# What is kept was charged to the job that wrote it, and is not to the next. Fails when it is
# reserved there as well.
test_memory_that_is_kept_is_charged_to_nobody_who_finds_it() {
	local out

	need_cgroup
	memory_site 64m
	own_source
	head -c 40000000 /dev/urandom >"$pfs/kept/a"
	head -c 40000000 /dev/urandom >"$pfs/kept/b"
	job_run alice -w n1 --mem=100 --stage-data="t=/srv/pfs/kept/a:shm:keep=30m" <<<true >/dev/null
	out=$(job_run alice -w n1 --mem=100 --stage-data="t=/srv/pfs/kept/a:shm:keep=30m,b=/srv/pfs/kept/b:shm" \
		<<<'cmp $STAGE_DATA_PATH_T /srv/pfs/kept/a && cmp $STAGE_DATA_PATH_B /srv/pfs/kept/b && echo equal; stagectl explain t')
	assert_contains "$out" equal
	assert_contains "$out" "kept by an earlier job in memory"
	wait_until 10 nodes_are_fine >/dev/null
}

# Fails when what was begun is never swept.
test_killed_in_the_middle_nothing_of_it_stays_in_memory() {
	local id

	memory_site
	sed -i '/source pfs/,/tier/s|^Match=.*|&\nMaxRate=1M|' "$base/etc/stage-data/stage-data.conf"
	own_source
	head -c 30000000 /dev/urandom >"$pfs/kept/big"
	forgive_crashes n1
	id=$(job_submit alice -w n1 --mem=200 --stage-data="t=/srv/pfs/kept/big:shm:keep=30m" <<<'echo begun')
	wait_until 20 on n1 bash -c "ls -d $memory_dir/stage-keep-4001/new-*" >/dev/null
	on n1 pkill -KILL -x stage-keeper
	job_wait "$id"
	wait_until 20 job_nodes_clean "$id"
	wait_until 20 memory_is_free
	sed -i /MaxRate/d "$base/etc/stage-data/stage-data.conf"
	assert_contains "$(job_run alice -w n1 --mem=200 --stage-data="t=/srv/pfs/kept/big:shm:keep=30m" \
		<<<'cmp $STAGE_DATA_PATH_T /srv/pfs/kept/big && echo equal')" equal
	wait_until 10 nodes_are_fine >/dev/null
}

# Nobody can look under it, and it needs no process: before, what was kept stayed as long as the
# node was up. Fails when reap looks whose the place is before it takes off what is mounted there.
test_what_is_kept_under_a_mount_is_kept_no_longer() {
	need_fuse
	keep_site
	own_source
	staged --stage-data="t=/srv/pfs/kept/tree:ssd:keep=1s" >/dev/null
	assert_eq 1 "$(n_kept 4001)" "what is kept"
	as_on alice n1 squashfuse_ll $data/many.zstd.sqsh $local_dir/stage-keep-4001
	at_end "on n1 umount -l $local_dir/stage-keep-4001"
	on n1 pkill -KILL -x squashfuse_ll
	sleep 1.1
	reap
	assert_eq "" "$(on n1 ls $local_dir)" "what is left"
}
