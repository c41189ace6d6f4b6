# h2spec, the newest version that Go's module proxy has, against HTTP/2 over TLS. Some of its tests send a second frame while the answer to the
# first is under way, and see the answer's end or the error, as it happens (RFC 9113 §8.1): what fails in three runs has failed. One that
# makes a stream's window too large comes after the answer's end wherever the answer is quick, and is left out: the corpus has it on a
# stream that is open.
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
