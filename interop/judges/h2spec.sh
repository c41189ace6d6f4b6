# Runs h2spec against HTTP/2 over TLS, in the newest version on Go's module proxy. Some tests of h2spec send a second frame during the answer to the
# first frame. Depending on the timing, these tests get the end of the answer or the expected error (RFC 9113 §8.1). Therefore a test counts as failed
# only if it fails in all three runs. The test of a stream window that is too large counts as skipped if it fails, because a fast answer has ended
# before the WINDOW_UPDATE frame of the test arrives. `wire/http2.cases` contains the same test with a stream that is still open.
set -eu
mkdir -p "$SCRATCH" && cd "$SCRATCH"
printf 'module judge\ngo 1.21\n' > go.mod
export GOFLAGS=-mod=mod
version=v2.2.1+incompatible
go get "github.com/summerwind/h2spec@$version" >&2
go build -o h2spec github.com/summerwind/h2spec/cmd/h2spec >&2
for run in 1 2 3; do
    ./h2spec --tls --insecure --host "${ADDRESS%:*}" --port "${ADDRESS##*:}" --path /.well-known/enfilade > said 2>&1 || true
    set -- $(sed -n 's/^\([0-9]*\) tests, \([0-9]*\) passed, \([0-9]*\) skipped, \([0-9]*\) failed$/\1 \2 \3 \4/p' said)
    sed -n 's/.*× \([0-9]*: .*\)/\1/p' said | sort -u > failed
    if [ "$run" = 1 ]; then cp failed each; else comm -12 each failed > both && mv both each; fi
done
grep -v 'window to above 2^31-1 on a stream' each > others || true
skipped=$(($(wc -l < each) - $(wc -l < others)))
mv others each
failed=$(wc -l < each)
notes=$(tr '\n"\\' ';  ' < each)
echo "{\"version\":\"$version\",\"passed\":$(($1 - failed - skipped)),\"skipped\":$skipped,\"failed\":$failed,\"notes\":\"$notes\"}"
test "$failed" = 0
