"""Tests that a service can ask the Identity API which user signed a request with an EC2 key.

The program signs requests as a client does: keystoneclient signs requests for EC2, and Keystone's own code signs requests for S3. Then the program
sends the description of each signed request to `/ec2tokens` or `/s3tokens`, as a service does, and checks the answer.

Arguments: the URL of the Identity API (…/v3), the path of the server's certificate, the administrator's password, and the password of the user
`service`.

Prints `{"held": true}` if all checks pass. Otherwise the program ends with an error.
"""

import base64
import copy
import datetime
import hashlib
import json
import sys
import warnings

warnings.simplefilter("ignore")
import requests
from keystone.api import s3tokens
from keystoneclient.contrib.ec2.utils import Ec2Signer

URL, CERTIFICATE, PASSWORD, SERVICE = sys.argv[1:5]
http = requests.Session()
http.trust_env, http.verify = False, CERTIFICATE


def ask(method, path, token, **body):
    return http.request(method, URL + path, headers={"X-Auth-Token": token} if token else {}, json=body or None)


def login(identity, scope=None):
    auth = {"identity": identity}
    if scope:
        auth["scope"] = scope
    answer = ask("POST", "/auth/tokens", None, auth=auth)
    assert answer.status_code == 201, answer.text
    return answer.headers["X-Subject-Token"], answer.json()["token"]


def password(name, secret, project):
    user = {"name": name, "password": secret, "domain": {"id": "default"}}
    return login({"methods": ["password"], "password": {"user": user}},
                 {"project": {"name": project, "domain": {"id": "default"}}})


admin, told = password("admin", PASSWORD, "admin")
user, project = told["user"]["id"], told["project"]["id"]
service, _ = password("service", SERVICE, "service")


def key(token=admin, **of):
    answer = ask("POST", f"/users/{user}/credentials/OS-EC2", token, tenant_id=project, **of)
    assert answer.status_code == 201, answer.text
    return answer.json()["credential"]


def now(basic=True, minutes=0):
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=minutes)
    return at.strftime("%Y%m%dT%H%M%SZ" if basic else "%Y-%m-%dT%H:%M:%SZ")


def v4(pair, verb="GET", minutes=0, in_query=False, **changes):
    date = now(minutes=minutes)
    credential = f"{pair['access']}/{date[:8]}/RegionOne/ec2/aws4_request"
    headers = {"Host": "cloud.example:8773", "Content-Type": " text/plain ", "X-Other": "x"}
    params = {"Action": "DescribeInstances", "Filter.1": "a b+c/ä~", "Empty": ""}
    if in_query:
        params |= {"X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Credential": credential,
                   "X-Amz-SignedHeaders": "host", "X-Amz-Date": date}
    else:
        headers |= {"X-Amz-Date": date, "Authorization":
                    f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=content-type;host;x-amz-date, Signature=x"}
    signed = {"access": pair["access"], "verb": verb, "host": "cloud.example:8773", "path": "/services/Cloud",
              "params": params, "headers": headers, "body_hash": hashlib.sha256(b"body").hexdigest()}
    signed["signature"] = Ec2Signer(pair["secret"]).generate(copy.deepcopy(signed))
    return signed | changes


def v2(pair, host="cloud.example:8773", minutes=0, version="2"):
    params = {"AWSAccessKeyId": pair["access"], "Action": "DescribeInstances", "SignatureVersion": version,
              "SignatureMethod": "HmacSHA256", "Timestamp": now(False, minutes), "Filter": "a b+c/ä~"}
    signed = {"access": pair["access"], "verb": "GET", "host": host, "path": "/services/Cloud", "params": params, "headers": {}}
    signed["signature"] = Ec2Signer(pair["secret"]).generate(copy.deepcopy(signed))
    return signed


def s3(pair, text):
    text = text.encode()
    made = s3tokens._calculate_signature_v4 if text.startswith(b"AWS4") else s3tokens._calculate_signature_v1
    return {"access": pair["access"], "token": base64.urlsafe_b64encode(text).decode(), "signature": made(text, pair["secret"])}


def ec2_token(signed, by=service, name="credentials", status=200):
    answer = ask("POST", "/ec2tokens", by, **{name: signed})
    assert answer.status_code == status, (signed, answer.status_code, answer.text)
    return (answer.headers["X-Subject-Token"], answer.json()["token"]) if status == 200 else None


first = key()

# The server accepts each form of a signed request. The user `service` and the administrator have the right to ask about signed requests.
for signed in [v4(first), v4(first, "POST"), v4(first, in_query=True), v2(first), v4(first, minutes=-14), v2(first, minutes=14)]:
    token, body = ec2_token(signed)
    assert body["user"]["id"] == user and body["project"]["id"] == project, body
    assert body["methods"] == ["ec2credential"] and "catalog" in body, body
    assert {"admin"} <= {role["name"] for role in body["roles"]}, body
    answer = http.get(URL + "/auth/tokens", headers={"X-Auth-Token": service, "X-Subject-Token": token})
    assert answer.status_code == 200 and answer.json()["token"]["audit_ids"] == body["audit_ids"], answer.text
without_port = v2(first, host="cloud.example")
ec2_token(without_port | {"host": "cloud.example:8773"})
for name in ["credential", "ec2Credentials"]:
    ec2_token(v4(first), name=name)
ec2_token(v4(first), by=admin)
texts = [f"AWS4-HMAC-SHA256\n{now()}\n{now()[:8]}/RegionOne/s3/aws4_request\n{'0' * 64}",
         "GET\n\n\nTue, 27 Mar 2007 19:36:42 +0000\n/bucket/key"]
for text in texts:
    answer = ask("POST", "/s3tokens", service, credentials=s3(first, text))
    assert answer.status_code == 200 and answer.json()["token"]["user"]["id"] == user, answer.text
    assert "X-Subject-Token" not in answer.headers

# The server refuses questions of callers without the right to ask, and questions about wrong signatures.
ask("POST", "/users", admin, user={"name": "plain", "password": "plain", "domain_id": "default"})
plain_id = ask("GET", "/users?name=plain", admin).json()["users"][0]["id"]
roles = {role["name"]: role["id"] for role in ask("GET", "/roles", admin).json()["roles"]}
for role in ["member", "reader"]:
    ask("PUT", f"/projects/{project}/users/{plain_id}/roles/{roles[role]}", admin)
plain, _ = password("plain", "plain", "admin")
ec2_token(v4(first), by=plain, status=403)
assert ask("POST", "/s3tokens", plain, credentials=s3(first, texts[0])).status_code == 403
assert ask("POST", "/ec2tokens", None, credentials=v4(first)).status_code == 401
assert ask("POST", "/s3tokens", None, credentials=s3(first, texts[0])).status_code == 401
good = v4(first)
for change in [{"path": "/"}, {"verb": "PUT"}, {"params": {}}, {"body_hash": ""}, {"access": "nobody"}, {"signature": "00"},
               {"headers": good["headers"] | {"X-Amz-Date": now(minutes=1)}}]:
    ec2_token(good | change, status=401)
for signed in [v4(first, minutes=-16), v2(first, minutes=16), v2(first) | {"host": "other"}, v2(first, version="1"),
               v2(first) | {"signature": "!"}]:
    ec2_token(signed, status=401)
# A client cannot make an old request valid again by adding the present time as a parameter that the signature does not cover.
ec2_token(v4(first, "POST", minutes=-60, params={"Timestamp": now(False)}), status=401)
for text in [texts[0].replace("/s3/", "/ec2/"), texts[0] + "\n"]:
    made = {"access": first["access"], "token": base64.urlsafe_b64encode(text.encode()).decode(), "signature": "0" * 64}
    assert ask("POST", "/s3tokens", service, credentials=made).status_code == 401
assert ask("POST", "/s3tokens", service, credentials=s3(first, texts[1]) | {"signature": "AAAA"}).status_code == 401
for body in [{}, {"credentials": {}}, {"credentials": []}, {"credentials": {"access": 1}}]:
    assert ask("POST", "/ec2tokens", service, **(body or {"x": 1})).status_code == 400, body

# With a session of an EC2 key, a client cannot create sessions, and cannot create or list credentials.
token, _ = ec2_token(v4(first))
again = {"methods": ["token"], "token": {"id": token}}
assert ask("POST", "/auth/tokens", None, auth={"identity": again}).status_code == 403
for method, path, body in [
    ("POST", f"/users/{user}/credentials/OS-EC2", {"tenant_id": project}),
    ("GET", f"/users/{user}/credentials/OS-EC2", {}),
    ("POST", f"/users/{user}/application_credentials", {"application_credential": {"name": "x"}}),
    ("POST", "/credentials", {"credential": {"type": "cert", "blob": "x", "user_id": user}}),
]:
    assert ask(method, path, token, **body).status_code == 403, path

# An EC2 key that was created with an application credential has only the roles of the application credential.
made = ask("POST", f"/users/{user}/application_credentials", admin, application_credential={
    "name": "lends", "unrestricted": True, "roles": [{"name": "reader"}]}).json()["application_credential"]
identity = {"methods": ["application_credential"], "application_credential": {"id": made["id"], "secret": made["secret"]}}
lent, _ = login(identity)
narrow = key(lent)
assert ask("POST", "/credentials", lent, credential={
    "type": "ec2", "user_id": user, "project_id": ask("GET", "/projects?name=service", admin).json()["projects"][0]["id"],
    "blob": json.dumps({"access": "a", "secret": "b"})}).status_code == 403
own = ask("POST", "/credentials", lent, credential={
    "type": "ec2", "user_id": user, "project_id": project, "blob": json.dumps({"access": "chosen", "secret": "too", "app_cred_id": None})})
assert own.status_code == 201, own.text
for pair in [narrow, {"access": "chosen", "secret": "too"}]:
    _, body = ec2_token(v4(pair))
    assert {role["name"] for role in body["roles"]} == {"reader"}, body
    assert body["application_credential"]["id"] == made["id"], body

# The sessions of an EC2 key end when the key is deleted, when the key's secret changes, and when the application credential is deleted with which the
# key was created.
second = key()
token, _ = ec2_token(v4(second))
gone, _ = ec2_token(v4(narrow))
kept, _ = ec2_token(v4(first))
works = lambda token: ask("GET", "/auth/projects", token).status_code
assert [works(token), works(gone), works(kept)] == [200, 200, 200]
assert ask("DELETE", f"/users/{user}/credentials/OS-EC2/{second['access']}", admin).status_code == 204
assert ask("DELETE", f"/users/{user}/application_credentials/{made['id']}", admin).status_code == 204
assert [works(token), works(gone), works(kept)] == [401, 401, 200]
ec2_token(v4(second), status=401)
ec2_token(v4(narrow), status=401)
turned = hashlib.sha256(first["access"].encode()).hexdigest()
blob = json.dumps({"access": first["access"], "secret": "another"})
assert ask("PATCH", f"/credentials/{turned}", admin, credential={"blob": blob}).status_code == 200
assert works(kept) == 401
ec2_token(v4(first), status=401)
token, _ = ec2_token(v4({"access": first["access"], "secret": "another"}))
assert works(token) == 200
print(json.dumps({"held": True}))
