# The job scripts of docs/examples are submitted unchanged, with a program that reads everything
# that is staged.

readonly examples=$here/../../docs/examples

# Programs that a test can't have stand before the others in PATH (docs/examples/README.md).
make_stand_ins() {
	local bin=$1/bin

	mkdir -p "$bin"
	cat >"$bin/torchrun" <<-'SH'
	#!/bin/bash
	n=1
	while [[ $1 == --* ]]; do
		[[ $1 != --nproc_per_node=* ]] || n=${1#*=}
		shift
	done
	for ((i = 0; i < n; i++)); do
		python3 "$@" || exit
	done
	SH
	cat >"$bin/mpirun" <<-'SH'
	#!/bin/bash
	exec srun --overlap "$@"
	SH
	cat >"$bin/jupyter" <<-'SH'
	#!/bin/bash
	echo "jupyter $*"
	python3 train.py "$STAGE_DATA_PATH_IMAGES"
	SH
	# exec [--nv] [--bind FROM:TO,...] IMAGE COMMAND
	cat >"$bin/apptainer" <<-'SH'
	#!/bin/bash
	binds=${APPTAINER_BIND-}
	[[ $2 != --nv ]] || shift
	[[ $2 != --bind ]] || {
		binds+=${binds:+,}$3
		shift 2
	}
	IFS=, read -ra binds <<<"$binds"
	args=()
	for b in "${binds[@]}"; do
		args+=(--bind "${b%%:*}" "${b##*:}")
	done
	exec bwrap --ro-bind / / --tmpfs /run --tmpfs /srv/local --dev /dev --proc /proc --bind "$PWD" "$PWD" "${args[@]}" "${@:3}"
	SH
	chmod 755 "$bin"/*
	((${STAGE_TEST_REAL:-0})) || return 0
	! type -P mpirun >/dev/null || rm "$bin/mpirun"
	! type -P torchrun >/dev/null || take_real_torchrun "$bin/torchrun"
}

# Version 1.13 of Debian 12 can't leave output where it is under Python 3.11; it can show it with
# the rank in front.
take_real_torchrun() {
	cat >"$1" <<-SH
	#!/bin/bash
	set -o pipefail
	OMP_NUM_THREADS=1 TMPDIR=\$HOME $(type -P torchrun) -r 1 -t 1 "\$@" | sed -u 's/^\[[a-z]*[0-9]*\]://'
	SH
}

# Prints one line: what it has read. A list of files is read file by file.
make_program() {
	cat >"$1/train.py" <<-'PY'
	import hashlib, os, socket, sys
	path = sys.argv[1]
	os.stat(path)
	if "/list." in path:
	    files = open(path).read().split()
	    path = "shards"
	elif os.path.isfile(path):
	    files = [path]
	else:
	    files = sorted(os.path.join(d, f) for d, _, names in os.walk(path) for f in names)
	digest = hashlib.md5()
	for f in files:
	    digest.update((os.path.basename(f) if f != path else "").encode() + open(f, "rb").read())
	print("has", socket.gethostname().split(".")[0], len(files), digest.hexdigest(), *(map(os.path.basename, files) if path == "shards" else []))
	PY
}

# $HOME/data of alice's, from the test's data
make_home() {
	local d=$1/data i

	mkdir -p "$d/set" "$d/train.lmdb"
	cp "$pfs/data/many.tar" "$d/images.tar"
	cp "$pfs/data/many.zstd.sqsh" "$d/images.sqsh"
	cp "$pfs/data/flat/"* "$d/set/"
	cp "$pfs/data/flat/00.bin" "$d/set/00.raw"
	head -c 3000000 /dev/urandom >"$d/train.h5"
	head -c 3000000 /dev/urandom >"$d/train.lmdb/data.mdb"
	for i in 0 1 2 3 4 5 6; do
		cp "$pfs/data/nested.tar" "$d/shard-00$i.tar"
	done
	cp "$pfs/data/nested.tar" "$d/classes.tar"
	cp "$examples"/*.sh "$1/"
	make_program "$1"
	make_stand_ins "$1"
	chown -R 4001:4001 "$1"
}

# In a directory that is $HOME for its jobs
readonly home=/srv/pfs/home/alice/examples

set_up() {
	need_fuse
	type -P bwrap >/dev/null || skip container "no bubblewrap"
	at_end "rm -rf '$base/pfs/home/alice/examples'"
	make_home "$base/pfs/home/alice/examples"
}

in_home() {
	as alice bash -c 'cd "$0" && HOME=$0 PATH=$0/bin:$PATH exec "$@"' "$home" "$@"
}

# submit NAME [SBATCH OPTION...]: with the data small, what the site has is enough
submit() {
	local name=$1

	shift
	in_home sbatch --parsable --no-requeue --mem=200M --time=2 -o "$home/out.%j" "$@" "$name.sh" \
		2>"$work/err" || fail "$name: $(cat "$work/err")"
}

output_of() {
	cat "$base/pfs/home/alice/examples/out.$1"
}

# read_by ID READERS NODES SOURCE: so many readers on so many nodes have read what is in SOURCE on
# the host
read_by() {
	local out

	job_wait "$1"
	out=$(output_of "$1")
	assert_eq COMPLETED "$(job_state "$1")" "end of $1: $out"
	out=$(grep '^has ' <<<"$out") || fail "nothing was read: $out"
	assert_eq "$2 $3" "$(wc -l <<<"$out") $(cut -d' ' -f2 <<<"$out" | sort -u | wc -l)" "readers, nodes: $out"
	assert_eq "$(python3 "$base/pfs/home/alice/examples/train.py" "$4" | cut -d' ' -f3-)" \
		"$(cut -d' ' -f3- <<<"$out" | sort -u)" "what was read of $4"
}

test_examples_read_what_is_staged() {
	local d=$base/pfs/home/alice/examples/data name out
	local -A id

	set_up
	for name in tar-to-memory image-mounted directory hdf5 lmdb webdataset torchrun srun-torchrun mpirun jupyter container; do
		id[$name]=$(submit $name)
	done
	read_by "${id[tar-to-memory]}" 2 2 "$pfs/data/many"
	read_by "${id[image-mounted]}" 2 2 "$pfs/data/many"
	read_by "${id[hdf5]}" 1 1 "$d/train.h5"
	read_by "${id[lmdb]}" 1 1 "$d/train.lmdb"
	read_by "${id[torchrun]}" 2 1 "$pfs/data/many"
	read_by "${id[srun-torchrun]}" 4 2 "$pfs/data/many"
	read_by "${id[mpirun]}" 4 2 "$pfs/data/many"
	read_by "${id[jupyter]}" 1 1 "$pfs/data/many"
	assert_match "$(output_of "${id[jupyter]}")" "jupyter lab --no-browser --ip=n[123] --port=2[0-9]{4}"
	read_by "${id[container]}" 2 2 "$pfs/data/many"
	job_wait "${id[webdataset]}"
	out=$(output_of "${id[webdataset]}")
	assert_eq "shard-000.tar shard-001.tar shard-002.tar shard-003.tar shard-004.tar shard-005.tar shard-006.tar" \
		"$(grep ^has <<<"$out" | cut -d' ' -f5- | tr ' ' '\n' | sort | xargs)" "shards of both nodes: $out"
	assert_eq 2 "$(grep -c ^has <<<"$out")" "nodes with shards"
	job_wait "${id[directory]}"
	rm "$d/set/00.raw" # which is excluded
	read_by "${id[directory]}" 1 1 "$d/set"
}

test_the_interactive_example_is_a_shell() {
	local out

	set_up
	out=$(in_home script -qec 'bash interactive.sh --mem=200M' /dev/null <<-'SHELL'
	stagectl wait -q && python3 train.py $STAGE_DATA_PATH_IMAGES
	exit
	SHELL
	) || fail "$out"
	assert_match "$out" "has n[123] 2000 "
}

test_examples_of_what_is_staged_otherwise() {
	local d=$base/pfs/home/alice/examples/data out
	local -A id

	set_up
	sed -i 's/^Path=.*/&\nMaxKeep=3h/' "$base/etc/stage-data/stage-data.conf"
	at_end "on n1 bash -c 'rm -rf /srv/local/stage-keep-*'"
	mkdir "$work/classes"
	tar -xf "$d/classes.tar" -C "$work/classes"
	for out in "$work"/classes/*.tar; do
		mkdir "${out%.tar}" && tar -xf "$out" -C "${out%.tar}" && rm "$out"
	done
	id[nested]=$(submit nested)
	id[nested-mounted]=$(submit nested-mounted)
	id[instant-on]=$(submit instant-on)
	id[keep-array]=$(submit keep-array --array=0-1 -w n1 -o "$home/out.array.%a")
	id[pack]=$(submit pack)
	read_by "${id[nested]}" 1 1 "$work/classes"
	read_by "${id[nested-mounted]}" 1 1 "$work/classes"
	read_by "${id[instant-on]}" 2 1 "$pfs/data/many"
	job_wait "${id[keep-array]}_0"
	job_wait "${id[keep-array]}_1"
	out=$(cat "$base"/pfs/home/alice/examples/out.array.? | grep ^has)
	assert_eq "2 2000" "$(wc -l <<<"$out") $(cut -d' ' -f3 <<<"$out" | sort -u)" "readers of the array: $out"
	assert_contains "$(as_on alice n1 stagectl list --kept)" images.tar
	job_wait "${id[pack]}"
	assert_eq COMPLETED "$(job_state "${id[pack]}")" "end of pack.sh: $(output_of "${id[pack]}")"
	assert_eq "$(cd "$d/set" && find . -type f | sort)" \
		"$(unsquashfs -l -d . "$d/set.sqsh" | sed -n 's|^\.\(/.*\)|.\1|p' | sort)" "files of the image"
}

# Without a word nothing of ours is in a container, with the site's Export= all that is staged, with
# `stagectl env` what a path links to, too.
seen_in() { grep -E '^(memory|disk|env|all) ' | xargs; }

test_containers_see_what_is_bound() {
	local id out what="m=$data/flat,s=$data/flat:ssd,l=$data/flat::method=link"

	set_up
	cat >"$base/pfs/home/alice/examples/look.sh" <<-'SH'
	#!/bin/bash
	echo "pyxis: $PYXIS_CONTAINER_MOUNTS"
	echo "env: $(stagectl env --pyxis)"
	see() { "$@" python3 train.py "$path" 2>/dev/null | grep -q ' 10 ' && echo "$what yes" || echo "$what no"; }
	what=memory path=$STAGE_DATA_PATH_M see apptainer exec image.sif
	what=disk path=$STAGE_DATA_PATH_S see apptainer exec image.sif
	what=env path=$STAGE_DATA_PATH_S see apptainer exec --bind "$(stagectl env --apptainer)" image.sif
	what=all path=$STAGE_DATA_PATH_L see apptainer exec --bind "$(stagectl env --apptainer)" image.sif
	SH
	id=$(submit look -w n1 --stage-data="$what")
	job_wait "$id"
	assert_eq "memory no disk no env yes all yes" "$(output_of "$id" | seen_in)" "without Export"
	site_conf <<<$'[containers]\nExport=apptainer,pyxis'
	id=$(submit look -w n1 --stage-data="$what")
	job_wait "$id"
	out=$(output_of "$id")
	assert_eq "memory yes disk yes env yes all yes" "$(seen_in <<<"$out")" "with Export"
	assert_contains "$out" "pyxis: /run/stage-data/$id:/run/stage-data/$id"
	assert_contains "$out" "env: /run/stage-data/$id:/run/stage-data/$id,$data/flat:$data/flat"
}

test_datasets_of_the_sites_catalogue() {
	local id out

	site_conf <<-CONF
	[dataset many]
	Source=$data/many.tar
	Sha256=$(sha256sum "$pfs/data/many.tar" | cut -d' ' -f1)
	Description=two thousand files
	[dataset changed]
	Source=$data/nested.tar
	Sha256=$(sha256sum "$pfs/data/many.tar" | cut -d' ' -f1)
	[dataset closed]
	Source=/etc/passwd
	CONF
	assert_match "$(as alice stagectl list --site)" "@many +$data/many.tar +two thousand files"
	out=$(as alice stagectl check-config) && fail "no error: $out"
	assert_contains "$out" "[dataset closed] Source=/etc/passwd: no [source] covers it"
	assert_contains "$(job_refused alice --stage-data=@closed <<<'true')" "/etc/passwd: no rule of the site matches"
	assert_contains "$(job_refused alice --stage-data=@unheard <<<'true')" "stagectl list --site"
	out=$(job_run alice --stage-data=@many <<<'echo files: $(find $STAGE_DATA_PATH_MANY -type f | wc -l)')
	assert_contains "$out" 'files: 2000'
	id=$(job_submit alice --stage-data=@changed <<<'echo begun')
	job_failed "$id"
	assert_contains "$(job_output "$id")" "SHA-256"
}

# The loader has the loop of PyTorch's DataLoader: worker processes read files of the dataset.
test_the_python_module_waits_for_the_data() {
	local module out

	module=$(<"$examples/../../examples/stage_data.py")
	out=$(job_run alice -w n1 --stage-wait=no --stage-data="t=$data/many.tar" <<-JOB
	mkdir module.\$SLURM_JOB_ID && cd module.\$SLURM_JOB_ID || exit
	cat >stage_data.py <<'MODULE'
	$module
	MODULE
	cat >load.py <<'PROGRAM'
	import multiprocessing, os
	import stage_data

	def load(path):
	    with open(path, "rb") as f:
	        return len(f.read())

	if __name__ == "__main__":
	    top = stage_data.wait("t", timeout=60)["t"]
	    assert stage_data.path("t") == top == os.environ["STAGE_DATA_PATH_T"], top
	    assert [(d.name, d.state) for d in stage_data.status()] == [("t", "ready")]
	    files = [os.path.join(d, f) for d, _, names in os.walk(top) for f in names]
	    with multiprocessing.Pool(2) as pool:
	        print("loaded", len(files), sum(pool.imap_unordered(load, files, 64)))
	PROGRAM
	python3 load.py
	cd .. && rm -r module.\$SLURM_JOB_ID
	JOB
	)
	assert_contains "$out" "loaded 2000 $(find "$pfs/data/many" -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')"
}
