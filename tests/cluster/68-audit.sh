# Root uses no path that a user could have changed. The tests check all system calls of each
# stage-keeper, from its start to its end, in jobs of all kinds.

# audited_jobs: to be run between audit_begin and audit_check, on n1
audited_jobs() {
	local id

	id=$(job_submit alice -w n1 --stage-data="t=$data/many.tar,m=$data/many.zstd.sqsh,d=$data/flat:ssd" \
		<<<'stagectl release t; stagectl add "u=/srv/pfs/data/flat"; stagectl wait u && echo begun')
	job_done "$id"
	assert_contains "$(job_output "$id")" begun
	wait_until 10 job_nodes_clean "$id"
	id=$(job_submit alice -w n1 --stage-data="t=$data/bad/half.tar" <<<'echo begun')
	job_failed "$id"
	id=$(job_submit alice -w n1 --stage-data="m=$data/many.zstd.sqsh,d=$data/flat:ssd" <<<'echo begun; sleep 60')
	job_wait_says "$id" begun
	forgive_crashes n1
	on n1 pkill -KILL -x stage-keeper
	as alice scancel "$id"
	job_wait "$id"
	wait_until 20 job_nodes_clean "$id"
	on n1 "$(find "$prefix" -name stage-keeper -type f)" reap
}

# Fails when the keeper unmounts without UMOUNT_NOFOLLOW.
test_root_names_no_path_of_a_users() {
	local out

	[[ ! -e $base/node/n1/log/.audit ]] || skip audit "it is on for all tests"
	on n1 bash -c 'type -P strace' >/dev/null || skip strace "no strace"
	audit_begin n1
	at_end "audit_stop n1"
	audited_jobs
	wait_until 20 audit_is_over n1
	rm -rf "$work/logs"
	cp -a "$base/node/n1/log/.audit" "$work/logs"
	out=$(AUDIT_PATHS=1 audit_check n1) || fail "$out"
	echo "$out"
	assert_match "$out" '^[0-9]{3,} paths named by [0-9]+ processes of root'

	# What a path of a user's looks like, as strace writes it: each of them is found.
	planted 'openat(AT_FDCWD</>, "/srv/pfs/home/alice/x", O_RDONLY|O_CLOEXEC) = 3' 'no place of ours'
	planted 'unlinkat(5</run/stage-data/7>, "t/data/x", 0) = 0' "in the user's hands"
	planted 'openat2(5</run/stage-data/7/t>, "data/x", {flags=O_RDONLY|O_CLOEXEC|O_PATH, resolve=RESOLVE_NO_XDEV|RESOLVE_BENEATH}, 24) = 4' \
		"in the user's hands"
	planted 'openat2(5</run/stage-data/7/t>, "data/x", {flags=O_RDONLY|O_CLOEXEC, resolve=RESOLVE_NO_XDEV|RESOLVE_NO_SYMLINKS}, 24) = 4' \
		"in the user's hands"
	planted 'umount2("/proc/self/fd/5/t/data/x/y", MNT_DETACH|UMOUNT_NOFOLLOW) = 0' "in the user's hands"
	planted 'umount2("/proc/self/fd/5/m/3/x", MNT_DETACH|UMOUNT_NOFOLLOW) = 0' "in the user's hands"
	planted 'umount2("/proc/self/fd/5/t", MNT_DETACH) = 0' 'may be followed'
	planted 'fchownat(AT_FDCWD</>, "/srv/local/stage-data-7", 4001, 4001, 0) = 0' 'may be followed'
	planted 'openat(4</srv/local/stage-data-7>, "f", O_RDONLY|O_NOFOLLOW) = 3' "in the user's hands"
	planted 'openat(4</srv/local/stage-data-7>, "data", O_RDONLY|O_NOFOLLOW) = 3' "in the user's hands"
	planted 'unlinkat(4</srv/local/stage-data-7>, "data", 0) = 0' "in the user's hands"
	planted 'mkdirat(4</srv/local/stage-data-7>, "data/x", 0700) = 0' "in the user's hands"
	planted 'quotactl(Q_GETQUOTA, "/dev/sda", 0, NULL) = 0' 'not known to the audit'
	planted 'lstat("/srv/local/../pfs/x", {st_mode=S_IFREG}) = 0' 'no place of ours'
}

# planted LINE REGEX: the audit finds it at the end of a keeper's log
planted() {
	local log out dir=$work/planted

	rm -rf "$dir"
	mkdir "$dir"
	log=$(find "$work/logs" -name 'log.*' | sed -nE '/log\.([0-9]+)\.\1$/p' | head -n 1)
	cp "$log" "$dir/"
	"$here/../lib/audit" "$dir" "$(dirname "$(find "$prefix" -name stagingd)")" /srv/local >/dev/null ||
		fail "it finds something without it"
	{
		echo 'fstat(5</run/stage-data/7>, {st_mode=S_IFDIR|0711, st_size=160, ...}) = 0'
		echo "$1"
	} >>"$dir/${log##*/}"
	! out=$("$here/../lib/audit" "$dir" "$(dirname "$(find "$prefix" -name stagingd)")" /srv/local) ||
		fail "not found: $1"
	assert_match "$out" "$2"
}

# Calls of libc that take a path, as far as a plugin might have a use for them
readonly path_calls='(__)?(f?open|openat|creat|f?access|faccessat|l?stat|fstatat|statx|unlink|unlinkat|rename|renameat2?|mkdir|mkdirat|rmdir|remove|link|linkat|symlink|symlinkat|readlink|readlinkat|chmod|fchmodat|l?chown|fchownat|chdir|chroot|exec[a-z]*|posix_spawnp?|opendir|scandir|nftw|fts_open|glob|truncate|u?mount2?|mknod|mknodat|mkfifo|mkstemp|tmpnam|tempnam|utime|utimes|utimensat|realpath|canonicalize_file_name|statv?fs|l?[gs]etxattr|dlopen|system|popen|bind|connect|inotify_add_watch|freopen)(64)?(_2|_chk)?'

# The same for the part of root's that is in Slurm's own processes.
# Fails when the plugin looks at anything in /tmp.
test_the_plugin_names_only_places_of_ours() {
	local plugin id out call

	[[ -n $(type -P cc) ]] || skip cc "no compiler"
	plugin=$(find "$prefix" -name stage_data.so -print -quit)
	cc -shared -fPIC -O1 -w -o "$pfs/audit-preload.so" "$here/audit-preload.c" -ldl
	for call in $(nm -D --undefined-only "$plugin" | sed -nE "s/^ +U ($path_calls)(@.*)?\$/\1/p"); do
		grep -q "^WRAP([A-Za-z *]*, $call, " "$here/audit-preload.c" ||
			fail "the plugin calls $call, which audit-preload does not know"
	done

	audit_own /srv/pfs/audit-preload.so
	# Not by the environment, which slurmd keeps from who calls the prolog's and the epilog's
	# hooks
	echo /srv/pfs/audit-preload.so >"$base/etc/ld.so.preload"
	at_end "rm -f '$base/etc/ld.so.preload'; '$cluster' slurmd-restart n1"
	"$cluster" slurmd-restart n1
	wait_until 20 nodes_are_fine
	id=$(job_submit alice -w n1 --stage-wait=tasks --stage-data="t=$data/many.tar" <<<'srun ls $STAGE_DATA_PATH_T | wc -l')
	job_done "$id"
	wait_until 10 job_nodes_clean "$id"
	id=$(job_submit alice -w n1 <<<'echo fine')
	job_done "$id"
	grep '^0 ' "$base/node/n1/log/plugin.audit" | sed -E 's|/[0-9]+(/\|$)|/N\1|' | sort | uniq -c
	out=$(grep '^0 ' "$base/node/n1/log/plugin.audit") || fail "nothing was seen"
	assert_contains "$out" "/stage-keeper"
	assert_contains "$out" "/run/stage-data/$id"
	# Names in it that a user could have changed, and all places elsewhere
	out=$(grep -vE "^0 [a-z0-9_]+ (/run/stage-data(/\.(prolog|breaker)|/[0-9]+(/(sock|failed))?)?|$(find "$prefix" \
		-name stage-keeper -type f)|/dev/null|/|/proc/self/fd)\$" <<<"$out") || true
	assert_eq "" "$out" "paths that the plugin names as root"
	rm -f "$base/node/n1/log/plugin.audit" "$pfs/audit-preload.so"
}
