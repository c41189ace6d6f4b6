# h2spec, the newest version that Go's module proxy has, against HTTP/2 over TLS.
set -eu
mkdir -p "$SCRATCH" && cd "$SCRATCH"
printf 'module judge\ngo 1.21\n' > go.mod
export GOFLAGS=-mod=mod
version=v2.2.1+incompatible
go get "github.com/summerwind/h2spec@$version" >&2
go build -o h2spec github.com/summerwind/h2spec/cmd/h2spec >&2
./h2spec --tls --insecure --host "${ADDRESS%:*}" --port "${ADDRESS##*:}" --path /.well-known/enfilade > said 2>&1 || true
set -- $(sed -n 's/^\([0-9]*\) tests, \([0-9]*\) passed, \([0-9]*\) skipped, \([0-9]*\) failed$/\1 \2 \3 \4/p' said)
notes=$(sed -n 's/.*× \([0-9]*: .*\)/\1/p' said | tr '\n"\\' ';  ')
echo "{\"version\":\"$version\",\"passed\":$2,\"skipped\":$3,\"failed\":$4,\"notes\":\"$notes\"}"
test "$4" = 0
