# Runs the tests of an OpenStack package against this server and against Keystone. The argument is the name of the package.
set -eu
mkdir -p "$SCRATCH" && cd "$SCRATCH"
python3 -m venv venv >&2
venv/bin/pip install --quiet --disable-pip-version-check --requirement "$JUDGES/identity_requirements.txt" >&2
exec venv/bin/python "$JUDGES/identity.py" "$1"
