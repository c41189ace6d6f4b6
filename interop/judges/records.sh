# Sends TLS records that no usual client sends, with tlslite-ng. The server must refuse some of these records. The TLS library accepts the other
# records (docs/tls.md).
set -eu
mkdir -p "$SCRATCH"
python3 -m venv "$SCRATCH/venv" >&2
"$SCRATCH/venv/bin/pip" install --quiet --disable-pip-version-check tlslite-ng >&2
"$SCRATCH/venv/bin/python" "$JUDGES/records.py" "$ADDRESS"
