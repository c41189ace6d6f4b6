# Sends TLS records that no client sends, by tlslite-ng. Some are refused, and the TLS library accepts some (docs/tls.md).
set -eu
mkdir -p "$SCRATCH"
python3 -m venv "$SCRATCH/venv" >&2
"$SCRATCH/venv/bin/pip" install --quiet --disable-pip-version-check tlslite-ng >&2
"$SCRATCH/venv/bin/python" "$JUDGES/records.py" "$ADDRESS"
