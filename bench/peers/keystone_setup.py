"""Creates services in a running Keystone, each with three endpoints. The benchmark creates the same services in Enfilade.

Arguments: the URL of Keystone without `/v3`, the administrator's password, the number of the first new service, and the number after the number of
the last new service. Keystone must already have the services with the numbers from 0 up to the first new service.

Prints a line of JSON with two tokens of the administrator: `asker` authenticates requests, and `subject` is the token that the requests validate.
"""

import json
import ssl
import sys
import urllib.request

base, password, first, end = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
trust = ssl._create_unverified_context()


def call(path, body, token=None):
    headers = {"Content-Type": "application/json"} | ({"X-Auth-Token": token} if token else {})
    request = urllib.request.Request(base + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, context=trust) as answer:
        return json.load(answer), answer.headers.get("X-Subject-Token")


def login():
    user = {"name": "admin", "domain": {"id": "default"}, "password": password}
    identity = {"methods": ["password"], "password": {"user": user}}
    scope = {"project": {"name": "admin", "domain": {"id": "default"}}}
    return call("/v3/auth/tokens", {"auth": {"identity": identity, "scope": scope}})


asker = login()[1]
for n in range(first, end):
    service = {"type": f"type-{n}", "name": f"service-{n}"}
    made = call("/v3/services", {"service": service}, asker)[0]["service"]["id"]
    for interface in ("public", "internal", "admin"):
        url = f"https://service-{n}.example.org:8774/v2.1/$(project_id)s"
        endpoint = {"service_id": made, "interface": interface, "region": "RegionOne", "url": url}
        call("/v3/endpoints", {"endpoint": endpoint}, asker)
# The administrator logs in again, because the answer to this login contains the catalog with all services.
subject, token = login()
endpoints = sum(len(service["endpoints"]) for service in subject["token"]["catalog"] if service["type"] != "identity")
assert endpoints == 3 * end, endpoints
print(json.dumps({"asker": asker, "subject": token}))
