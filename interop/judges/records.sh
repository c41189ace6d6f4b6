# With tlslite-ng, sends TLS records that no usual client sends. Some of them must be refused. The TLS library accepts the others (docs/tls.md).
set -eu
mkdir -p "$SCRATCH"
python3 -m venv "$SCRATCH/venv" >&2
"$SCRATCH/venv/bin/pip" install --quiet --disable-pip-version-check tlslite-ng >&2
"$SCRATCH/venv/bin/python" "$JUDGES/records.py" "$ADDRESS"
