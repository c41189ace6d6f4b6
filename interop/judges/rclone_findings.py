"""Reads the output of rclone's tests, and prints the results as a line of JSON.

Arguments: the path of the output, and the version of rclone.

The line has the version, the numbers of passed, skipped and failed tests, and the names of the failed tests. Failed tests about names that this
server refuses count as skipped. If another test failed, or if fewer than 50 tests passed, the exit status is 1.
"""

import json
import re
import sys

said = open(sys.argv[1], errors="replace").read()
outcomes = re.findall(r"--- (PASS|FAIL|SKIP): (\S+)", said)
names = {name for _, name in outcomes}
leaves = [(outcome, name) for outcome, name in outcomes if not any(other.startswith(name + "/") for other in names)]
# The server refuses names with a backslash, and names that are not UTF-8 (docs/content.md).
expected = ("punctuation", "invalid_UTF-8")
failed = [name for outcome, name in leaves if outcome == "FAIL"]
others = [name for name in failed if not name.endswith(expected)]
count = lambda wanted: sum(outcome == wanted for outcome, _ in leaves)  # noqa: E731
notes = "; ".join(others)
print(json.dumps({
    "version": sys.argv[2], "passed": count("PASS"), "skipped": count("SKIP") + len(failed) - len(others),
    "failed": len(others), "notes": notes,
}))
sys.exit(bool(others) or count("PASS") < 50)
