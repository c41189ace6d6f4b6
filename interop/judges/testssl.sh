# testssl.sh, as Debian has it: what it finds to be amiss, but for the first start's own certificate.
set -eu
mkdir -p "$SCRATCH" && cd "$SCRATCH"
command -v testssl > /dev/null || { echo "testssl.sh is needed: apt-get install testssl.sh" >&2; exit 2; }
testssl --quiet --color 0 --warnings off --jsonfile said.json "$ADDRESS" > said 2>&1 || true
python3 "$JUDGES/testssl_findings.py" said.json "$(dpkg-query --show --showformat='${Version}' testssl.sh)"
