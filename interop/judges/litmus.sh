# Runs litmus without and with TLS. A test that fails or prints a warning counts as failed.
set -eu
mkdir -p "$SCRATCH" && cd "$SCRATCH"
for url in "http://$PLAIN/dav/main/" "https://$ADDRESS/dav/main/"; do
    litmus -k "$url" "$LOGIN" "$PASSWORD" 2>&1 | tr '\r' '\n' >> said || true
done
passed=$(sed -n 's/.*of [0-9]* tests run: \([0-9]*\) passed.*/\1/p' said | awk '{ sum += $1 } END { print sum + 0 }')
skipped=$(grep -c ' SKIPPED' said || true)
failed=$(grep -c ' FAIL\| WARNING' said || true)
notes=$(grep ' FAIL\| WARNING' said | tr '\n"\\' ';  ' || true)
echo "{\"version\":\"$(dpkg-query --show --showformat='${Version}' litmus)\",\"passed\":$passed,\"skipped\":$skipped,\"failed\":$failed,\"notes\":\"$notes\"}"
test "$failed" = 0 && test "$passed" -gt 0
