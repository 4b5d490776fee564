# Users mount file systems on their own directories (fusermount3), on nodes where fuse.conf allows
# that root waits for them: servers that never answer, mounts inside mounts, and tiers that other
# users may change.

readonly hangfs=/srv/pfs/hangfs

# A server that takes each name it is asked for and never answers, as a user's program can
mounts_prepare() {
	need_fuse
	install -m 0755 "$here/hangfs" "$pfs/hangfs"
	echo user_allow_other >"$base/fuse.conf"
	on n1 mount --bind "$base/fuse.conf" /etc/fuse.conf
	at_end "on n1 umount -l /etc/fuse.conf; on n1 pkill -KILL -f $hangfs || true"
}

# mounts_left: below the directories of jobs on n1, but those of the run directory of living jobs
mounts_left() {
	on n1 grep -cE ' (/srv/local|/run/stage-data)/.* fuse' /proc/self/mountinfo || true
}

# no_process_hangs: none of ours waits for a server
no_process_hangs() {
	[[ -z $(on n1 ps -e -o stat=,comm= | grep -E '^D.* stage-(keeper|manager|helper)') ]]
}

# others_are_served: another user's job, on the same node, and the reaper
others_are_served() {
	assert_contains "$(job_run bob -w n1 -n1 --mem=100 --stage-data="t=$data/many.tar,d=$data/flat:ssd" \
		<<<'stagectl wait && cmp "$STAGE_DATA_PATH_D/00.bin" /srv/pfs/data/flat/00.bin && echo served')" served
	on n1 timeout 20 "$prefix/libexec/stage-data/stage-keeper" reap
	wait_until 5 no_process_hangs
	assert_not on n1 test -e /run/stage-data/.breaker
}

# Fails when the top of the tmpfs, or of the job's directory in a tier, is the user's.
test_no_user_mounts_on_the_first_level() {
	local id out

	mounts_prepare
	id=$(job_submit alice -w n1 -n1 --mem=200 --stage-data="t=$data/many.tar,d=$data/flat:ssd" <<<"
	for top in /run/stage-data/\$SLURM_JOB_ID/t /srv/local/stage-data-\$SLURM_JOB_ID /run/stage-data/\$SLURM_JOB_ID; do
		timeout 5 $hangfs \$top allow_other && echo mounted on \$top
		mv \$top/data \$top/x && echo renamed in \$top
		mkdir \$top/y && echo made in \$top
	done 2>/dev/null
	echo tried")
	job_done "$id"
	out=$(job_output "$id")
	assert_contains "$out" tried
	assert_lacks "$out" " on /"
	assert_lacks "$out" " in /"
	wait_until 10 job_nodes_clean "$id"
	assert_nodes_fine
}

# hangs_over DIRECTORY...: a job of alice's that mounts there, and leaves its servers as they are
hangs_over() {
	local id dir

	id=$(job_submit alice -w n1 -n1 --mem=200 --stage-data="t=$data/many.tar,d=$data/flat:ssd" <<<"echo begun; $until_let_go")
	job_wait_says "$id" begun
	for dir in "$@"; do
		as_on alice n1 setsid $hangfs "${dir//ID/$id}" allow_other
		assert on n1 grep -qF " ${dir//ID/$id} " /proc/self/mountinfo
	done
	let_go "$id"
	job_done "$id"
	wait_until 15 job_nodes_clean "$id"
	wait_until 10 eval '[[ $(mounts_left) == 0 ]]'
	others_are_served
	on n1 pkill -KILL -f $hangfs || true
	assert_nodes_fine
}

# Fails when root looks for a name in what a user has mounted.
test_a_server_that_never_answers_holds_up_nobody() {
	mounts_prepare
	hangs_over /run/stage-data/ID/t/data
	hangs_over /run/stage-data/ID/t/.stage /run/stage-data/ID/t/data
	hangs_over /srv/local/stage-data-ID/data/d /srv/local/stage-data-ID/data
}

# The same after a keeper that was killed: the reaper's run meets the mounts.
# Fails when what is mounted in a tier is detached in the order of the kernel's table.
test_the_reaper_takes_a_nest_in_one_run() {
	local id dir

	mounts_prepare
	id=$(job_submit alice -w n1 -n1 --mem=200 --stage-data="d=$data/flat:ssd" <<<"echo begun; $until_let_go")
	job_wait_says "$id" begun
	dir=/srv/local/stage-data-$id/data
	as_on alice n1 setsid $hangfs "$dir" allow_other 300
	assert_le 300 "$(mounts_left)" "mounts"
	on n1 pkill -KILL -x stage-keeper
	let_go "$id"
	job_wait "$id"
	on n1 timeout 60 "$prefix/libexec/stage-data/stage-keeper" reap || true
	wait_until 20 eval '[[ $(mounts_left) == 0 ]]'
	wait_until 20 eval '[[ -z $(on n1 find /srv/local -name "stage-data-*") ]]'
	forgive_crashes n1
	others_are_served
	wait_until 20 nodes_are_fine
}

# leave_mounts NODE PROGRAM ARGUMENT...: a job of alice's, and a program of hers outside of it that
# mounts in what the job has on a disk and in memory (TIER, DATA), and goes on serving. Its id is
# added to `left`.
leave_mounts() {
	local node=$1 id

	shift
	id=$(job_submit alice -w "$node" -n1 --mem=300 --stage-data="t=$data/many.tar,d=$data/flat:ssd,m=$data/many.zstd.sqsh" <<<"echo begun; $until_let_go")
	job_wait_says "$id" begun
	set -- "${@//TIER//srv/local/stage-data-$id/data}"
	as_on alice "$node" setsid "${@//DATA//run/stage-data/$id/t/data}"
	left+=("$id")
}

# ends_in_time NODE ID: the job's end and what follows, while the servers go on
ends_in_time() {
	local begin

	let_go "$2"
	job_done "$2"
	begin=$(now_ms)
	wait_until 12 eval "[[ -z \$(on ctl squeue -h -o %A | grep -x $2) ]]"
	wait_until 20 eval "[[ \$(on $1 grep -cE ' (/srv/local|/run/stage-data)/.* fuse' /proc/self/mountinfo) == 0 ]]"
	wait_until 20 eval "[[ -z \$(on $1 find /srv/local -name 'stage-data-*') ]]"
	wait_until 10 job_nodes_clean "$2"
	echo "the last mount of job $2 was gone after $(($(now_ms) - begin)) ms"
}

mounts_prepare_all() {
	need_fuse
	install -m 0755 "$here/hangfs" "$lib/heldfs" "$pfs/"
	echo user_allow_other >"$base/fuse.conf"
	for node in n1 n2 n3; do
		on $node mount --bind "$base/fuse.conf" /etc/fuse.conf
	done
	at_end 'for node in n1 n2 n3; do
		on $node pkill -KILL -u alice -f "/srv/pfs/h[a-z]*fs" || true
		on $node umount -l /etc/fuse.conf
	done'
}

# Fails when what is mounted on one directory again and again is taken for one mount, and when the
# time that one takes adds up.
test_mounts_of_each_shape_go_with_the_job() {
	local left=()

	mounts_prepare_all
	leave_mounts n1 $hangfs TIER/d allow_other 100 stacked
	leave_mounts n2 $hangfs TIER/d allow_other 200 beside
	leave_mounts n3 $hangfs DATA allow_other 100 nested
	ends_in_time n1 "${left[0]}"
	ends_in_time n2 "${left[1]}"
	ends_in_time n3 "${left[2]}"
	assert_nodes_fine
}

# Who takes the last mount of such a server away waits for it without end, whatever signal he gets.
# Fails when root does that itself, and when it is done for one mount after the other.
test_mounts_that_hold_who_takes_them_away() {
	local left=()

	mounts_prepare_all
	leave_mounts n1 /srv/pfs/heldfs /tmp/back DATA/x
	leave_mounts n2 /srv/pfs/heldfs /tmp/back TIER/x{1..12}
	leave_mounts n3 /srv/pfs/heldfs /tmp/back TIER/x DATA/x
	at_end 'for node in n1 n2 n3; do on $node umount -l /tmp/back; on $node rmdir /tmp/back; done'
	ends_in_time n1 "${left[0]}"
	ends_in_time n2 "${left[1]}"
	ends_in_time n3 "${left[2]}"
	assert_nodes_fine
}

# Real paths of datasets are mounts of root's. A process outside of the job works in them, others
# are mounted on them, and in a namespace that sees none of them one is renamed and one is removed.
# Fails when a place, or what is mounted on it, is waited for.
test_places_that_the_user_attacks_go_with_the_job() {
	local left=() id outside

	mounts_prepare_all
	leave_mounts n1 true
	at_end 'for node in n1 n2; do on $node pkill -KILL -u alice -x sleep || true; done'
	outside='cd $1/m && exec 7<$1/d 8<$1/m/00/000 9<$1/d/00.bin && echo inside && exec sleep 1000'
	as_on alice n1 bash -c "$outside" - "/run/stage-data/${left[0]}/t/data" >"$work/inside" 2>&1 &
	wait_until 10 grep inside "$work/inside"
	leave_mounts n2 $hangfs DATA/d allow_other 12 stacked
	as_on alice n2 bash -c 'exec unshare -Urm --propagation private bash -c "mount --bind $1/m /mnt && cd /mnt && sleep 1000"' \
		- "/run/stage-data/${left[1]}/t/data" &
	id=$(job_submit alice -w n3 -n1 --mem=300 --stage-data="t=$data/many.tar" <<-'EOS'
	cd ${STAGE_DATA_PATH_T%/t}
	unshare -Urm --propagation private bash -c 'echo apart; until [[ -e t/placed ]]; do sleep 0.1; done
		mv d moved; rmdir m; mkdir m; touch t/attacked' &
	stagectl add d=/srv/pfs/data/flat:ssd; stagectl add m=/srv/pfs/data/many.zstd.sqsh
	stagectl wait d m && touch t/placed
	until [[ -e t/attacked ]]; do sleep 0.1; done
	echo "attacked: $(ls)"
	EOS
	)
	job_done "$id"
	assert_match "$(job_output "$id")" "attacked: .*moved"
	ends_in_time n3 "$id"
	ends_in_time n1 "${left[0]}"
	ends_in_time n2 "${left[1]}"
	assert_nodes_fine
}

# Fails when the mode of a tier is not looked at before anything is made in it.
test_a_tier_that_others_may_change_is_refused() {
	local id mode out

	on n1 install -d -m 0755 /tmp/open-tier
	at_end "on n1 rm -rf /tmp/open-tier"
	site_conf <<-'EOF'
	[tier open]
	Kind=disk
	Path=/tmp/open-tier
	EOF
	for mode in 0777 0775 2777; do
		on n1 chown alice /tmp/open-tier
		on n1 chmod $mode /tmp/open-tier
		id=$(job_submit alice -w n1 --stage-wait=no --stage-data="d=$data/flat:/tmp/open-tier" <<<'stagectl wait; stagectl status; echo over')
		job_wait "$id"
		out=$(job_output "$id")
		assert_contains "$out" "/tmp/open-tier has mode $mode: others may exchange what is in it"
		assert_eq "" "$(on n1 find /tmp/open-tier -mindepth 1)" "what was made there"
		wait_until 10 job_nodes_clean "$id"
	done
	on n1 chmod 1777 /tmp/open-tier
	id=$(job_submit alice -w n1 --stage-data="d=$data/flat:/tmp/open-tier" \
		<<<'[[ $STAGE_DATA_PATH_D -ef /tmp/open-tier/stage-data-$SLURM_JOB_ID/data/d ]] && echo "it is there"')
	job_done "$id"
	assert_contains "$(job_output "$id")" "it is there"
	wait_until 10 job_nodes_clean "$id"
	assert_nodes_fine
}
