# The metrics that the Prometheus node exporter serves agree with the log and with status.

# On n1, bound to its loopback
exporter_up() {
	local pid

	type -P prometheus-node-exporter >/dev/null || skip exporter "no prometheus-node-exporter"
	on n1 install -d -m 0755 /var/lib/figures
	at_end "on n1 rm -rf /var/lib/figures /run/stage-data/.metrics"
	pid=$(on n1 bash -c 'prometheus-node-exporter --web.listen-address=127.0.0.1:9100 \
		--collector.disable-defaults --collector.textfile --web.disable-exporter-metrics \
		--collector.textfile.directory=/var/lib/figures &>/dev/null </dev/null & echo $!')
	at_end "on n1 kill $pid"
	wait_until 10 on n1 bash -c ': </dev/tcp/127.0.0.1/9100'
	site_conf <<-CONF
	[metrics]
	Textfile=/var/lib/figures/stage_data.prom
	CONF
}

# Whole numbers: the exporter writes great ones with an exponent.
scrape() {
	on n1 bash -c 'exec 3<>/dev/tcp/127.0.0.1/9100 && printf "GET /metrics HTTP/1.0\r\n\r\n" >&3 && cat <&3' |
		awk '/^(stage_data|node_textfile_scrape_error)/ { printf "%s %.0f\n", $1, $2 }'
}

# scraped LINE...: all of them are in what it says now
scraped() {
	local all line

	all=$(scrape) || return 1
	for line; do
		grep -qxF -- "$line" <<<"$all" || return 1
	done
}

test_figures_of_jobs_are_scraped() {
	local id out line bytes

	exporter_up
	assert_lacks "$(as alice stagectl check-config)" "no effect"
	out=$(job_run alice -w n1 --stage-data="t=$data/many.tar,c=$data/flat" <<-'JOB'
	stagectl status --json
	stagectl log t
	JOB
	)
	wait_until 10 scraped 'stage_data_jobs_total 1' 'node_textfile_scrape_error 0' \
		'stage_data_datasets_total{result="ready"} 2' 'stage_data_datasets_total{result="failed"} 0' \
		'stage_data_ready_total{method="extract"} 1' 'stage_data_ready_total{method="copy"} 1'
	line=$(grep -oE 'end user=alice result=ready method=extract tier=shm .* cause=-' <<<"$out") ||
		fail "no line of its end in: $out"
	[[ $line =~ bytes=([1-9][0-9]*) ]] || fail "no bytes: $line"
	bytes=${BASH_REMATCH[1]}
	assert_match "$out" "\"method\": ?\"extract\".*\"bytes\": ?$bytes,"
	assert scraped "stage_data_bytes_total{method=\"extract\"} $bytes"

	head -c 100000 /dev/urandom >"$pfs/noise.tar"
	at_end "rm -f '$pfs/noise.tar'"
	id=$(job_submit alice -w n1 --stage-data="n=/srv/pfs/noise.tar::method=extract,c=$data/flat" <<<'true')
	job_failed "$id"
	wait_until 10 scraped 'stage_data_jobs_total 2' 'stage_data_datasets_total{result="failed"} 1' \
		'stage_data_failures_total{cause="content"} 1' 'stage_data_datasets_total{result="ready"} 3'
	assert_contains "$(on n1 cat /var/log/stage-data.log)" "job=$id ds=n end user=alice result=failed"

	# Seen failing: cause="io", which the alert StageDataDatasetsFail counts.
	head -c 100000 "$pfs/data/many.tar" >"$pfs/cut.tar"
	at_end "rm -f '$pfs/cut.tar'"
	job_failed "$(job_submit alice -w n1 --stage-data=/srv/pfs/cut.tar <<<'true')"
	wait_until 10 scraped 'stage_data_failures_total{cause="content"} 2' \
		'stage_data_failures_total{cause="io"} 0'
}

test_jobs_of_an_array_are_all_counted() {
	local id

	exporter_up
	id=$(job_submit alice -w n1 --array=1-4 --stage-data="c=$data/flat" <<<'true')
	wait_until 60 scraped 'stage_data_jobs_total 4' 'stage_data_datasets_total{result="ready"} 4'
}

# On n1, which scrapes the exporter there once a second
prometheus_up() {
	local pid

	type -P prometheus >/dev/null || skip prometheus "no prometheus"
	on n1 install -d -m 0755 /var/lib/prom
	at_end "on n1 rm -rf /var/lib/prom"
	on n1 tee /var/lib/prom/rules.yml <"$here/../../etc/prometheus/stage-data.rules.yml" >/dev/null
	on n1 tee /var/lib/prom/prometheus.yml >/dev/null <<-CONF
	global: {scrape_interval: 1s, evaluation_interval: 1s}
	rule_files: [rules.yml]
	scrape_configs: [{job_name: node, static_configs: [{targets: ["127.0.0.1:9100"]}]}]
	CONF
	pid=$(on n1 bash -c 'prometheus --web.listen-address=127.0.0.1:9090 --config.file=/var/lib/prom/prometheus.yml \
		--storage.tsdb.path=/var/lib/prom/data &>/var/lib/prom/log </dev/null & echo $!')
	at_end "on n1 kill $pid; wait_until 20 gone n1 $pid"
	wait_until 30 on n1 bash -c ': </dev/tcp/127.0.0.1/9090'
}

gone() {
	! on "$1" kill -0 "$2" 2>/dev/null
}

# answers PATH PATTERN: Prometheus' API answers so now
answers() {
	local text

	text=$(on n1 bash -c 'exec 3<>/dev/tcp/127.0.0.1/9090 && printf "GET %s HTTP/1.0\r\n\r\n" "$1" >&3 && cat <&3' - "$1")
	[[ $text =~ $2 ]]
}

test_a_prometheus_fires_an_alert_when_a_keeper_has_died() {
	local id

	forgive_crashes n1
	exporter_up
	prometheus_up
	job_run alice -w n1 --stage-data="c=$data/flat" <<<'true' >/dev/null
	wait_until 20 answers '/api/v1/query?query=stage_data_keeper_deaths_total' '"value":\[[0-9.]+,"0"\]'
	assert answers '/api/v1/query?query=stage_data_build_info' '"version":"[0-9]+\.[0-9]+'
	assert answers /api/v1/alerts '"alerts":\[\]'
	id=$(job_submit alice -w n1 --stage-data="c=$data/flat" <<<"$until_let_go")
	wait_until 30 on n1 test -e "/run/stage-data/$id/t/data/c"
	on n1 kill -KILL "$(on n1 sed -nE 's/^keeper=([0-9]+):.*/\1/p' "/run/stage-data/$id/state")"
	let_go "$id"
	job_wait "$id"
	wait_until 30 scraped 'stage_data_keeper_deaths_total 1'
	wait_until 30 answers /api/v1/alerts '"alertname":"StageDataKeeperDied".*"state":"firing"'
}
