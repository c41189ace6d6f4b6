"""What of testssl's findings is about the server. Arguments: its JSON, its version."""

import json
import sys

findings = json.load(open(sys.argv[1]))
# The certificate is the first start's own; where every cipher is a good one, the client may say which it likes; `/` is 300, as Keystone's;
# and some findings are about the judge's machine.
expected = ("cert_", "cipher_order", "DNS_CAArecord", "OCSP", "HSTS", "overall_grade", "grade_cap", "scanProblem", "engine_problem", "HTTP_status_code")
amiss = [one for one in findings if one["severity"] in ("LOW", "MEDIUM", "HIGH", "CRITICAL", "WARN")]
others = [one for one in amiss if not one["id"].startswith(expected)]
notes = "; ".join(f"{one['id']}: {one['finding']}" for one in others)
passed = sum(one["severity"] in ("OK", "INFO") for one in findings)
skipped = len(amiss) - len(others)
print(json.dumps({"version": sys.argv[2], "passed": passed, "skipped": skipped, "failed": len(others), "notes": notes}))
sys.exit(bool(others))
