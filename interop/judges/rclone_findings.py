"""Prints the failed tests of rclone, without tests about names that this server refuses. Arguments: the output of the tests, rclone's version."""

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
