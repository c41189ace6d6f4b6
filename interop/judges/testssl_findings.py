"""Reads the output of testssl.sh, and prints the results as a line of JSON.

Arguments: the path of the JSON output, and the version of testssl.sh.

The line has the version, the number of passed checks, the numbers of expected and of unexpected findings (`skipped` and `failed`), and the text of
the unexpected findings. If there is an unexpected finding, the exit status is 1.
"""

import json
import sys

findings = json.load(open(sys.argv[1]))
# These findings are expected. The server made the self-signed certificate at its first start. The client may choose the cipher, because every cipher
# is strong. The server answers `/` with the status 300, as Keystone does. Some findings are about the machine that runs testssl.sh.
expected = ("cert_", "cipher_order", "DNS_CAArecord", "OCSP", "HSTS", "overall_grade", "grade_cap", "scanProblem", "engine_problem", "HTTP_status_code")
amiss = [one for one in findings if one["severity"] in ("LOW", "MEDIUM", "HIGH", "CRITICAL", "WARN")]
others = [one for one in amiss if not one["id"].startswith(expected)]
notes = "; ".join(f"{one['id']}: {one['finding']}" for one in others)
passed = sum(one["severity"] in ("OK", "INFO") for one in findings)
skipped = len(amiss) - len(others)
print(json.dumps({"version": sys.argv[2], "passed": passed, "skipped": skipped, "failed": len(others), "notes": notes}))
sys.exit(bool(others))
