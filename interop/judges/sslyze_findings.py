"""Reads the output of sslyze, and prints the results as a line of JSON.

Arguments: the path of the output as JSON, and the path of the output as text.

The line has the version of sslyze, the numbers of passed and failed checks, and the names of the failed checks with sslyze's findings. If a check
failed, the exit status is 1.
"""

import importlib.metadata
import json
import sys

said = json.load(open(sys.argv[1]))["server_scan_results"][0]["scan_result"]


def result(name):
    return said[name]["result"] or {}


checks = {
    name: not result(f"{name}_cipher_suites")["accepted_cipher_suites"]
    for name in ("ssl_2_0", "ssl_3_0", "tls_1_0", "tls_1_1")
}
checks |= {name: bool(result(f"{name}_cipher_suites")["accepted_cipher_suites"]) for name in ("tls_1_2", "tls_1_3")}
checks["heartbleed"] = not result("heartbleed")["is_vulnerable_to_heartbleed"]
checks["robot"] = result("robot")["robot_result"].startswith("NOT_VULNERABLE")
checks["ccs injection"] = not result("openssl_ccs_injection")["is_vulnerable_to_ccs_injection"]
checks["compression"] = not result("tls_compression")["supports_compression"]
checks["secure renegotiation"] = result("session_renegotiation")["supports_secure_renegotiation"]
checks["renegotiation"] = not result("session_renegotiation")["is_vulnerable_to_client_renegotiation_dos"]
checks["extended master secret"] = result("tls_extended_master_secret")["supports_ems_extension"]
# The text lists the differences from Mozilla's intermediate configuration. Differences of the certificate are left out.
lines = [line.strip(" *\n") for line in open(sys.argv[2]) if line.startswith("        * ")]
others = [line for line in lines if not line.startswith(("certificate_", "maximum_certificate_lifespan"))]
checks["Mozilla's intermediate configuration"] = not others
failed = [name for name, holds in checks.items() if not holds]
version = importlib.metadata.version("sslyze")
notes = "; ".join(failed + others)
print(json.dumps({"version": version, "passed": len(checks) - len(failed), "skipped": 0, "failed": len(failed), "notes": notes}))
sys.exit(bool(failed))
