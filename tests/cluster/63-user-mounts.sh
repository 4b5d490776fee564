# What users mount on what is theirs (fusermount3), on nodes where fuse.conf lets root wait for it: servers that never
# answer, nests, and tiers that others may change.
# shellcheck shell=bash

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
