# Attacks on a job by another user, by the same user from another job, and by root of a user
# namespace. Each is denied or has no effect. The table is in tests/cluster/hostile-actions. It
# also has somebody who may do each action, so the test sees that each check can have the other
# result.

readonly hostile=/srv/pfs/hostile-actions
readonly hostile_items="t=$data/many.tar,m=$data/many.zstd.sqsh,d=$data/flat:ssd"

hostile_prepare() {
	install -m 0755 "$here/hostile-actions" "$pfs/hostile-actions"
	# The first clean-up of a node makes .trash, which is one of the places that are tried.
	on n1 test -e /run/stage-data/.trash || job_run alice -w n1 --stage-data="$data/flat" <<<true
}

# victim: a job of alice's with a dataset of each kind, ready
victim() {
	local id

	id=$(job_submit alice -w n1 -n1 --mem=400 --stage-data="$hostile_items" <<<"echo begun; $until_let_go"'
	cat "$STAGE_DATA_PATH_T"/*/* "$STAGE_DATA_PATH_M"/*/* | cksum
	cmp "$STAGE_DATA_PATH_D/00.bin" /srv/pfs/data/flat/00.bin && stagectl wait && echo untouched')
	job_wait_says "$id" begun 30
	echo "$id"
}

# Where everything of the job is, for hostile-actions
facts_of() {
	local id=$1 rundir=/run/stage-data/$1 image

	image=$(on n1 awk -v d="$rundir/m/" 'index($5, d) == 1 { print $5 }' /proc/self/mountinfo)
	echo "job=$id" "rundir=$rundir" "tier=/srv/local/stage-data-$id/data" \
		"tierfile=$(on n1 find "/srv/local/stage-data-$id" -name 00.bin)" \
		"keeper=$(on n1 pgrep -x stage-keeper)" "manager=$(on n1 pgrep -x stage-manager)" \
		"daemon=$(on n1 pgrep -x stagingd)" \
		"worker=$(on n1 pgrep -x stage-worker)" \
		"image=$image" "programs=$prefix/libexec/stage-data" \
		"connection=$(on n1 awk -v t="$image" '$5 == t { split($3, a, ":"); print a[2] }' /proc/self/mountinfo)"
}

# all_as_expected COMMAND...: of hostile-actions. What strace has, root can't trace.
all_as_expected() {
	local out

	out=$("$@")
	if ((${STAGE_TEST_AUDIT:-0})); then
		assert_match "$out" '[1-9][0-9]* tried, [0-9]+ otherwise$'
		assert_eq "" "$(sed -E '/^root: ptrace .*: denied/d; /^[0-9]+ tried, /d' <<<"$out")" "otherwise"
		return 0
	fi
	assert_match "$out" '^[0-9]+ tried, 0 otherwise$'
}

# Fails when the run directory can be listed by all.
test_nothing_is_given_to_other_users_and_other_jobs() {
	local id facts sibling

	hostile_prepare
	id=$(victim)
	facts=$(facts_of "$id")
	# shellcheck disable=SC2086
	{
		all_as_expected as_on bob n1 $hostile other $facts
		all_as_expected as_on bob n1 unshare -Urm $hostile namespace $facts
	}
	let_go "$id"
	job_done "$id"
	assert_contains "$(job_output "$id")" " 8126000"
	assert_contains "$(job_output "$id")" untouched

	id=$(victim)
	facts=$(facts_of "$id")
	sibling=$(job_submit alice -w n1 -n1 --mem=100 <<<"$hostile sibling $facts")
	job_done "$sibling"
	assert_match "$(job_output "$sibling")" '^[0-9]+ tried, 0 otherwise$'
	as alice scancel "$id"
	wait_until 10 job_nodes_clean "$id"

	id=$(victim)
	facts=$(facts_of "$id")
	# shellcheck disable=SC2086
	all_as_expected on n1 $hostile root $facts
	as alice scancel "$id"
	wait_until 10 job_nodes_clean "$id"
	assert_nodes_fine
}

# docs/attacks.md has the table as it is printed here.
# Fails when a row of either table is another.
test_the_table_in_the_manual_is_the_one_that_is_tried() {
	assert_eq "$("$here/hostile-actions" --table)" \
		"$(sed -n '/^| action | another /,/^$/{/^$/!p}' "$here/../../docs/attacks.md")" "table of actions"
}

# What the job's own user can do to what is his: names, modes, links, forged manifests, a full
# tmpfs, no inodes left, a dead daemon. At the end he is rid of it all, and nobody else has noticed.
readonly mischief='
cd "$STAGE_DATA_DIR/.." || exit 1
findmnt -no OPTIONS -T . | grep -q "nosuid.*nodev" && echo "nosuid nodev"
findmnt -no OPTIONS -T "$STAGE_DATA_PATH_M" | grep -q "nosuid.*nodev" && echo "nosuid nodev"
cp /usr/bin/id data/id && chmod 6755 data/id
mknod data/zero c 1 5 2>/dev/null && echo "a device was made"
unshare -Ur mknod data/zero c 1 5 2>/dev/null && echo "a device was made"
pkill -KILL -x stagingd
python3 -c "
import os, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
try:
    s.bind(os.environ[\"STAGE_DATA_SOCKET\"] + \".2\")
    print(\"a socket was bound\")
except OSError:
    pass
os.chdir(\"data\")
for i in range(3000):
    os.mkdir(\"d\")
    os.chdir(\"d\")
os.mkdir(\"x\" * 255)
for name in (b\"\\x1b]0;owned\\x07\", b\"new\\nline\", b\"\\xff\\xfe\", b\"-rf\", b\" \", b\"*\", b\"a\" * 255):
    open(name, \"w\").close()
"
mkdir -p data/closed/x/y && touch data/closed/x/y/f && chmod -R 0 data/closed
for n in t m d x ../x; do
	printf "tree /srv/pfs/home/bob/victim\nTREE=/srv/pfs/home/bob/victim\ntree=/srv/local/victim\nmount=/run\n" >.stage/manifest.$n
done 2>/dev/null
cp .stage/manifest.t .stage/manifest
mv .stage .stage.old; ln -s /etc .stage
rm -rf data/t; ln -s /srv/local data/t
ln -s /etc/shadow env
for i in {1..5000}; do : >data/n$i || break; done 2>/dev/null
dd if=/dev/zero of=fill bs=1M 2>&1 | grep -c "No space"
chmod 0 .
echo begun
sleep 60'

# Fails when the job's tmpfs is mounted without nosuid.
test_what_users_do_to_themselves_is_theirs() {
	local id other pid

	site_conf <<<$'[limits]\nMaxFiles=3000\nMaxMemoryPercent=1'
	mkdir -p "$pfs/home/bob/victim" "$base/node/n1/local/victim"
	touch "$pfs/home/bob/victim/f" "$base/node/n1/local/victim/f"
	chown -R 4002:4002 "$pfs/home/bob/victim"
	at_end "rm -rf '$pfs/home/bob/victim' '$base/node/n1/local/victim'"
	id=$(job_submit alice -w n1 -n1 --mem=900 --stage-data="$hostile_items" <<<"$mischief")
	# A process of hers that is in no job holds the run directory, the mount and a file open.
	wait_until 20 on n1 test -d "/run/stage-data/$id/t/data"
	as_on alice n1 bash -c "cd /run/stage-data/$id/t/data && exec 7</run/stage-data/$id/t/data 8</etc/hostname && exec sleep 100" &
	pid=$!
	job_wait_says "$id" begun 60
	assert_lacks "$(job_output "$id")" "was made"
	assert_lacks "$(job_output "$id")" "was bound"
	assert_eq 2 "$(job_output "$id" | grep -c 'nosuid nodev')" "mounts without setuid and devices"
	other=$(job_submit bob -w n1 -n1 --mem=200 --stage-data="t=$data/many.tar,d=$data/flat:ssd" \
		<<<'ls $STAGE_DATA_PATH_T | wc -l')
	job_done "$other"
	assert_contains "$(job_output "$other")" 20
	as alice scancel "$id"
	wait_until 30 job_nodes_clean "$id"
	assert_nodes_fine
	assert test -e "$pfs/home/bob/victim/f"
	assert test -e "$base/node/n1/local/victim/f"
	assert on n1 test -e /etc/hostname
	on n1 pkill -u alice -x sleep
	wait "$pid" || true
}

# A user may mount on what is his (fusermount3), in the job's directory on a disk as well: nothing
# can be removed there as long as something is, not even by a server that is dead, and who looks
# into one whose server is stopped waits. Fails when mounts are not taken off.
test_what_users_mount_in_a_tier_goes_with_the_job() {
	local id dir left

	need_fuse
	id=$(job_submit alice -w n1 -n1 --mem=300 --stage-data="d=$data/flat:ssd" <<<"cd /srv/local/stage-data-\$SLURM_JOB_ID/data
	mkdir -p in/deep; touch file
	squashfuse_ll $data/many.zstd.sqsh in/deep && ls in/deep | wc -l
	$until_let_go")
	job_wait_says "$id" 20
	dir=/srv/local/stage-data-$id/data
	as_on alice n1 squashfuse_ll $data/many.zstd.sqsh "$dir/in"
	as_on alice n1 squashfuse_ll $data/many.zstd.sqsh "$dir"
	on n1 pkill -STOP -x squashfuse_ll
	let_go "$id"
	job_done "$id"
	wait_until 10 job_nodes_clean "$id"
	left=$(on n1 find /srv/local /run/stage-data/.trash -mindepth 1)
	on n1 pkill -KILL -x squashfuse_ll || true
	assert_eq "" "$left" "what is left"
	assert_not on n1 grep -q squashfuse /proc/mounts
	assert_nodes_fine
}

# squatted ITEM OPTIONS...: what becomes of a job of alice's whose directory in /tmp is bob's
# already
squatted() {
	local id

	id=$(job_submit alice --hold -w n1 --stage-wait=no --stage-data="$1" \
		<<<'stagectl wait; readlink -f "$STAGE_DATA_PATH_E"; echo over')
	as_on bob n1 bash -c "$2" - "/tmp/stage-data-$id"
	as alice scontrol release "$id"
	job_wait "$id"
	wait_until 10 job_nodes_clean "$id"
	squatted_output=$(job_output "$id")
	assert_contains "$squatted_output" over
	assert_eq "" "$(on n1 find /tmp -mindepth 2 -user alice)" "files of alice's in bob's directories"
	assert test -e "$pfs/home/alice/kept"
	on n1 rm -rf "/tmp/stage-data-$id"
}

# A tier in a directory that everybody may write to: root has no part in it, and who has taken the
# name keeps it. The dataset fails, with a sentence. Fails when whose a directory is that is there
# already is not looked at.
test_names_that_somebody_took_first_lead_nowhere() {
	local out

	site_conf <<<$'[tier scratch]\nKind=disk\nPath=/tmp'
	touch "$pfs/home/alice/kept"
	squatted "e=$data/flat:scratch" 'mkdir -m 0777 "$1"'
	assert_match "$squatted_output" "e: .*scratch"
	squatted "e=$data/flat:scratch" 'ln -s /srv/pfs/home/alice "$1"'
	assert_match "$squatted_output" "e: .*scratch"
	squatted "e=$data/flat:scratch" 'mkfifo "$1"'

	# The same for a run without keeper, in /dev/shm
	as_on bob n1 mkdir -m 0777 /dev/shm/stage-data-4001
	out=$(as_on alice n1 stagectl run --stage-data="e=$data/flat" -- ls 2>&1) && fail "it ran: $out"
	assert_match "$out" '/dev/shm/stage-data-4001'
	assert_eq "" "$(on n1 find /dev/shm -user alice)" "files of alice's"
	on n1 rm -rf /dev/shm/stage-data-4001
	as_on bob n1 ln -s /srv/pfs/home/alice /dev/shm/stage-data-4001
	out=$(as_on alice n1 stagectl run --stage-data="e=$data/flat" -- ls 2>&1) && fail "it ran: $out"
	assert_match "$out" '/dev/shm/stage-data-4001'
	on n1 rm -f /dev/shm/stage-data-4001
	rm "$pfs/home/alice/kept"
}

# In a mount namespace of before a directory that something is mounted on can be renamed. What is
# mounted there stays in the node's table, and nobody finds it by its name: a job that does it again
# and again would leave no room in the table.
readonly move_away='
import ctypes, os, subprocess
libc, top = ctypes.CDLL(None), os.environ["STAGE_DATA_DIR"]
here, there = os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(there[1])
    assert libc.unshare(0x10000000 | 0x20000) == 0 and libc.mount(b"none", b"/", None, 0x4000 | 0x40000, None) == 0
    os.write(here[1], b"x")
    for i in range(1000):
        if not os.read(there[0], 1):
            break
        os.rename(f"{top}/b", f"{top}/moved{i}")
        os.mkdir(f"{top}/b")
        os.write(here[1], b"x")
    os._exit(0)
os.read(here[0], 1)
for i in range(140):
    subprocess.run(["stagectl", "add", "b=/srv/pfs/data/flat/:ssd"], stdout=subprocess.DEVNULL, check=True)
    subprocess.run(["stagectl", "wait", "-q", "b"], stdout=subprocess.DEVNULL, check=True)
    if os.path.islink(f"{top}/b"):
        print("a link after", i)
        break
    os.write(there[1], b"x")
    os.read(here[0], 1)
    subprocess.run(["stagectl", "release", "b"], stdout=subprocess.DEVNULL)
os.close(there[1])
print(sum(f" {top}/" in line for line in open("/proc/self/mountinfo")), "mounts")'

# Fails without count_in_memory().
readonly test_what_users_move_away_has_a_number_seconds=300
test_what_users_move_away_has_a_number() {
	local out

	out=$(job_run alice -w n1 --mem=400 --stage-data="d=$data/flat:ssd" <<<"python3 -c '$move_away'")
	assert_contains "$out" "a link after 126"
	assert_contains "$out" "127 mounts"
	assert_not on n1 grep -q /t/data/ /proc/self/mountinfo
	assert_nodes_fine
}
