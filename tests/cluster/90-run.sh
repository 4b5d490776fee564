# `stagectl run` works without plugin, root and keeper.

without_plugin() {
	sed -i 's/^optional/#&/' "$base/etc/slurm/plugstack.conf"
	at_end "sed -i 's/^#optional/optional/' '$base/etc/slurm/plugstack.conf'"
}

test_run_stages_runs_and_cleans_up() {
	local out status=0

	out=$(as_on alice n1 stagectl run --stage-data="t=$data/many.tar,d=$data/flat" -- \
		bash -c 'cat $STAGE_DATA_PATH_T/*/* | cksum; ls $STAGE_DATA_PATH_D | wc -l; exit 7') || status=$?
	assert_eq 7 "$status" "exit status of the command"
	assert_contains "$out" " 4063000"
	assert_contains "$out" 10
	wait_until 5 no_run_is_left
}

no_run_is_left() {
	[[ -z $(on n1 find /dev/shm -mindepth 1; on n1 pgrep -x 'stagingd|stage-worker') ]]
}

test_run_mounts_an_image() {
	local out

	need_fuse
	out=$(as_on alice n1 stagectl run --stage-data="m=$data/many.zstd.sqsh" -- \
		bash -c 'cat $STAGE_DATA_PATH_M/*/* | cksum')
	assert_contains "$out" " 4063000"
	wait_until 5 no_run_is_left
}

# In a container, or where the directory service fails. Fails where a path of the site with %u is
# explained for another directory than that in which data is staged.
test_run_by_a_user_without_a_name() {
	local out

	site_conf <<<$'[tier scratch]\nKind=disk\nPath=/tmp/of-%u'
	on n1 bash -c 'mkdir /tmp/of-987654 && chown 987654:987654 /tmp/of-987654'
	at_end "on n1 rm -rf /tmp/of-987654"
	out=$(on n1 setpriv --reuid 987654 --regid 987654 --clear-groups env HOME=/tmp "$prefix/bin/stagectl" run -q \
		--stage-data="t=$data/many.tar,m=$data/many.zstd.sqsh,d=$data/many:scratch" -- \
		bash -c 'for p in $STAGE_DATA_PATH_T $STAGE_DATA_PATH_M $STAGE_DATA_PATH_D; do cat $p/*/* | cksum; done; ls /tmp/of-987654' 2>&1)
	assert_eq 3 "$(grep -c ' 4063000$' <<<"$out")" "contents: $out"
	assert_contains "$out" $'\nstage-data-'
	out=$(on n1 setpriv --reuid 987654 --regid 987654 --clear-groups env HOME=/tmp "$prefix/bin/stagectl" explain "$data/many:scratch" 2>&1)
	assert_contains "$out" "plan  copy to scratch"
	wait_until 5 no_run_is_left
}

# What users type to save what they have staged. Seen failing where the variable named a link: cp -r
# and tar wrote that link, find and os.fwalk() found nothing.
test_paths_of_a_run_are_directories_and_files() {
	local out cat_all='find . -type f -print0 | sort -z | xargs -0 cat | cksum'

	need_fuse
	site_conf <<<$'[tier scratch]\nKind=disk\nPath=/tmp' # where everybody may make a directory
	as_on alice n1 bash -c "tar -C $data/flat -cf ~/real.tar . && mksquashfs $data/flat ~/real.sqsh -noappend -quiet -no-progress"
	at_end "rm -f '$pfs/home/alice/real.tar' '$pfs/home/alice/real.sqsh'"
	out=$(as_on alice n1 bash -c "
	cd $data/flat && $cat_all
	cd && stagectl run -q --stage-data='t=~/real.tar:shm,m=~/real.sqsh:source,c=~/real.sqsh:scratch,d=$data/flat:scratch,f=~/real.tar:scratch:method=copy' -- \
		bash -c '
	saved=\$(mktemp -d) && trap \"rm -rf \$saved\" EXIT
	for p in \$STAGE_DATA_PATH_T \$STAGE_DATA_PATH_M \$STAGE_DATA_PATH_C \$STAGE_DATA_PATH_D; do
		mkdir \$saved/t
		cp -r \$p \$saved/r && (cd \$saved/r && $cat_all)
		cp -a \$p \$saved/a && (cd \$saved/a && $cat_all)
		tar -C / -cf - \${p#/} | tar -C \$saved/t -xf - && (cd \$saved/t && $cat_all)
		find \$p -type f -print0 | sort -z | xargs -0 cat | cksum
		(( \$(du -s \$p | cut -f 1) >= 90 )) || echo du sees too little
		python3 -c \"
import os, pathlib, sys
p = sys.argv[1]
print(sum(len(f) for _, _, f, _ in os.fwalk(p)), \\\"files\\\")
for d, _, files in os.walk(p):
    [pathlib.Path(d, f).resolve().relative_to(p) for f in files]\" \$p
		chmod -R u+w \$saved && rm -rf \$saved/*
	done
	cp -r \$STAGE_DATA_PATH_F \$saved/f && cmp \$saved/f ~/real.tar && echo the file'")
	assert_eq 17 "$(grep -c ' 100000$' <<<"$out")" "saved: $out"
	assert_eq 1 "$(grep ' 100000$' <<<"$out" | sort -u | wc -l)" "contents: $out"
	assert_eq 4 "$(grep -c '^10 files$' <<<"$out")" "files: $out"
	assert_contains "$out" "the file"
	assert_lacks "$out" "too little"
	wait_until 5 no_run_is_left
}

test_run_under_srun_stages_once_per_node() {
	local out

	without_plugin
	out=$(as alice srun -N2 --ntasks-per-node=2 stagectl run --stage-data="t=$data/many.tar" -- \
		bash -c 'echo "$(hostname) $(stat -c %i $STAGE_DATA_PATH_T) $(cat $STAGE_DATA_PATH_T/*/* | cksum)"')
	assert_eq 4 "$(wc -l <<<"$out")" "tasks"
	assert_eq 2 "$(sort -u <<<"$out" | wc -l)" "different copies"
}

test_run_in_a_job_with_a_failing_source() {
	local status=0

	as_on alice n1 stagectl run --stage-data="t=$data/bad/half.tar.gz" -- echo begun \
		>"$work/out" 2>"$work/err" || status=$?
	assert_eq 1 "$status" "exit status"
	assert_not grep -q begun "$work/out"
	assert_contains "$(cat "$work/err")" half.tar.gz
	wait_until 5 no_run_is_left
}

test_run_interrupted_cleans_up() {
	local pid

	gate_close n1
	as_on alice n1 env --default-signal=INT stagectl run --stage-data="t=/srv/pfs/gate/many.tar" -- echo begun >"$work/out" 2>&1 &
	wait_until 10 on n1 pgrep -x stagingd
	on n1 pkill -INT -x stagectl
	gate_open n1
	wait_until 10 no_run_is_left
	assert_not grep -q begun "$work/out"
}

test_run_killed_cleans_up() {
	as_on alice n1 stagectl run --stage-data="t=$data/many.tar" -- bash -c 'echo begun; sleep 30' >"$work/out" 2>&1 &
	wait_until 10 grep -q begun "$work/out"
	on n1 pkill -KILL -x stagectl
	on n1 pkill -x sleep
	wait_until 10 no_run_is_left
}

test_pack_makes_an_image_of_the_tree() {
	local out

	need_fuse
	out=$(job_run alice <<-'EOS'
	stagectl pack --force /srv/pfs/data/many ~/packed.sqsh && stagectl pack --if-missing /srv/pfs/data/many ~/packed.sqsh
	unsquashfs -q -n -d /tmp/unpacked.$SLURM_JOB_ID ~/packed.sqsh && diff -r /tmp/unpacked.$SLURM_JOB_ID /srv/pfs/data/many && echo identical
	rm -rf /tmp/unpacked.$SLURM_JOB_ID
	EOS
	)
	assert_contains "$out" identical
}

# 33 files of this size go into a shard of 1 MiB: a shard that is cut by sizes alone ends within a
# pair.
test_pack_makes_shards_that_keep_keys_together() {
	local out

	out=$(job_run alice <<-'EOS'
	trap 'rm -rf ~/pairs ~/shards*.tar' EXIT
	mkdir ~/pairs
	for i in {000..099}; do
		head -c 30300 /dev/zero | tee ~/pairs/$i.img >~/pairs/$i.cls
	done
	stagectl pack --shards 1M ~/pairs ~/shards.tar
	echo "shards $(ls ~/shards*.tar | wc -l)"
	for t in ~/shards*.tar; do tar -tf $t | grep -v '/$'; done | wc -l | sed 's/^/files /'
	for t in ~/shards*.tar; do tar -tf $t | grep -v '/$' | sed 's/\.[a-z]*$//' | sort | uniq -c; done |
		awk '$1 != 2 { print "torn " $2 }'
	EOS
	)
	assert_match "$out" 'shards [67]'
	assert_contains "$out" 'files 200'
	assert_lacks "$out" torn
}
