"""Tests the Identity API with OpenStack's client library (keystoneauth) and with the filter of OpenStack's services (keystonemiddleware).

Arguments: the URL of the Identity API (…/v3), the path of the server's certificate, the administrator's password, and the password of the user
`service`.

If all checks pass, the program prints a token of the administrator as JSON. Otherwise it ends with an error.
"""

import json
import logging
import sys
import time
import warnings

warnings.simplefilter("ignore")
from keystoneauth1 import exceptions, session
from keystoneauth1.identity import v3
from keystonemiddleware import auth_token
from webob import Request

URL, CERTIFICATE, PASSWORD, SERVICE_PASSWORD = sys.argv[1:]
DEFAULT = {"user_domain_name": "Default"}
ADMIN = dict(DEFAULT, auth_url=URL, username="admin", password=PASSWORD)
IN_ADMIN = {"project_name": "admin", "project_domain_name": "Default"}


def session_of(plugin):
    return session.Session(auth=plugin, verify=CERTIFICATE)


def password(**scope):
    return session_of(v3.Password(**ADMIN, **scope))


def refused(error, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except error:
        return
    raise AssertionError(f"{call} was not refused")


def validate(asker, token, **parameters):
    answer = asker.get(
        URL + "/auth/tokens", headers={"X-Subject-Token": token}, params=parameters, authenticated=True, raise_exc=False
    )
    return answer.status_code, answer.json().get("token")


admin = password(**IN_ADMIN)
token, user, project = admin.get_token(), admin.get_user_id(), admin.get_project_id()
assert token.startswith("gAAAA") and len(token) == 183, token
assert admin.get_endpoint(service_type="object-store") == "https://swift.example/v1/AUTH_" + project
assert "v3.14" in json.dumps(admin.get(URL).json())

# With a trust, the user `service` gets the role reader on the administrator's project. The trust impersonates: services see the administrator as the
# user of the session.
service_user = {**DEFAULT, "auth_url": URL, "username": "service", "password": SERVICE_PASSWORD}
service_id = session_of(v3.Password(**service_user, unscoped=True)).get_user_id()
roles = [{"name": "reader"}]
asked = {"trustor_user_id": admin.get_user_id(), "trustee_user_id": service_id, "project_id": admin.get_project_id()}
trust = {**asked, "impersonation": True, "roles": roles, "expires_at": "2099-01-01T00:00:00.000000Z"}
trust = admin.post(URL + "/OS-TRUST/trusts", json={"trust": trust}).json()["trust"]
by_trust = session_of(v3.Password(**service_user, trust_id=trust["id"]))
assert len(by_trust.get_token()) == 204
status, told = validate(admin, by_trust.get_token())
assert status == 200 and told["user"]["name"] == "admin" and told["OS-TRUST:trust"]["trustee_user"]["id"] == service_id, told
assert [role["name"] for role in told["roles"]] == ["reader"], told
assert len(by_trust.get(URL + "/OS-TRUST/trusts", params={"trustee_user_id": service_id}).json()["trusts"]) == 1
refused(exceptions.Forbidden, by_trust.get, URL + "/OS-TRUST/trusts")
refused(exceptions.Forbidden, by_trust.delete, URL + "/OS-TRUST/trusts/" + trust["id"])
child = session_of(v3.Token(auth_url=URL, token=by_trust.get_token(), unscoped=True))
refused(exceptions.Forbidden, child.get_token)
admin.delete(URL + "/OS-TRUST/trusts/" + trust["id"])
assert validate(admin, by_trust.get_token())[0] == 404
refused(exceptions.Unauthorized, session_of(v3.Password(**service_user, trust_id=trust["id"])).get_token)

# The trustee can use the trust `counted` only once. The trustee redelegates the trust `lent`. The redelegated trust cannot have more rights than
# `lent`, and its sessions become invalid when `lent` is deleted.
TRUSTS = URL + "/OS-TRUST/trusts"
counted = {**asked, "impersonation": False, "roles": roles, "remaining_uses": 1}
counted = admin.post(TRUSTS, json={"trust": counted}).json()["trust"]
assert counted["remaining_uses"] == 1, counted
session_of(v3.Password(**service_user, trust_id=counted["id"])).get_token()
refused(exceptions.Forbidden, session_of(v3.Password(**service_user, trust_id=counted["id"])).get_token)
lent = {**asked, "impersonation": False, "roles": roles, "allow_redelegation": True, "redelegation_count": 1}
lent = admin.post(TRUSTS, json={"trust": lent}).json()["trust"]
by_lent = session_of(v3.Password(**service_user, trust_id=lent["id"]))
on = {**asked, "trustee_user_id": admin.get_user_id(), "impersonation": False, "roles": roles}
for more in ({"roles": [{"name": "admin"}]}, {"impersonation": True}, {"allow_redelegation": True, "redelegation_count": 1}):
    refused(exceptions.Forbidden, by_lent.post, TRUSTS, json={"trust": {**on, **more}})
child = by_lent.post(TRUSTS, json={"trust": on}).json()["trust"]
assert child["redelegated_trust_id"] == lent["id"] and child["redelegation_count"] == 0, child
by_child = session_of(v3.Password(**ADMIN, trust_id=child["id"]))
assert validate(admin, by_child.get_token())[0] == 200
refused(exceptions.Forbidden, by_child.post, TRUSTS, json={"trust": on})
admin.delete(TRUSTS + "/" + lent["id"])
assert validate(admin, by_child.get_token())[0] == 404

# The administrator can log in without a scope and for the system. The server refuses a domain on which the administrator has no role, an unknown
# project, a wrong password, and an unknown user.
unscoped = password(unscoped=True)
assert len(unscoped.get_token()) == 162
assert unscoped.get(URL + "/auth/projects").json()["projects"][0]["name"] == "admin"
assert unscoped.get(URL + "/auth/system").json()["system"] == [{"all": True}]
assert len(password(system_scope="all").get_token()) == 162
refused(exceptions.Unauthorized, password(domain_name="Default").get_token)
refused(exceptions.Unauthorized, password(project_name="nowhere", project_domain_name="Default").get_token)
wrong = dict(ADMIN, password="wrong")
refused(exceptions.Unauthorized, session_of(v3.Password(**wrong, **IN_ADMIN)).get_token)
wrong = dict(ADMIN, username="nobody")
refused(exceptions.Unauthorized, session_of(v3.Password(**wrong, **IN_ADMIN)).get_token)

# A token that was issued in exchange for another token has the same audit chain and the same expiry as the other token.
first = validate(admin, unscoped.get_token())[1]
second = session_of(v3.Token(auth_url=URL, token=unscoped.get_token(), **IN_ADMIN))
status, told = validate(admin, second.get_token())
assert status == 200 and told["audit_ids"][1] == first["audit_ids"][0], told
assert told["expires_at"] == first["expires_at"] and told["methods"] == ["password", "token"], told
assert {role["name"] for role in told["roles"]} == {"admin", "manager", "member", "reader"}, told
assert "catalog" in told and "catalog" not in validate(admin, second.get_token(), nocatalog="1")[1]
answer = admin.head(URL + "/auth/tokens", headers={"X-Subject-Token": second.get_token()})
assert answer.status_code == 200 and answer.headers["X-Subject-Token"] == second.get_token() and not answer.content
assert answer.headers["Vary"] == "X-Auth-Token" and answer.headers["x-openstack-request-id"].startswith("req-")
# A token for the system cannot be exchanged for a token for a project.
system = password(system_scope="all").get_token()
refused(exceptions.Forbidden, session_of(v3.Token(auth_url=URL, token=system, **IN_ADMIN)).get_token)

# A user can log in with the id or with the name of an application credential. The credential has fewer roles than its owner. A session of the
# credential can neither create another credential nor be exchanged for another session.
CREDENTIALS = f"{URL}/users/{user}/application_credentials"
made = {"name": "ac1", "roles": [{"name": "reader"}]}
made = admin.post(CREDENTIALS, json={"application_credential": made}).json()["application_credential"]
credential, secret = made["id"], made["secret"]
by_id = v3.ApplicationCredential(auth_url=URL, application_credential_id=credential, application_credential_secret=secret)
by_name = v3.ApplicationCredential(
    auth_url=URL, application_credential_name="ac1", application_credential_secret=secret, username="admin", **DEFAULT
)
for plugin in (by_id, by_name):
    machine = session_of(plugin)
    status, told = validate(admin, machine.get_token())
    assert status == 200 and [role["name"] for role in told["roles"]] == ["reader"], told
    assert told["application_credential"] == {"id": credential, "name": "ac1", "restricted": True}, told
    assert len(machine.get_token()) == 204
more = {"application_credential": {"name": "ac2"}}
refused(exceptions.Forbidden, machine.post, CREDENTIALS, json=more)
refused(exceptions.Forbidden, session_of(v3.Token(auth_url=URL, token=machine.get_token(), **IN_ADMIN)).get_token)
wrong = v3.ApplicationCredential(auth_url=URL, application_credential_id=credential, application_credential_secret="wrong")
refused(exceptions.Unauthorized, session_of(wrong).get_token)
# An unrestricted credential can create other credentials. These cannot have more roles or a longer lifetime than the unrestricted credential.
free = {"name": "free", "unrestricted": True, "roles": [{"name": "member"}], "expires_at": "2100-01-01T00:00:00.000000Z"}
free = admin.post(CREDENTIALS, json={"application_credential": free}).json()
free = free["application_credential"]
free = session_of(
    v3.ApplicationCredential(auth_url=URL, application_credential_id=free["id"], application_credential_secret=free["secret"])
)
more = {"application_credential": {"name": "child", "roles": [{"name": "admin"}]}}
refused(exceptions.BadRequest, free.post, CREDENTIALS, json=more)
more = {"application_credential": {"name": "child"}}
child = free.post(CREDENTIALS, json=more).json()["application_credential"]
assert child["expires_at"] == "2100-01-01T00:00:00.000000", child
assert {role["name"] for role in child["roles"]} == {"member", "reader"}, child
# A service that does not support access rules cannot validate a token that was issued for an application credential with access rules.
ruled = {"name": "ruled", "access_rules": [{"service": "object-store", "method": "GET", "path": "/v1/allowed/*"}]}
made = admin.post(CREDENTIALS, json={"application_credential": ruled}).json()
made = made["application_credential"]
ruled = session_of(
    v3.ApplicationCredential(auth_url=URL, application_credential_id=made["id"], application_credential_secret=made["secret"])
)
assert validate(admin, ruled.get_token())[0] == 404


# Returns a service behind the filter of keystonemiddleware. The service answers with the headers that the filter set.
def service():
    settings = {
        "auth_type": "password", "auth_url": URL, "username": "service", "password": SERVICE_PASSWORD,
        "user_domain_name": "Default", "project_name": "service", "project_domain_name": "Default", "cafile": CERTIFICATE,
        "interface": "public", "service_type": "object-store", "www_authenticate_uri": URL,
        "service_token_roles_required": True, "service_token_roles": "service",
    }
    names = ("HTTP_X_USER_NAME", "HTTP_X_ROLES", "HTTP_X_PROJECT_NAME", "HTTP_X_SERVICE_USER_NAME")

    def inside(environ, start_response):
        start_response("200 OK", [("Content-Type", "application/json")])
        return [json.dumps({name: environ.get(name) for name in names}).encode()]

    return auth_token.AuthProtocol(inside, settings)


def ask(app, token, path="/v1/x", service_token=None):
    request = Request.blank(path)
    request.headers["X-Auth-Token"] = token
    if service_token:
        request.headers["X-Service-Token"] = service_token
    answer = request.get_response(app)
    return answer.status_int, json.loads(answer.body) if answer.status_int == 200 else None


logging.disable(logging.CRITICAL)
status, told = ask(service(), second.get_token())
assert status == 200 and told["HTTP_X_USER_NAME"] == "admin" and told["HTTP_X_PROJECT_NAME"] == "admin", (status, told)
mine = dict(DEFAULT, auth_url=URL, username="service", password=SERVICE_PASSWORD)
mine = session_of(v3.Password(**mine, project_name="service", project_domain_name="Default")).get_token()
status, told = ask(service(), second.get_token(), service_token=mine)
assert status == 200 and told["HTTP_X_SERVICE_USER_NAME"] == "service", (status, told)
assert ask(service(), second.get_token(), service_token=second.get_token())[0] == 401
assert ask(service(), ruled.get_token(), "/v1/allowed/x")[0] == 200
assert ask(service(), ruled.get_token(), "/v1/other")[0] == 401
gone = second.get_token()
admin.delete(URL + "/auth/tokens", headers={"X-Subject-Token": gone})
assert ask(service(), gone)[0] == 401 and validate(admin, gone)[0] == 404
events = admin.get(URL + "/OS-REVOKE/events").json()["events"]
assert any("audit_id" in event for event in events) and any("audit_chain_id" in event for event in events), events

# The revocation of a token also revokes the tokens that were issued in exchange for it. If `cascade` is false, only the token itself is revoked.
for cascade, left in (("true", 404), ("false", 200)):
    root = password(unscoped=True).get_token()
    child = session_of(v3.Token(auth_url=URL, token=root, **IN_ADMIN)).get_token()
    admin.delete(URL + "/auth/tokens", headers={"X-Subject-Token": root}, params={"cascade": cascade})
    assert (validate(admin, root)[0], validate(admin, child)[0]) == (404, left), cascade

# After an application credential is deleted, its sessions are invalid, and logins with the credential are refused.
token = machine.get_token()
admin.delete(f"{CREDENTIALS}/{credential}")
assert validate(admin, token)[0] == 404
refused(exceptions.Unauthorized, session_of(by_id.__class__(
    auth_url=URL, application_credential_id=credential, application_credential_secret=secret)).get_token)
print(json.dumps({"admin": admin.get_token()}))
