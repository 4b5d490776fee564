# A job tries to drain its node. It stops the server of an image, ends processes that wait for it,
# and kills, limits or starves all processes of the user. Slurm drains a node on which a process of
# a job does not end.

# For a job's script: the server of its image. Found before anything is opened, since each child's
# close counts.
readonly find_server='server=$(pgrep -u alice -x stage-worker); export server; echo begun'

# Ends when that was done.
readonly until_stopped='until [[ $(<"/proc/$server/stat") == *\)\ T\ * ]]; do sleep 0.1; done; echo stopped'

safety_prepare() {
	need_fuse
	site_conf <<<$'[daemon]\nAbortAfter=1s'
}

node_is_idle() {
	[[ $(on ctl scontrol show node "$1") == *State=IDLE* ]]
}

# safety_submit NODE <SCRIPT: a job with an image
safety_submit() {
	job_submit alice -w "$1" -n1 --mem=300 --time=2 --stage-data="m=$data/many.zstd.sqsh"
}

# nodes_stay NODE=ID...: each of these jobs ends, and leaves its node as it was
nodes_stay() {
	local pair

	for pair in "$@"; do
		wait_until 25 job_is_over "${pair#*=}"
		wait_until 25 node_is_idle "${pair%=*}"
		wait_until 15 job_nodes_clean "${pair#*=}"
	done
	assert_nodes_fine
}

# The close is the first on that mount. Its process exits and no signal reaches it; the process of
# the second is killed in an exec; in the third the first thread has ended, and the last one closes
# the file.
test_a_process_that_exits_while_the_server_is_stopped() {
	local exits execs threads id

	safety_prepare
	exits=$(safety_submit n1 <<-EOS
	$find_server
	python3 - <<-'PY' &
		import os, signal
		fd = os.open(os.environ['STAGE_DATA_PATH_M'] + '/00/000', os.O_RDONLY)
		os.kill(int(os.environ['server']), signal.SIGSTOP)
		os._exit(0)
	PY
	$until_stopped
	EOS
	)
	execs=$(safety_submit n2 <<-EOS
	$find_server
	python3 - <<-'PY' &
		import os, signal
		fd = os.open(os.environ['STAGE_DATA_PATH_M'] + '/00/000', os.O_RDONLY)
		os.kill(int(os.environ['server']), signal.SIGSTOP)
		os.execv('/bin/true', ['true'])
	PY
	$until_stopped
	EOS
	)
	threads=$(safety_submit n3 <<-EOS
	$find_server
	python3 - <<-'PY' &
		import ctypes, os, signal, threading
		libc, main = ctypes.CDLL(None), threading.get_native_id()
		def last():
		    while open(f'/proc/self/task/{main}/stat').read().rpartition(')')[2].split()[0] != 'Z':
		        pass
		    fd = os.open(os.environ['STAGE_DATA_PATH_M'] + '/00/000', os.O_RDONLY)
		    os.kill(int(os.environ['server']), signal.SIGSTOP)
		    libc.syscall(60, 0)
		threading.Thread(target=last).start()
		libc.syscall(60, 0)
	PY
	$until_stopped
	EOS
	)
	nodes_stay "n1=$exits" "n2=$execs" "n3=$threads"
	for id in "$exits" "$execs" "$threads"; do
		assert_contains "$(job_output "$id")" stopped "job $id"
	done
}

# For a job's script: readers past the page cache, and what SIGTERM does not end.
readonly read_on='trap "" TERM
for i in 1 2 3 4; do
	while dd if=$STAGE_DATA_PATH_M/00/00$i of=/dev/null bs=64k iflag=direct 2>/dev/null; do :; done &
done
sleep 0.5'

# safety_attack NODE ATTACK: on all that runs as the user outside of his job, before and while its
# server is stopped
safety_attack() {
	safety_submit "$1" <<-EOS
	$find_server
	$read_on
	others() {
		pgrep -u alice -x 'stage-helper|stagingd|stage-fetch|stage-broadcast'
	}
	$2
	kill -STOP \$server
	sleep 0.5
	EOS
}

test_a_killed_process_where_the_users_helpers_are_attacked() {
	local killed stopped limited

	safety_prepare
	killed=$(safety_attack n1 'setsid bash -c "trap \"\" TERM; for i in {1..80}; do pkill -KILL -u alice -x stage-helper; sleep 0.1; done" &')
	stopped=$(safety_attack n2 'for p in $(others); do kill -STOP $p; done')
	limited=$(safety_attack n3 'for p in $(others); do prlimit --pid $p --nofile=0:0 --cpu=60:60 --nproc=1:1; done')
	nodes_stay "n1=$killed" "n2=$stopped" "n3=$limited"
}

test_a_killed_process_where_the_users_helpers_are_starved() {
	local idle bound reniced

	safety_prepare
	idle=$(safety_attack n1 'for p in $(others) $server; do chrt --idle --all-tasks -p 0 $p; done
	for i in {1..20}; do while :; do :; done & done')
	bound=$(safety_attack n2 'for p in $(others) $server; do taskset -a -p -c "$(taskset -p -c $$ | sed "s/.*: //; s/[,-].*//")" $p; done
	for i in {1..20}; do while :; do :; done & done')
	reniced=$(safety_attack n3 'for p in $(others) $server; do renice -n 19 -p $p; done
	for i in {1..20}; do while :; do :; done & done')
	nodes_stay "n1=$idle" "n2=$bound" "n3=$reniced"
}

# The user unmounts what is hung; it was opened by a process that was stopped; one of a step is
# ended by scancel.
test_a_killed_process_whose_mount_is_gone() {
	local unmounted step group

	safety_prepare
	unmounted=$(safety_attack n1 'kill -STOP $server; sleep 0.2; for at in "$STAGE_DATA_PATH_M" $(awk -v d="/run/stage-data/$SLURM_JOB_ID/m/" "index(\$5, d) == 1 { print \$5 }" /proc/self/mountinfo); do
		fusermount3 -u -z "$at"
	done')
	step=$(safety_submit n2 <<-EOS
	$find_server
	srun --overlap bash -c 'trap "" TERM; kill -STOP \$server; exec dd if=\$STAGE_DATA_PATH_M/00/001 of=/dev/null iflag=direct' &
	sleep 2
	scancel --signal=KILL \$SLURM_JOB_ID.0
	sleep 1
	EOS
	)
	group=$(safety_submit n3 <<-EOS
	$find_server
	kill -STOP \$server
	setsid python3 -c 'import os, threading
	def read():
	    fd = os.open(os.environ["STAGE_DATA_PATH_M"] + "/00/002", os.O_RDONLY | os.O_DIRECT)
	    os.preadv(fd, [memoryview(__import__("mmap").mmap(-1, 4096))], 0)
	for i in range(50):
	    threading.Thread(target=read).start()' &
	sleep 2
	EOS
	)
	nodes_stay "n1=$unmounted" "n2=$step" "n3=$group"
}

# tricks NODE=TRICK...: a job of tests/cluster/drain-tricks.c on each node
tricks() {
	local pair pairs=() id

	safety_prepare
	gcc -O2 -pthread -o "$pfs/drain-tricks" "$here/drain-tricks.c"
	for pair in "$@"; do
		id=$(safety_submit "${pair%=*}" <<-EOS
		$find_server
		/srv/pfs/drain-tricks ${pair#*=} \$STAGE_DATA_PATH_M/00/000 \$server &
		$until_stopped
		sleep 0.3
		EOS
		)
		pairs+=("${pair%=*}=$id")
	done
	for pair in "${pairs[@]}"; do
		job_wait_says "${pair#*=}" stopped
	done
	[[ $* != *=stopped* ]] || as alice scancel "$id"
	nodes_stay "${pairs[@]}"
	for pair in "${pairs[@]}"; do
		assert_contains "$(job_output "${pair#*=}")" stopped "job ${pair#*=}"
	done
}

# What a process has asked the kernel to read for it, and is waited for in its exit.
# Fails as the one of processes that exit does.
test_a_process_whose_reads_the_kernel_does() {
	tricks n1=aio n2=uring n3=sqpoll
}

# Of two processes each waits for the other's end; files are open in messages alone.
test_a_process_that_others_wait_for() {
	tricks n1=vforked n2=traced n3=in-flight
}

# Pages of the image are memory; all that reads sees mounts of its own; all of the job is stopped.
test_a_process_that_is_in_the_image_otherwise() {
	tricks n1=mapped n2=namespaced n3=stopped
}

# sudo and newuidmap give a process of the job another uid; the kernel reads pages of the image for
# a core file. Fails when threads of the job's uid alone are looked at.
test_a_process_that_has_become_another_users() {
	gcc -O2 -pthread -o "$pfs/drain-tricks-setuid" "$here/drain-tricks.c"
	chmod 4755 "$pfs/drain-tricks-setuid"
	at_end "rm -f '$pfs/drain-tricks-setuid'; on n3 find /tmp -maxdepth 1 -name 'core*' -delete"
	tricks n1=become-root n2=become-another n3=dumped
}

# Where Slurm tracks processes without cgroups, those of the job's uid are looked at, and all while
# a server is stopped. Fails when these are those of the job's uid alone.
test_a_process_that_has_become_another_users_without_cgroups() {
	"$cluster" restart --cgroups none
	gcc -O2 -pthread -o "$pfs/drain-tricks-setuid" "$here/drain-tricks.c"
	chmod 4755 "$pfs/drain-tricks-setuid"
	at_end "rm -f '$pfs/drain-tricks-setuid'"
	tricks n1=become-root n2=become-another n3=aio
}

# hang_beside NODE TRICK [PROGRAM]: one job has the image, which PROGRAM serves, and another one of
# the user's, which is over before, hangs in it. Its id is added to `beside`, that of the first to
# `holders`.
hang_beside() {
	local id

	id=$(safety_submit "$1" <<<"${find_server/-x stage-worker/${3:--x stage-worker}}"$'\necho "$server $STAGE_DATA_PATH_M" >~/holder.'"$1; $until_let_go")
	job_wait_says "$id" begun
	wait_until 10 test -s "$pfs/home/alice/holder.$1"
	holders+=("$id")
	beside+=("$1=$(job_submit alice -w "$1" -n1 --mem=300 --time=2 <<-EOS
	read -r server image <~/holder.$1
	/srv/pfs/drain-tricks $2 \$image/00/000 \$server &
	$until_stopped
	sleep 0.3
	EOS
	)")
}

# besides_end: those that hang are over, the others go on until they are let go
besides_end() {
	local pair id

	for pair in "${beside[@]}"; do
		wait_until 25 job_is_over "${pair#*=}"
		assert_contains "$(job_output "${pair#*=}")" stopped "job ${pair#*=}"
		wait_until 25 eval "[[ \$(on ctl squeue -h -o %A -w ${pair%=*}) != *${pair#*=}* ]]"
	done
	for id in "${holders[@]}"; do
		assert job_is "$id" RUNNING
		let_go "$id"
	done
	nodes_stay n1="${holders[0]}" n2="${holders[1]}" n3="${holders[2]}"
}

# Who could free it is not the manager of its own job.
# Fails when the threads of the job alone are looked at.
test_a_process_of_another_job_of_the_users() {
	local holders=() beside=()

	safety_prepare
	gcc -O2 -pthread -o "$pfs/drain-tricks" "$here/drain-tricks.c"
	at_end "rm -f '$pfs'/home/alice/holder.*"
	hang_beside n1 aio
	hang_beside n2 threads
	hang_beside n3 mapped
	besides_end
}

# The same where the server is a program that the worker has started.
# Fails when the processes on record alone are looked at.
test_a_process_of_another_job_while_squashfuse_serves() {
	local holders=() beside=()

	safety_prepare
	printf '[mount]\nBackend=squashfuse_ll\n' >>"$base/etc/stage-data/stage-data.conf"
	gcc -O2 -pthread -o "$pfs/drain-tricks" "$here/drain-tricks.c"
	at_end "rm -f '$pfs'/home/alice/holder.*"
	hang_beside n1 aio "-f ^squashfuse_ll"
	hang_beside n2 threads "-f ^squashfuse_ll"
	hang_beside n3 mapped "-f ^squashfuse_ll"
	besides_end
}

# A thousand threads exit and are killed, again and again, while readers never leave the connection
# without a request. Fails where a thread counts as hung though it is switched to, or runs.
test_a_healthy_mount_stays_under_load() {
	local id

	safety_prepare
	id=$(job_submit alice -w n1 -n2 --mem=600 --time=2 --stage-data="m=$data/many.zstd.sqsh" <<-'EOS'
	for i in 1 2 3 4 5 6 7 8; do
		while dd if=$STAGE_DATA_PATH_M/00/00$i of=/dev/null bs=4k iflag=direct 2>/dev/null; do :; done &
	done
	for i in 1 2 3 4 5; do
		timeout -s KILL 1 python3 -c '
	import os, threading, time
	def work():
	    while True:
	        open(os.environ["STAGE_DATA_PATH_M"] + "/00/000").read()
	for i in range(1000):
	    threading.Thread(target=work, daemon=True).start()
	time.sleep(60)' 2>/dev/null
	done
	echo "readers: $(jobs -p | wc -l)"
	kill $(jobs -p)
	wait
	cat $STAGE_DATA_PATH_M/*/* | wc -c
	EOS
	)
	job_done "$id" 60
	assert_eq "readers: 8" "$(job_output "$id" | grep "^readers")" "readers that are left"
	assert_not grep -E "job=$id .*aborted" "$base/node/n1/log/stage-data.log"
	wait_until 15 job_nodes_clean "$id"
	assert_nodes_fine
}
