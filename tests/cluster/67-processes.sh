# The processes of a job have given up the rights that they do not need, in each phase. The test
# compares what the kernel shows.

classes_are() {
	on n1 /srv/pfs/process-state 4001 4001 4100 >"$work/state"
	# stage-helper comes and goes
	sed -i 's/ stage-helper:[0-9]//' "$work/state"
	[[ $(tail -n 1 "$work/state") == "looked at $1" ]]
}

# state_is CLASSES: these processes are there, or come soon, and none of the job's deviates
state_is() {
	within 10 classes_are "$1" || true
	assert_eq "looked at $1" "$(cat "$work/state")" "state of the processes"
}

# Fails when the launch leaves the umask as it is, and when the user's groups are left out.
test_processes_have_nothing_that_they_do_not_need() {
	local id out pid

	((!${STAGE_TEST_AUDIT:-0})) || skip audit "strace has its own filter of calls in them"
	need_fuse
	install -m 0755 "$here/process-state" "$pfs/process-state"
	gate_close n1
	id=$(job_submit alice -w n1 --stage-wait=no \
		--stage-data="m=$data/many.zstd.sqsh,g=/srv/pfs/gate/many.tar,d=$data/flat:ssd" <<-'EOS'
	trap "echo ending; sleep 3" TERM
	stagectl wait m d && echo "two are there"
	stagectl wait && echo "all is there"
	sleep 60 & wait
	EOS
	)
	job_wait_says "$id" "two are there"
	state_is "server:1 stage-keeper:1 stage-manager:1 stagingd:1 writer:1"
	gate_open n1
	job_wait_says "$id" "all is there"
	state_is "server:1 stage-keeper:1 stage-manager:1 stagingd:1"
	as alice scancel "$id"
	job_wait_says "$id" ending
	state_is "server:1 stage-keeper:1 stage-manager:1 stagingd:1"

	job_wait "$id"

	# The same look sees what is not as it should be.
	on n1 env SECRET=1 PATH=/usr/bin:/bin bash -c 'ulimit -n 5000; cd /srv; umask 022; exec 7</etc/hostname
		exec setpriv --reuid 4001 --regid 4001 --groups 4001,4002 python3 -c "
import time
open(\"/proc/self/comm\", \"w\").write(\"stagingd\")
time.sleep(60)"' &
	pid=$!
	wait_until 10 on n1 pgrep -x stagingd
	out=$(on n1 /srv/pfs/process-state 4001 4001 4100)
	assert_contains "$out" "Groups is 4001 4002"
	assert_contains "$out" "NoNewPrivs is 0"
	assert_contains "$out" "CapBnd is"
	assert_contains "$out" "limit: Max open files"
	assert_contains "$out" "limit: Max data size unlimited"
	assert_contains "$out" "SECRET is in the environment"
	assert_contains "$out" "the directory is /srv"
	assert_contains "$out" "descriptor 7 is /etc/hostname"
	assert_contains "$out" "Umask is 0022"
	on n1 pkill -KILL -x stagingd
	wait "$pid" || true
}

# What a group alone may read, extracted, mounted, copied and in place; who is not in it gets
# nothing, not even where nobody looked before the job. Fails when the user's groups are left out.
test_a_groups_source_is_for_its_members() {
	local id name out

	need_fuse
	assert_eq "4001 4100" "$(as_on alice n1 id -G)" "alice's groups"
	for name in many.tar many.zstd.sqsh flat/00.bin; do
		install -m 0640 -o 0 -g 4100 "$pfs/data/$name" "$pfs/gate/group.${name##*/}"
	done
	at_end "rm -f $pfs/gate/group.*"
	assert_not as bob cat /srv/pfs/gate/group.00.bin
	out=$(job_run alice -w n1 --stage-data="t=/srv/pfs/gate/group.many.tar,m=/srv/pfs/gate/group.many.zstd.sqsh" \
		--stage-data="d=/srv/pfs/gate/group.00.bin:ssd,l=/srv/pfs/gate/group.00.bin::method=link" <<-'EOS'
	cat $STAGE_DATA_PATH_T/*/* | cksum; cat $STAGE_DATA_PATH_M/*/* | cksum
	cmp $STAGE_DATA_PATH_D /srv/pfs/data/flat/00.bin && cmp $STAGE_DATA_PATH_L $STAGE_DATA_PATH_D && echo the same
	EOS
	)
	assert_eq 2 "$(grep -cx "$(cat "$pfs"/data/many/*/* | cksum)" <<<"$out")" "right sums in: $out"
	assert_contains "$out" "the same"
	# sbatch would say so before there is a job: what the workers may do is asked for by `add`
	id=$(job_submit bob -w n1 --stage-data="f=$data/flat" <<-'EOS'
	for name in many.tar many.zstd.sqsh 00.bin; do
		stagectl add "x=/srv/pfs/gate/group.$name" && stagectl wait x
		echo "$name ends with $?"
		ls "$STAGE_DATA_DIR/x" 2>/dev/null
		stagectl release x
	done
	EOS
	)
	job_done "$id"
	out=$(job_output "$id")
	assert_eq 3 "$(grep -c 'Permission denied' <<<"$out")" "refusals in: $out"
	assert_eq "many.tar ends with 1|many.zstd.sqsh ends with 1|00.bin ends with 1" \
		"$(grep -vE '^(stagectl|stage-data): ' <<<"$out" | paste -sd'|')" "what bob sees"
}

# A server on the login node that sends the head of a large answer and no more
slow_web() {
	on ctl python3 -c '
import socket, time
s = socket.create_server(("", 8081), backlog=16)
held = []
while True:
    c, _ = s.accept()
    c.recv(65536)
    c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n" + bytes(1000))
    held.append(c)' &
	at_end "on ctl pkill -f 'create_server.*8081'"
	wait_until 5 on ctl bash -c ': </dev/tcp/ctl/8081'
}

# Fails when who fetches does without its filter.
test_who_fetches_and_who_broadcasts_have_nothing_else() {
	local id

	((!${STAGE_TEST_AUDIT:-0})) || skip audit "strace has its own filter of calls in them"
	install -m 0755 "$here/process-state" "$pfs/process-state"
	slow_web
	site_conf <<-CONF
	[source slow]
	Match=http://ctl:8081/**
	Networks=10.77.0.0/24
	[fanout]
	Mode=sbcast
	MinNodes=2
	CONF
	gate_close n1
	id=$(job_submit alice -N2 -w n1,n2 --stage-wait=no \
		--stage-data="w=http://ctl:8081/x.tar,g=/srv/pfs/gate/many.tar" <<<"sleep 60")
	state_is "stage-broadcast:1 stage-fetch:1 stage-keeper:1 stage-manager:1 stagingd:1 writer:2"
	gate_open n1
	as alice scancel "$id"
	job_wait "$id"
}
