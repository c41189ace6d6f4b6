# Runs sslyze, which checks the versions of TLS, known vulnerabilities, and Mozilla's intermediate configuration. The server uses the self-signed
# certificate that it made at its first start.
set -eu
mkdir -p "$SCRATCH"
python3 -m venv "$SCRATCH/venv" >&2
"$SCRATCH/venv/bin/pip" install --quiet --disable-pip-version-check sslyze >&2
"$SCRATCH/venv/bin/python" -m sslyze --json_out="$SCRATCH/said.json" "$ADDRESS" > "$SCRATCH/said" 2>&1 || true
"$SCRATCH/venv/bin/python" "$JUDGES/sslyze_findings.py" "$SCRATCH/said.json" "$SCRATCH/said"
