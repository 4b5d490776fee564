# Sources on the web. nginx runs on the login node, with a certificate that the test's own
# authority has signed. The jobs fetch from it over the cluster's network.

need_nginx() {
	type -P nginx openssl >/dev/null || skip web "no nginx or openssl"
}

make_certificate() {
	(
		cd "$pfs/web"
		openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key \
			-out ca.pem -days 2 -subj '/CN=test CA'
		openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout server.key \
			-out server.csr -subj /CN=ctl
		openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
			-extfile <(echo subjectAltName=DNS:ctl) -out server.pem
		chmod 644 ca.pem
	) &>/dev/null
}

# https://ctl:8443/data is the test data, /away leads elsewhere; what it was asked stands in
# access.log
web_up() {
	need_nginx
	rm -rf "$pfs/web"
	mkdir -p "$pfs/web"
	chmod 755 "$pfs/web"
	make_certificate
	cat >"$pfs/web/nginx.conf" <<-'CONF'
	user root;
	worker_processes 2;
	pid /srv/pfs/web/pid;
	error_log /srv/pfs/web/error.log;
	events { worker_connections 256; }
	http {
		log_format asked '$remote_addr $request_uri $status $body_bytes_sent "$http_range" "$http_authorization"';
		access_log /srv/pfs/web/access.log asked;
		client_body_temp_path /srv/pfs/web/t1; proxy_temp_path /srv/pfs/web/t2;
		fastcgi_temp_path /srv/pfs/web/t3; uwsgi_temp_path /srv/pfs/web/t4;
		scgi_temp_path /srv/pfs/web/t5;
		server {
			listen 8443 ssl; listen 8080;
			ssl_certificate /srv/pfs/web/server.pem;
			ssl_certificate_key /srv/pfs/web/server.key;
			location /data/ { root /srv/pfs; }
			location /away { return 302 https://ctl:8443/elsewhere/x; }
			location /down { return 302 http://ctl:8080/data/many.tar; }
			location /busy { return 503; }
		}
	}
	CONF
	on ctl nginx -c /srv/pfs/web/nginx.conf
	at_end "on ctl nginx -c /srv/pfs/web/nginx.conf -s stop; wait_until 5 test ! -e '$pfs/web/pid'; rm -rf '$pfs/web'"
	wait_until 5 on ctl bash -c ': </dev/tcp/ctl/8443'
	site_conf <<-CONF
	[source web]
	Match=https://ctl:8443/**
	Networks=10.77.0.0/24
	CaFile=/srv/pfs/web/ca.pem
	[source plain]
	Match=http://ctl:8080/data/**
	Networks=10.77.0.0/24
	CONF
}

asked() {
	grep -c "$1" "$pfs/web/access.log" || true
}

# Fails when what comes from the web is copied and not opened.
test_an_archive_comes_from_the_web_on_each_node() {
	local out

	web_up
	out=$(job_run alice -N2 --stage-data="t=https://ctl:8443/data/many.tar,u=http://ctl:8080/data/many.tar" \
		<<<'srun -N2 --ntasks-per-node=1 bash -c "cat $STAGE_DATA_PATH_T/*/* | cksum; cat $STAGE_DATA_PATH_U/*/* | cksum"')
	assert_eq 4 "$(grep -c ' 4063000' <<<"$out")" "$out"
	assert_contains "$(cut -d' ' -f1 "$pfs/web/access.log" | sort -u | wc -l)" 2
	assert_nodes_fine
}

# Fails when an image of the web is unpacked.
test_an_image_comes_to_the_node_and_is_mounted() {
	local out

	need_fuse
	web_up
	out=$(job_run alice --stage-data="m=https://ctl:8443/data/many.zstd.sqsh" \
		<<<'cat $STAGE_DATA_PATH_M/*/* | cksum; stagectl status m')
	assert_contains "$out" " 4063000"
	assert_contains "$out" mount
}

# Fails when a file is left out of a set.
test_a_set_of_files_and_one_with_its_sum() {
	local out sum

	web_up
	sum=$(sha256sum "$pfs/data/flat/00.bin" | cut -d' ' -f1)
	out=$(job_run alice --stage-data="s=https://ctl:8443/data/flat/{00..04}.bin,f=https://ctl:8443/data/flat/00.bin::verify=sha256:$sum" \
		<<<'ls $STAGE_DATA_PATH_S | wc -l; cmp $STAGE_DATA_PATH_S/00.bin $STAGE_DATA_PATH_F && echo same')
	assert_contains "$out" 5
	assert_contains "$out" same
}

fails_with() {
	local id

	id=$(job_submit alice --stage-data="x=$1" <<<'echo begun')
	job_failed "$id"
	assert_lacks "$(job_output "$id")" begun
	assert_contains "$(job_output "$id")" "$2"
	assert_nodes_fine
}

# Fails when an address is logged with its query.
test_what_can_not_be_had_fails_with_a_sentence() {
	web_up
	fails_with "https://ctl:8443/data/no.tar?sig=SECRET" "404"
	fails_with https://ctl:8443/busy "503"
	fails_with https://ctl:8443/down "from https:// to http://"
	assert_eq 5 "$(asked '/busy')" "tries"
	assert_lacks "$(on n1 cat /var/log/stage-data.log)" SECRET
}

# Fails when the first address's rule counts for where it leads.
test_where_a_redirect_leads_is_held_against_the_rules() {
	web_up
	fails_with https://ctl:8443/away "404"
	site_conf <<-CONF
	[source web]
	Match=https://ctl:8443/away
	Networks=10.77.0.0/24
	CaFile=/srv/pfs/web/ca.pem
	CONF
	fails_with https://ctl:8443/away "no rule of the site allows"
	assert_eq 1 "$(asked elsewhere)" "requests that followed the redirect"
}

# Fails when certificates are not verified.
test_addresses_and_certificates_are_the_sites_to_name() {
	web_up
	site_conf <<-CONF
	[source web]
	Match=https://ctl:8443/**
	CaFile=/srv/pfs/web/ca.pem
	CONF
	fails_with https://ctl:8443/data/many.tar "not public"
	site_conf <<-CONF
	[source web]
	Match=https://ctl:8443/**
	Networks=10.77.0.0/24
	CONF
	fails_with https://ctl:8443/data/many.tar "certificate is not accepted"
	assert_match "$(job_refused alice --stage-data="x=https://elsewhere.example/x" <<<true)" "no rule of the site"
}

# A server of S3 on the login node that checks signatures (tests/lib/s3); it has closed/many.tar and
# what is below closed/flat/. alice has her keys in ~/.aws, as she would on a real site.
s3_up() {
	local modules=${STAGE_TEST_S3:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/stage-data/s3} file

	[[ -e $modules/package-lock.json ]] && type -P node >/dev/null || skip s3 "tools/deps s3 has not fetched the server"
	at_end "rm -rf '$pfs/s3' '$pfs/home/alice/.aws'"
	mkdir -p "$pfs/s3/closed/flat"
	cp "$pfs/data/many.tar" "$pfs/s3/closed/many.tar._S3rver_object"
	for file in "$pfs"/data/flat/*; do
		cp "$file" "$pfs/s3/closed/flat/${file##*/}._S3rver_object"
	done
	cp -r "$modules" "$here/../lib/s3/server.js" "$pfs/s3/"
	# the server's own pid, and not that of a shell before it: it is stopped by it
	on ctl bash -c 'cd /srv/pfs/s3; exec 3<>log; setsid node --openssl-legacy-provider server.js \
		"/srv/pfs/s3/$0" /srv/pfs/s3 0.0.0.0 </dev/null >&3 2>&1 3>&- & echo $!' "${modules##*/}" >"$work/s3.pid"
	at_end "on ctl kill -KILL $(cat "$work/s3.pid")"
	wait_until 20 grep -q '^[0-9]' "$pfs/s3/log"
	s3_keys secret/+key
	site_conf <<-CONF
	[source s3]
	Match=s3://closed/**
	Endpoint=http://ctl:$(head -n 1 "$pfs/s3/log")
	Networks=10.77.0.0/24
	CONF
}

s3_keys() {
	install -d -m 0700 -o 4001 -g 4001 "$pfs/home/alice/.aws"
	printf '[default]\naws_access_key_id = AKIATEST\naws_secret_access_key = %s\n' "$1" >"$work/keys"
	install -m 0600 -o 4001 -g 4001 "$work/keys" "$pfs/home/alice/.aws/credentials"
}

# s3_submit SECRET [SBATCH OPTION...] <SCRIPT: a job of alice's with keys in its environment
s3_submit() {
	local secret=$1

	shift
	as alice env AWS_ACCESS_KEY_ID=AKIATEST "AWS_SECRET_ACCESS_KEY=$secret" sbatch --parsable --no-requeue "$@" |
		tee -a "$work/jobs"
}

# s3_where NODE [WHOSE]: what the secret is found in while the job is there: of our processes, or of
# those of that name (the job's own have it, as they would without us), of files and of command
# lines.
s3_where() {
	on "$1" bash -c 'cd /proc
	for pid in $(pgrep -x "$0"); do
		grep -lsF -f /srv/pfs/s3/secret "$pid/environ"
	done
	grep -lsF -f /srv/pfs/s3/secret [0-9]*/cmdline
	grep -rlsF -f /srv/pfs/s3/secret /run/stage-data' "${2:-stage-keeper|stage-manager|stagingd|stage-worker|stage-fetch|stage-helper}" || true
}

# The server is stopped while it is looked for the secret, so that a stage-fetch which has it is
# there. Red when the keys are not sent to each node, or are in an argument, an environment or a
# file of ours; when the log has them, when the plugin doesn't put down that there are some, and
# when it is not said which of two were refused.
test_objects_of_s3_come_with_the_users_keys_which_nobody_else_sees() {
	local id out node

	s3_up
	echo secret/+key >"$pfs/s3/secret"
	# only in the environment of who submits, and on two nodes
	rm "$pfs/home/alice/.aws/credentials"
	on ctl kill -STOP "$(cat "$work/s3.pid")"
	id=$(s3_submit secret/+key -N2 --stage-data="t=s3://closed/many.tar,f=s3://closed/flat/" <<-'JOB'
	#!/bin/bash
	srun --ntasks-per-node=1 bash -c 'cat $STAGE_DATA_PATH_T/*/* | cksum
		diff -r $STAGE_DATA_PATH_F /srv/pfs/data/flat && echo same'
	stagectl status
	stagectl log
	JOB
	)
	job_wait_running "$id"
	for node in n1 n2; do
		wait_until 30 on $node pgrep -x stage-fetch >/dev/null
		assert_contains "$(s3_where $node stagectl)" environ # would be found: who brings them has them
		assert_eq "" "$(s3_where $node)" "on $node"
	done
	on ctl kill -CONT "$(cat "$work/s3.pid")"
	job_done "$id"
	out=$(job_output "$id")
	assert_eq 2 "$(grep -c ' 4063000' <<<"$out")" "$out"
	assert_eq 2 "$(grep -c same <<<"$out")" "$out"
	assert_not grep -rqsF secret/+key "$base"/node/*/log
	assert_lacks "$out" secret/+key
	assert_lacks "$(as alice scontrol show job "$id")" secret/+key
	# wrong ones are named by where they come from
	id=$(s3_submit wrong-secret -N1 --stage-data=t=s3://closed/many.tar <<<$'#!/bin/bash\necho begun')
	job_failed "$id"
	assert_contains "$(job_output "$id")" "keys of AWS_ACCESS_KEY_ID: s3://closed/many.tar: the server answers 403 SignatureDoesNotMatch"
	fails_with s3://closed/many.tar "no keys came from the job's environment (AWS_ACCESS_KEY_ID is not set)"
	assert_contains "$(job_output "$(tail -n 1 "$work/jobs")")" "write ~/.aws/credentials"
	# nobody is held: the script brings what it has itself, when it waits
	out=$(job_run alice -N1 --stage-wait=no --stage-data=t=s3://closed/many.tar <<-'JOB'
	until stagectl status | grep 'queued: credentials'; do sleep 0.1; done
	export AWS_ACCESS_KEY_ID=AKIATEST AWS_SECRET_ACCESS_KEY=secret/+key
	stagectl wait -q && cat $STAGE_DATA_PATH_T/*/* | cksum
	JOB
	)
	assert_contains "$out" " 4063000"
	# those of the environment go before those of the file
	s3_keys wrong-secret
	id=$(s3_submit secret/+key -N1 --stage-data=t=s3://closed/many.tar <<<$'#!/bin/bash\necho begun')
	job_done "$id"
	fails_with s3://closed/many.tar "answers 403 SignatureDoesNotMatch"
	assert_lacks "$(job_output "$(tail -n 1 "$work/jobs")")" wrong-secret
	# red when AWS_PROFILE is not looked at where the job is submitted
	printf '[lab]\naws_access_key_id = AKIATEST\naws_secret_access_key = secret/+key\n' >>"$pfs/home/alice/.aws/credentials"
	out=$(as alice env AWS_PROFILE=lab srun -N1 --stage-data='t=s3://closed/*/*' \
		bash -c 'diff -r $STAGE_DATA_PATH_T /srv/pfs/data/flat && echo no difference') || fail "srun: $out"
	assert_contains "$out" "no difference"
	assert_not grep -q '"signed":false' "$pfs/s3/log"
}

# A server that takes connections and says nothing
readonly quiet_server='
import socket
with socket.create_server(("0.0.0.0", 9009)) as s:
    taken = []
    while True:
        taken.append(s.accept())'

# Fails when nobody says before the queue that there are no keys, or that a prefix needs its slash.
test_s3_says_what_is_missing_before_and_after_the_queue() {
	local id out

	s3_up
	rm "$pfs/home/alice/.aws/credentials"
	out=$(as alice bash -c "cd && sbatch --test-only --stage-data='t=s3://closed/flat/' --wrap=true" 2>&1 || true)
	assert_contains "$out" "t: no keys for S3 are found: write ~/.aws/credentials"
	assert_one_sentence "$out"
	s3_keys secret/+key
	out=$(as alice bash -c "cd && sbatch --test-only --stage-data='t=s3://closed/flat/' --wrap=true" 2>&1 || true)
	assert_lacks "$out" "no keys"
	id=$(job_submit alice --stage-data="t=s3://closed/flat" <<<'echo begun')
	job_failed "$id"
	assert_contains "$(job_output "$id")" "write s3://closed/flat/ for all objects below it"
}

# A stage-fetch that waits for a server has the keys in its memory, and is killed as by a crash: no
# core, nothing in what goes to /dev/log or stands in a file. (That no core is left where others
# leave theirs is in data test-s3.) Fails when stage-fetch may be dumped, or when it logs what it
# sends.
test_a_fetch_that_crashes_with_keys_leaves_none() {
	local id pid secret=secret/+key

	mkdir -p "$pfs/s3"
	at_end "rm -rf '$pfs/s3'; on ctl pkill -f quiet-server"
	echo "$secret" >"$pfs/s3/secret"
	install -m 0755 "$lib/procmem.py" "$pfs/s3/"
	{ on ctl python3 -c "$quiet_server" quiet-server || true; } &
	system_log n1 /var/log/dev-log
	wait_until 10 on ctl bash -c ': </dev/tcp/ctl/9009' 2>/dev/null
	site_conf <<<$'[source s3]\nMatch=s3://closed/**\nEndpoint=http://ctl:9009\nNetworks=10.77.0.0/24'
	id=$(s3_submit "$secret" -w n1 --stage-data="t=s3://closed/many.tar" <<<$'#!/bin/bash\necho begun')
	wait_until 30 on n1 pgrep -x stage-fetch >/dev/null
	pid=$(on n1 pgrep -x stage-fetch)
	wait_until 10 on n1 python3 -c 'import sys
sys.path.insert(0, "/srv/pfs/s3")
from procmem import memory_has
sys.exit(not memory_has(sys.argv[1], sys.argv[2].encode()))' "$pid" "$secret"
	assert_match "$(on n1 cat "/proc/$pid/limits")" 'Max core file size +0 +0 '
	# the kernel's sign of who may be dumped: his files in /proc are his own
	assert_eq "4001 0" "$(on n1 stat -c %u "/proc/$pid" "/proc/$pid/environ" | paste -sd' ')" "owners in /proc"
	on n1 kill -SEGV "$pid"
	job_failed "$id"
	assert_contains "$(job_output "$id")" "stage-fetch has ended by itself"
	assert_lacks "$(job_output "$id")" "$secret"
	wait_until 10 job_nodes_clean "$id"
	assert on n1 grep -q "job=$id .*stage-fetch has ended by itself" /var/log/dev-log
	# shellcheck disable=SC2016
	assert_eq "" "$(on n1 bash -c 'find / /srv/pfs/home/alice /srv/local -maxdepth 1 -name "core*" -user alice
		grep -rlsF -f /srv/pfs/s3/secret /var/log /run /tmp /var/tmp /srv/local /dev/shm --exclude-dir="$1"; true' - "${base##*/}")" \
		"cores, and files with the key"
	assert_nodes_fine
}

# Fails when the epilog does not clean up.
test_a_job_that_ends_while_it_is_fetched_leaves_nothing() {
	local id

	web_up
	sed -i 's/^[[:space:]]*location .data.*/location \/data\/ { root \/srv\/pfs; limit_rate 100k; }/' "$pfs/web/nginx.conf"
	on ctl nginx -c /srv/pfs/web/nginx.conf -s reload
	id=$(job_submit alice --stage-wait=no --stage-data="t=https://ctl:8443/data/many.tar" \
		<<<'while ! pgrep -x stage-fetch >/dev/null; do sleep 0.1; done; echo begun; sleep 60')
	job_wait_says "$id" begun
	as alice scancel "$id"
	job_wait "$id"
	wait_until 10 job_nodes_clean "$id"
	assert_not on n1 pgrep -x stage-fetch
	assert_not on n2 pgrep -x stage-fetch
	assert_nodes_fine
}

readonly parted=10.77.0.99 # of the server alone: what else the nodes say to each other goes on

is_parted() {
	[[ -z $(on n1 ss -Htn state established dst $parted) ]]
}

# part_in_the_middle OPTIONS: the server's address is nobody's any more, and what was on its way is
# lost
part_in_the_middle() {
	on ctl ip address add $parted/24 dev br0 2>/dev/null || true
	id=$(job_submit alice -w n1 --stage-wait=no --stage-data="f=http://$parted:8080/data/many.tar::$1" \
		<<<'stagectl wait -q f && cmp $STAGE_DATA_PATH_F /srv/pfs/data/many.tar && echo the same')
	wait_until 10 eval '[[ $(on n1 find "/run/stage-data/$id/t/.stage" -size +1M 2>/dev/null) ]]'
	on ctl ip address del $parted/24 dev br0
}

# Fails when a transfer to which nothing comes any more is not broken off, or begins anew instead of
# where it was.
test_the_network_is_parted_in_the_middle_of_a_fetch() {
	local id t0

	web_up
	at_end "on ctl ip address del $parted/24 dev br0 2>/dev/null"
	site_conf <<-CONF
	[source parted]
	Match=http://$parted:8080/data/**
	Networks=10.77.0.0/24
	CONF
	# The server is slow: what the kernel holds ready would be read for seconds yet.
	sed -i 's/^[[:space:]]*location .data.*/location \/data\/ { root \/srv\/pfs; limit_rate 1m; }/' "$pfs/web/nginx.conf"
	on ctl nginx -c /srv/pfs/web/nginx.conf -s reload
	part_in_the_middle method=copy+stall=15s
	wait_until 20 is_parted
	on ctl ip address add $parted/24 dev br0
	job_done "$id" 30
	assert_contains "$(job_output "$id")" "the same"
	assert_match "$(cat "$pfs/web/access.log")" 'many.tar 206 [0-9]+ "bytes=[1-9]'
	t0=$(now_ms)
	part_in_the_middle method=copy+stall=6s
	job_wait "$id" 30
	echo "given up after $(($(now_ms) - t0)) ms"
	assert_match "$(job_output "$id")" 'f: (no progress for 0:06|stalled: the source gave nothing)'
	assert_lacks "$(job_output "$id")" "the same"
	wait_until 10 job_nodes_clean "$id"
	assert_nodes_fine
}

# example NAME SOURCE SED: docs/examples/NAME.sh with what the site has; its program compares with
# what is in SOURCE
example() {
	local out

	sed "$3; s/--mem=64G --time=1:00:00/--mem=200M --time=2/; s|python3 train.py|diff -rq $2|" "$here/../../docs/examples/$1.sh" >"$work/$1.sh"
	grep -q "srun diff -rq $2" "$work/$1.sh" || fail "$(cat "$work/$1.sh")"
	out=$(job_run alice <"$work/$1.sh")
	assert_eq "" "$out" "differences after $1.sh"
}

# Fails when an example names its dataset otherwise than its program does.
test_the_examples_of_the_web_and_of_s3() {
	web_up
	example web "$data/many" "s|data.example.org/images|ctl:8443/data/many|; s|0\{64\}|$(sha256sum "$pfs/data/many.tar" | cut -d' ' -f1)|"
	s3_up
	example s3 "$data/flat" 's|s3://bucket/images/|s3://closed/flat/|'
}
