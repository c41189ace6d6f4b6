"""Runs the test cases of a package against this server and against Keystone, and compares the results.

Argument: the package. The environment variables `JUDGES`, `KEPT`, `SCRATCH`, `PLAIN`, `DATA` and `BINARY` describe the directories and the server.

A finding is a case that passes on Keystone but fails on this server or is skipped there. Such a case is not a finding if `identity_differences.txt`
contains a reason for it. A pattern in this file is also a finding if it matches none of these cases.

Prints the findings on the standard error output, and a summary as a line of JSON. If there are findings, or if fewer than 100 cases pass on Keystone,
the exit status is 1.
"""

import fnmatch
import hashlib
import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

PACKAGE = sys.argv[1]
JUDGES, KEPT, SCRATCH = (Path(os.environ[name]) for name in ("JUDGES", "KEPT", "SCRATCH"))
# The number of Keystone processes. The tests against Keystone take most of the time, and each Keystone process uses only one core.
KEYSTONES = 2
ADMINISTRATOR = os.environ["ADMINISTRATOR"] = "the administrator's"
CONFIGURATION = """[DEFAULT]
log_file = {place}/tempest.log
[oslo_concurrency]
lock_path = {place}/locks
[auth]
use_dynamic_credentials = true
create_isolated_networks = false
admin_username = admin
admin_password = {password}
admin_domain_name = Default
admin_project_name = admin
admin_system = all
[identity]
uri_v3 = {url}
user_lockout_failure_attempts = 3
user_lockout_duration = 5
user_unique_last_password_count = 2
[identity-feature-enabled]
security_compliance = true
federation = true
external_idp = false
[enforce_scope]
keystone = true
[service_available]
cinder = false
glance = false
horizon = false
neutron = false
nova = false
swift = false
"""


def start(name, url, part=0, parts=1):
    """Starts the tests of one part. Returns the process and the file of its results."""
    place = SCRATCH / name
    place.mkdir(exist_ok=True)
    (place / "tempest.conf").write_text(CONFIGURATION.format(place=place, password=ADMINISTRATOR, url=url))
    results = place / "results.json"
    words = [JUDGES / "identity_cases.py", PACKAGE, str(part), str(parts), results]
    with open(place / "cases", "w") as said:
        environment = os.environ | {"TEMPEST_CONFIG_DIR": str(place)}
        return subprocess.Popen([sys.executable, *words], env=environment, stdout=said, stderr=said), results


def finish(runs):
    """Waits for the tests of all parts, and returns their results."""
    results = {}
    for process, file in runs:
        if process.wait():
            sys.exit(f"the tests could not be run:\n{(file.parent / 'cases').read_text()[-2000:]}")
        results |= json.loads(file.read_text())
    return results


def installed():
    """Returns a digest of the names and versions of all installed packages. With the same packages, the results on Keystone are the same."""
    packages = sorted(f"{one.name} {one.version}" for one in importlib.metadata.distributions())
    return hashlib.sha256("\n".join(packages).encode()).hexdigest()[:16]


def keystone():
    """Starts Keystone, and the tests against Keystone. Returns the processes of Keystone and of the tests."""
    servers = []
    for n in range(KEYSTONES):
        place = SCRATCH / f"keystone-{n}"
        place.mkdir()
        words = [sys.executable, JUDGES / "identity_keystone.py", place]
        with open(place / "said", "w") as said:
            servers.append(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True))
    urls = [server.stdout.readline().strip() for server in servers]
    return servers, [start(f"keystone-{n}", url, n, KEYSTONES) for n, url in enumerate(urls)]


def here():
    """Prepares this server like `keystone-manage bootstrap` prepares Keystone, and starts the tests against this server."""
    url = f"http://{os.environ['PLAIN']}/v3"
    words = ["--data", os.environ["DATA"], "bootstrap", "--password-stdin", "--public-url", url]
    subprocess.run([os.environ["BINARY"], *words], input=ADMINISTRATOR, text=True, check=True, stdout=sys.stderr)
    return [start("here", url)]


def reasons():
    """Returns the patterns in `identity_differences.txt`, each with its reason: the nearest line above the pattern that begins with `#`."""
    reason, patterns = "", {}
    for line in (JUDGES / "identity_differences.txt").read_text().splitlines():
        if line.startswith("# "):
            reason = line[2:]
        elif line.startswith(PACKAGE):
            patterns[line] = reason
    return patterns


before = KEPT / f"{PACKAGE}-{installed()}.json"
runs = here()
if before.exists():
    theirs = json.loads(before.read_text())
else:
    servers, parts = keystone()
    theirs = finish(parts)
    for server in servers:
        server.stdin.close()
        server.wait()
    KEPT.mkdir(parents=True, exist_ok=True)
    before.write_text(json.dumps(theirs))
ours = finish(runs)
required = [name for name, (result, _) in theirs.items() if result == "passed"]
lacking = [name for name in required if ours.get(name, ["absent"])[0] != "passed"]
patterns = reasons()
used, findings = set(), []
for name in lacking:
    found = [pattern for pattern in patterns if fnmatch.fnmatchcase(name, pattern)]
    used |= set(found)
    if not found:
        findings.append(name)
        result, why = ours.get(name, ["absent", ""])
        print(f"{name}: {result}\n  " + " | ".join(why.strip().splitlines()[-2:]), file=sys.stderr)
for pattern in patterns.keys() - used:
    findings.append(f"every case passes: {pattern}")
    print(findings[-1], file=sys.stderr)
version = importlib.metadata.version(PACKAGE.split(".")[0].replace("_", "-"))
print(json.dumps({
    "version": version,
    "keystone": importlib.metadata.version("keystone"),
    "cases": len(theirs),
    "passed_by_keystone": len(required),
    "passed": len(required) - len(lacking),
    "skipped": len([name for name in lacking if name not in findings]),
    "failed": len(findings),
    "notes": "; ".join(findings),
}))
sys.exit(bool(findings) or len(required) < 100)
