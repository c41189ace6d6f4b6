# Runs rclone's tests of its WebDAV backend.
set -eu
mkdir -p "$SCRATCH" && cd "$SCRATCH"
printf 'module judge\ngo 1.24\n' > go.mod
version=v1.71.0
module=$(go mod download -json "github.com/rclone/rclone@$version" | sed -n 's/.*"Dir": "\(.*\)",/\1/p')
cat > rclone.conf <<END
[Judge]
type = webdav
url = http://$PLAIN/dav/main/
vendor = other
user = $LOGIN
pass = $(rclone obscure "$PASSWORD")
END
(cd "$module" && RCLONE_CONFIG="$SCRATCH/rclone.conf" go test ./backend/webdav/ -remote Judge: -v) > said 2>&1 || true
python3 "$JUDGES/rclone_findings.py" said "$version"
