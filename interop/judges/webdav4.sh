# Runs webdav4's tests of its client, and of fsspec with this client. The tests use this server instead of the server WsgiDAV.
set -eu
mkdir -p "$SCRATCH" && cd "$SCRATCH"
python3 -m venv venv >&2
venv/bin/pip install --quiet --disable-pip-version-check 'pytest<8.4' webdav4==0.11.0 fsspec cheroot wsgidav >&2
venv/bin/pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: webdav4==0.11.0 >&2
tar xzf webdav4-0.11.0.tar.gz
cp "$JUDGES/webdav4_conftest.py" webdav4-0.11.0/tests/conftest.py
cd webdav4-0.11.0
URL="http://$PLAIN/dav/main" ../venv/bin/python -m pytest -q -c /dev/null --rootdir . -p no:cacheprovider \
    tests/test_client.py tests/test_fsspec.py > ../said 2>&1 || true
cd ..
venv/bin/python "$JUDGES/webdav4_findings.py" said
