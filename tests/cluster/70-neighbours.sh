# Jobs on one node do not affect each other, and other users have no access.

readonly neighbour='echo "$STAGE_DATA_DIR $STAGE_DATA_SOCKET" >~/where.$SLURM_JOB_ID
echo begun
'"$until_let_go"'
cat "$STAGE_DATA_PATH_T"/*/* "$STAGE_DATA_PATH_M"/*/* | cksum
pgrep -cx stagingd'
readonly neighbours_items="t=/srv/pfs/data/many.tar,m=/srv/pfs/data/many.zstd.sqsh"

start_neighbour() {
	job_submit "$1" -w n1 -n1 --mem=400 --stage-data="$neighbours_items" <<<"$neighbour"
}

# two_jobs USER USER: the end of the first leaves the second alone
two_jobs() {
	local first second

	first=$(start_neighbour "$1")
	second=$(start_neighbour "$2")
	job_wait_says "$first" begun
	job_wait_says "$second" begun
	assert_eq 2 "$(on n1 pgrep -cx stagingd)" "daemons"
	let_go "$first" "$1"
	job_done "$first"
	wait_until 10 job_nodes_clean "$first"
	let_go "$second" "$2"
	job_done "$second"
	assert_eq "$(job_output "$first" | sed -n 2p)" "$(job_output "$second" | sed -n 2p)" "what they read"
	assert_eq 1 "$(job_output "$second" | tail -n 1)" "daemons at the end"
}

test_two_jobs_of_one_user() { two_jobs alice alice; }
test_two_jobs_of_two_users() { two_jobs alice bob; }

test_another_user_can_not_look_read_connect_or_signal() {
	local id dir socket pid rundir

	id=$(start_neighbour alice)
	job_wait_says "$id" begun
	read -r dir socket <"$pfs/home/alice/where.$id"
	rundir=/run/stage-data/$id
	assert as_on alice n1 ls "$dir/t/00" >/dev/null
	for path in "$dir" "$dir/t" "$dir/t/00/000" "$dir/m" "$rundir" "$rundir/m" "$rundir/m/0"; do
		assert_not as_on bob n1 ls "$path"
		assert_not as_on bob n1 test -r "$path"
		assert_not as_on bob n1 touch "$path/x"
	done
	assert_not as_on bob n1 cat "$rundir/state"
	assert_not as_on bob n1 python3 -c "
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.settimeout(3)
s.connect('$socket')
s.send(b'proto=1\0op=status\0id=1\0')
sys.exit(0 if s.recv(65536) else 1)"
	for pid in $(on n1 pgrep -x 'stagingd|stage-worker|stage-keeper|stage-manager'); do
		assert_not as_on bob n1 kill -0 "$pid"
		assert_not as_on bob n1 cat "/proc/$pid/environ"
	done
	assert_not as_on bob n1 umount "$rundir/t"
	assert_not as_on bob n1 mkdir "/run/stage-data/12345"
	let_go "$id" alice
	job_done "$id"
}

test_a_job_of_the_same_user_is_not_shown_the_other_jobs_data() {
	local id out

	id=$(start_neighbour alice)
	job_wait_says "$id" begun
	out=$(job_run alice -w n1 --mem=300 --stage-data="x=$data/flat" <<<'stagectl status; ls $STAGE_DATA_DIR')
	assert_contains "$out" /t/data/x
	assert_lacks "$out" "/run/stage-data/$id/"
	let_go "$id" alice
	job_done "$id"
}

test_no_program_of_a_user_runs_as_root() {
	local id

	id=$(start_neighbour alice)
	job_wait_says "$id" begun
	assert_eq $'stage-keeper root\nstage-manager stage-data' \
		"$(on n1 ps -eo comm,user | awk '/^stag/ && $2 != "alice" { print $1, $2 }' | sort -u)" \
		"programs that are not the user's"
	for pid in $(on n1 pgrep -x 'stagingd|stage-worker'); do
		on n1 grep -E '^(CapEff|NoNewPrivs|Uid|Gid|Groups):' "/proc/$pid/status" >"$work/status"
		assert_match "$(cat "$work/status")" 'CapEff:.0000000000000000'
		assert_match "$(cat "$work/status")" 'NoNewPrivs:.1'
		assert_match "$(cat "$work/status")" 'Uid:.4001.4001.4001.4001'
	done
	# A worker that does not enter its sandbox has 0 here.
	assert_eq "Seccomp:	2" "$(for pid in $(on n1 pgrep -x stage-worker); do
		on n1 bash -c 'cat /proc/$1/task/*/status' - "$pid" | grep ^Seccomp:
	done | sort -u)" "filters of the threads of workers"
	let_go "$id" alice
	job_done "$id"
}

# CPUs of a process or of all its threads, each list once
cpus_of() {
	on n1 bash -c 'cat /proc/$1/task/*/status' - "$1" | sed -n 's/^Cpus_allowed_list:\t//p' | sort -u
}

test_all_of_a_job_stays_on_its_own_cores() {
	local other id name pid want

	# The other core is somebody's; the image server is started before the job has a cgroup.
	other=$(job_submit bob -w n1 -n1 --mem=100 <<<'sleep 60')
	job_wait_running "$other"
	gate_close n1
	id=$(job_submit alice -w n1 -n1 --mem=400 --stage-wait=no \
		--stage-data="m=/srv/pfs/data/many.zstd.sqsh,g=/srv/pfs/gate/many.tar,h=/srv/pfs/gate,i=/srv/pfs/gate" \
		<<<'taskset -cp $$; echo begun; stagectl wait m; sleep 1; echo "m is there"; stagectl wait; echo over; sleep 60')
	job_wait_says "$id" "m is there"
	want=$(job_output "$id" | sed -n "s/.*affinity list: //p")
	assert_match "$want" '^[0-9]+$'
	for name in stage-keeper stage-manager stagingd stage-worker; do
		for pid in $(on n1 pgrep -x "$name"); do
			assert_eq "$want" "$(cpus_of "$pid")" "CPUs of $name"
		done
	done
	# The server and two writers, so that one whose source hangs is not all there is; the third
	# waits.
	assert_eq 3 "$(on n1 pgrep -cx stage-worker)" "workers"
	gate_open n1
	job_wait_says "$id" over
	as alice scancel "$id"
	as bob scancel "$other"
}
