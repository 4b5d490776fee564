# Hostile values of the option. sbatch refuses them with one sentence of plain characters. A value
# that does not pass through sbatch is checked again on the node. No node is affected.

# plain TEXT: printable, so that it does nothing to a terminal
assert_plain() {
	local odd

	odd=$(LC_ALL=C tr -d '\n\040-\176' <<<"$1" | LC_ALL=C grep -ao '[[:cntrl:]]' | head -n 1) || true
	assert_eq "" "$odd" "control bytes in: $(cat -v <<<"$1")"
}

# odd_value VALUE REGEX: sbatch refuses it
odd_value() {
	local out

	out=$(job_refused alice "--stage-data=$1" <<<true)
	assert_plain "$out"
	assert_one_sentence "$out"
	assert_match "$out" "$2"
}

test_control_bytes_are_refused() {
	odd_value $'t=/srv/pfs/data/fl\nat' 'byte'
	odd_value $'t=/srv/pfs/data/fl\tat' 'byte'
	odd_value $'t=/srv/pfs/data/fl\rat' 'byte'
	odd_value $'t=/srv/pfs/data/\e[31mflat' 'byte'
	odd_value $'t=/srv/pfs/data/\x7fflat' 'byte'
	odd_value $'t=/srv/pfs/data/\xff\xfeflat' 'byte|UTF-8'
	odd_value $'t=/srv/pfs/data/\xc0\xafflat' 'byte|UTF-8'
	odd_value $'t=/srv/pfs/data/\xed\xa0\x80flat' 'byte|UTF-8'
}

test_what_the_shell_would_expand_is_text() {
	odd_value "t=$data/\$(touch /srv/pfs/home/alice/ran)" '.'
	odd_value "t=$data/\`touch /srv/pfs/home/alice/ran\`" '.'
	odd_value "t=$data/'flat'" '.'
	odd_value "t=$data/\"flat\"" '.'
	odd_value "t=$data/flat;touch" '.'
	odd_value "t=$data/\\flat" '.'
	assert_not test -e "$pfs/home/alice/ran"
}

test_values_that_are_none() {
	local i value=

	odd_value '=' '.'
	odd_value ',' '.'
	odd_value ':' '.'
	odd_value 't=' '.'
	odd_value "ftp://h/x" 'ftp'
	odd_value "file:///etc/passwd" '.'
	odd_value "t=$data/../../../etc/passwd" '(rule|source|\.\.)'
	odd_value "t=/srv/pfs/data/../../../etc/passwd" '(rule|source|\.\.)'
	odd_value "t=//srv//pfs/./data/..//../../etc/hostname" '(rule|source|\.\.)'
	odd_value "t=/srv/pfsx/data" 'rule|allow'
	for ((i = 0; i < 2000; i++)); do
		value+=/d
	done
	odd_value "t=/srv/pfs$value$value" 'long|bytes|4096'
	odd_value "t=$data/$(printf '%0300d' 0)" 'long|File name|0000'
}

test_names_that_are_equal_for_a_variable() {
	odd_value "a-b=$data/flat" 'a_b'
	odd_value "x=$data/flat,X=$data/many" '[xX]'
	odd_value "$(printf 'n%0100d' 1)=$data/flat" '32 at most'
}

test_given_a_thousand_times() {
	local args=() i out

	for ((i = 0; i < 1000; i++)); do
		args+=("--stage-data=+$data/flat/00.bin")
	done
	out=$(job_refused alice "${args[@]}" <<<true)
	assert_one_sentence "$out"
	assert_match "$out" '1000 options'
}

# --- around sbatch --------------------------------------------------------------------------------

# forged ENVIRONMENT...: a job without the option whose step is told of one by its environment.
# Nothing but the job itself may suffer, and what the rules forbid is not staged.
forged() {
	local id

	id=$(job_submit alice -w n1 --export=NONE <<-EOS
	export PATH=$prefix/bin:/usr/bin:/bin
	env ${*@Q} timeout 20 srun --export=ALL -n1 bash -c \
		'timeout 5 stagectl wait; cat "\${STAGE_DATA_DIR:-/none}"/*; ls "\${STAGE_DATA_DIR:-/none}"' 2>&1 | head -c 4000
	echo over
	EOS
	)
	job_wait "$id" 60
	forged_output=$(job_output "$id")
	assert_contains "$forged_output" over
	assert_lacks "$forged_output" "root:"
	wait_until 20 job_nodes_clean "$id"
	assert_nodes_fine
}

test_a_forged_spec_is_judged_on_the_node() {
	local zeros=0000000000000000

	forged "SLURM_SPANK_STAGE_SPEC=1:no:$zeros:t=/etc/passwd"
	assert_match "$forged_output" 'rule|source|allow'
	forged "SLURM_SPANK_STAGE_SPEC=1:no:$zeros:t=/srv/pfs/data/../../../etc/passwd"
	forged "SLURM_SPANK_STAGE_SPEC=1:tasks:$zeros:t=/etc/passwd"
	forged "SLURM_SPANK_STAGE_SPEC=9:no:$zeros:t=/srv/pfs/data/flat"
	forged "SLURM_SPANK_STAGE_SPEC=root:x:0:0"
	forged $'SLURM_SPANK_STAGE_SPEC=1:no:0000000000000000:t=/srv/pfs/data/\e]0;x\a\xff'
	forged "SLURM_SPANK_STAGE_SPEC=1:no:$zeros:t=/srv/pfs/data/$(printf '%030000d' 0)"
	forged "SLURM_SPANK_STAGE_SPEC=1:no:$zeros:$(printf '%0120000d' 0)"
}

# What the site would allow, so that it would be there: options that nobody has given are none. What
# breaks it: an option that srun has inherited, taken for one of its command line.
test_forged_options_reach_nobody() {
	local name value

	for name in _SLURM_SPANK_OPTION_stage_data_stage-data SLURM_SPANK__SLURM_SPANK_OPTION_stage_data_stage_data \
		SPANK_STAGE_SPEC SPANK__SLURM_SPANK_OPTION_stage_data_stage_data; do
		value=t=$data/flat
		[[ $name != *_SPEC ]] || value=1:no:0000000000000000:$value
		forged "$name=$value" "SLURM_JOB_UID=0" "SLURM_JOB_GID=0" "SLURMD_NODENAME=../../etc"
		assert_contains "$forged_output" "/none"
	done
	forged "_SLURM_SPANK_OPTION_stage_data_stage-data=$(printf '%0100000d' 0)"
}

test_a_job_can_not_ask_in_anothers_name() {
	local id out

	site_conf <<<$'[source bobs]\nMatch=/srv/bobs/**\nAllowUsers=bob'
	for node in n1 n2 n3 ctl; do
		on $node mkdir -p /srv/bobs
		on $node bash -c 'echo secret >/srv/bobs/x; chmod 0644 /srv/bobs/x'
		at_end "on $node rm -rf /srv/bobs"
	done
	out=$(job_refused alice --stage-data=t=/srv/bobs/x <<<true)
	assert_match "$out" 'bobs'
	forged "SLURM_SPANK_STAGE_SPEC=1:no:0000000000000000:t=/srv/bobs/x" USER=bob LOGNAME=bob SLURM_JOB_USER=bob \
		SLURM_JOB_UID=4002 HOME=/srv/pfs/home/bob
	assert_lacks "$forged_output" secret
	assert_contains "$forged_output" bobs
}

# What a job sets does not come near what root starts: each process has the few variables that we
# give it, and none besides. /proc/PID/environ is what it was started with.
test_the_jobs_environment_ends_with_the_job() {
	local id pid names n=0

	id=$(job_submit alice -w n1 --stage-wait=no --stage-data="t=$data/many.tar,m=$data/many.zstd.sqsh" \
		--export=ALL,LD_PRELOAD=/srv/pfs/home/alice/x.so,LD_LIBRARY_PATH=/srv/pfs/home/alice,SSLKEYLOGFILE=/srv/pfs/home/alice/keys,MALLOC_TRACE=/srv/pfs/home/alice/trace,STAGE_CONF=/srv/pfs/home/alice/conf,BASH_ENV=/srv/pfs/home/alice/rc \
		<<<'stagectl wait; echo begun; sleep 30')
	job_wait_says "$id" begun
	for pid in $(on n1 pgrep -x 'stage-keeper|stage-manager|stagingd|stage-worker'); do
		names=$(on n1 bash -c "tr '\0' '\n' </proc/$pid/environ" | tee "$work/environ" | sed 's/=.*//' | sort | xargs)
		assert_match "$names" '^(LANG PATH|HOME LANG LOGNAME PATH USER)$'
		assert_lacks "$(cat "$work/environ")" alice/
		assert_lacks "$(on n1 cat "/proc/$pid/maps")" alice
		n=$((n + 1))
	done
	assert_eq 4 "$n" "processes"
	as alice scancel "$id"
	job_wait "$id"
	assert_eq "" "$(find "$pfs/home/alice" -name keys -o -name trace)" "files"
}

test_a_canary_key_is_nowhere() {
	local id key=AKIA1CANARY9KEY5IN2NO7PLACE out

	id=$(job_submit alice -w n1 --stage-wait=no --stage-data="t=$data/many.tar,m=$data/many.zstd.sqsh" \
		--export="ALL,AWS_SECRET_ACCESS_KEY=$key,AWS_SESSION_TOKEN=$key,http_proxy=http://u:$key@proxy" \
		<<<'stagectl wait; stagectl status; stagectl log; stagectl explain t; echo begun; sleep 30')
	job_wait_says "$id" begun
	on n1 bash -c 'for p in $(pgrep -x "stage-keeper|stage-manager|stagingd|stage-worker"); do
		tr "\0" "\n" </proc/$p/environ; done; cat /proc/[0-9]*/cmdline' >"$work/seen" 2>/dev/null || true
	on n1 bash -c "cat /run/stage-data/$id/{state,lock} /run/stage-data/$id/t/.stage/* 2>/dev/null" >>"$work/seen" || true
	as_on alice n1 bash -c "cat /run/stage-data/$id/t/.stage/*" >>"$work/seen" 2>/dev/null || true
	cat "$base"/node/*/log/stage-data.log >>"$work/seen"
	job_output "$id" >>"$work/seen"
	assert_not grep -aq "$key" "$work/seen"
	# the look would see it
	printf '%s\0' "x=$key" >>"$work/seen"
	assert grep -aq "$key" "$work/seen"
	as alice scancel "$id"

	# In an address it is not shown either.
	out=$(job_refused alice --stage-data="t=https://data.example.org/x.tar?X-Amz-Signature=$key" <<<true)
	assert_lacks "$out" "$key"
	out=$(job_refused alice --stage-data="t=https://user:$key@data.example.org/x.tar" <<<true)
	assert_lacks "$out" "$key"
}

# Fails when explain says "plain" of a directory, or that a disk's space is not known of what is
# planned for it.
test_explain_says_directory() {
	local out

	out=$(as alice stagectl explain "$data/flat:ssd")
	assert_match "$out" "found +directory"
	assert_lacks "$out" "not known yet"
	out=$(as alice stagectl explain "$data/flat/00.bin")
	assert_match "$out" "found +file"
}
