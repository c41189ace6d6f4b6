# Runs Debian's testssl.sh, and prints the unexpected findings. Findings about the self-signed certificate of the server are expected.
set -eu
mkdir -p "$SCRATCH" && cd "$SCRATCH"
command -v testssl > /dev/null || { echo "testssl.sh is needed: apt-get install testssl.sh" >&2; exit 2; }
testssl --quiet --color 0 --warnings off --jsonfile said.json "$ADDRESS" > said 2>&1 || true
python3 "$JUDGES/testssl_findings.py" said.json "$(dpkg-query --show --showformat='${Version}' testssl.sh)"
