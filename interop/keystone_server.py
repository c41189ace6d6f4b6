"""Runs Keystone with a SQLite database, and creates some records of each kind of resource. The test `import_cloud` imports these
records into Enfilade.

Argument: a directory. In this directory, the program writes the configuration, keys, database and log of Keystone.

Prints a line of JSON:
- `url` is the URL of the Identity API.
- `lists` contains the answers of the API: the list of all resources of each kind.
- `dump` is the path of a dump of the database as SQL.
- `me` is the id of the administrator.
- `associated` contains the paths of the associations of policies, endpoints, endpoint groups and projects.
- `ci` is the id and the secret of an application credential of the administrator.
- `trust` is the id of a trust of the administrator.
- `key` is an EC2 key of the administrator.
- `lena` is the id of the user `lena`, a token of this user, and the id of the user's group.

Then the program serves requests until its standard input ends.
"""

import hashlib
import json
import os
import sqlite3
import sys
import threading
import warnings
from wsgiref.simple_server import WSGIRequestHandler, make_server

warnings.simplefilter("ignore")
import requests

PLACE = sys.argv[1]
DATABASE = os.path.join(PLACE, "keystone.db")
CONFIG = os.path.join(PLACE, "keystone.conf")
os.environ["OS_KEYSTONE_CONFIG_FILES"] = CONFIG


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass


def manage(*words):
    import subprocess

    program = "from keystone.cmd.manage import main; main()"
    subprocess.run([sys.executable, "-c", program, "--config-file", CONFIG, *words], check=True, stdout=sys.stderr)


with open(CONFIG, "w") as config:
    config.write(f"[DEFAULT]\nlog_file = {PLACE}/keystone.log\n[database]\nconnection = sqlite:///{DATABASE}\n"
                 f"[fernet_tokens]\nkey_repository = {PLACE}/fernet\n[credential]\nkey_repository = {PLACE}/credentials\n"
                 "[identity]\npassword_hash_rounds = 4\n")
for directory in ["fernet", "credentials"]:
    os.mkdir(os.path.join(PLACE, directory), 0o700)
manage("db_sync")
for keys in ["fernet_setup", "credential_setup"]:
    manage(keys, "--keystone-user", "root", "--keystone-group", "root")
placeholder = make_server("127.0.0.1", 0, None, handler_class=Quiet)
url = f"http://127.0.0.1:{placeholder.server_port}/v3"
manage("bootstrap", "--bootstrap-password", "pw", "--bootstrap-public-url", url, "--bootstrap-region-id", "RegionOne")
sys.argv = sys.argv[:1]
from keystone.server.wsgi import initialize_public_application

placeholder.set_app(initialize_public_application())
threading.Thread(target=placeholder.serve_forever, daemon=True).start()

http = requests.Session()
http.trust_env = False


def call(method, path, body=None):
    answer = http.request(method, url + path, json=body)
    assert answer.status_code < 300, (method, path, answer.status_code, answer.text)
    return answer


login = {"auth": {"identity": {"methods": ["password"], "password": {"user": {
    "name": "admin", "domain": {"id": "default"}, "password": "pw"}}},
    "scope": {"project": {"name": "admin", "domain": {"id": "default"}}}}}
answer = call("POST", "/auth/tokens", login)
http.headers["X-Auth-Token"] = answer.headers["X-Subject-Token"]
me = answer.json()["token"]["user"]["id"]


def made(path, what, **body):
    return call("POST", path, {what: body}).json()[what]["id"]


domain = made("/domains", "domain", name="d1", description="one")
outer = made("/projects", "project", name="outer", domain_id=domain, tags=["red"])
inner = made("/projects", "project", name="inner", domain_id=domain, parent_id=outer, enabled=False)
ann = made("/users", "user", name="ann", domain_id=domain, email="a@b", default_project_id=outer, password="correct horse")
bob = made("/users", "user", name="bob", domain_id=domain, enabled=False, options={"lock_password": True})
eve = made("/users", "user", name="eve", domain_id=domain, password="correct horse", options={
    "multi_factor_auth_enabled": True, "multi_factor_auth_rules": [["password", "totp"]]})
made("/credentials", "credential", type="totp", blob="GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ", user_id=eve)
crew = made("/groups", "group", name="crew", domain_id=domain, description="who cooks")


def as_of_a_directory(table, record):
    """Changes the id of a user or group to 64 hexadecimal digits, and returns it. Keystone uses such ids for users and groups of LDAP directories."""
    new = hashlib.sha256(record.encode()).hexdigest()
    with sqlite3.connect(DATABASE) as database:
        database.execute(f"UPDATE `{table}` SET id = ? WHERE id = ?", (new, record))
        database.execute("UPDATE local_user SET user_id = ? WHERE user_id = ?", (new, record))
    return new


lena = as_of_a_directory("user", made("/users", "user", name="lena", domain_id=domain, password="correct horse"))
pilots = as_of_a_directory("group", made("/groups", "group", name="pilots", domain_id=domain))
cook, knife = made("/roles", "role", name="cook"), made("/roles", "role", name="knife")
own = made("/roles", "role", name="own", domain_id=domain)
call("PUT", f"/roles/{cook}/implies/{knife}")
call("PUT", f"/roles/{own}/implies/{cook}")
for path in [f"/groups/{crew}/users/{ann}", f"/projects/{outer}/groups/{crew}/roles/{cook}", f"/projects/{outer}/users/{bob}/roles/{own}",
             f"/OS-INHERIT/domains/{domain}/users/{ann}/roles/{cook}/inherited_to_projects", f"/system/users/{ann}/roles/{knife}",
             f"/groups/{pilots}/users/{lena}", f"/projects/{outer}/groups/{pilots}/roles/{cook}", f"/projects/{outer}/users/{lena}/roles/{own}"]:
    call("PUT", path)
region = made("/regions", "region", id="RegionTwo", parent_region_id="RegionOne")
service = made("/services", "service", name="swift", type="object-store", description="objects")
endpoint = made("/endpoints", "endpoint", service_id=service, interface="public", region_id=region, url="https://swift/v1/AUTH_%(project_id)s")
resource = {"service_id": service, "region_id": region, "resource_name": "containers"}
call("POST", "/registered_limits", {"registered_limits": [{**resource, "default_limit": 5}, {
    "service_id": service, "resource_name": "objects", "default_limit": -1, "description": "all of them"}]})
call("POST", "/limits", {"limits": [{**resource, "project_id": outer, "resource_limit": 7}, {
    "service_id": service, "resource_name": "objects", "domain_id": domain, "resource_limit": 8}]})
policy = made("/policies", "policy", type="application/json", blob='{"a": 1}')
group = made("/OS-EP-FILTER/endpoint_groups", "endpoint_group", name="public ones", filters={"interface": "public", "service_id": service})
associated = [f"/policies/{policy}/OS-ENDPOINT-POLICY/services/{service}/regions/{region}", f"/OS-EP-FILTER/projects/{outer}/endpoints/{endpoint}",
              f"/OS-EP-FILTER/endpoint_groups/{group}/projects/{outer}"]
for path in associated:
    call("PUT", path)
federation = "/OS-FEDERATION"
rules = [{"local": [{"user": {"name": "{0}"}, "group": {"id": "g"}}], "remote": [{"type": "REMOTE_USER", "any_one_of": ["a"], "regex": True}]}]
call("PUT", f"{federation}/mappings/people", {"mapping": {"rules": rules, "schema_version": "2.0"}})
call("PUT", f"{federation}/identity_providers/acme", {"identity_provider": {"remote_ids": ["urn:a", "urn:b"], "authorization_ttl": 5}})
call("PUT", f"{federation}/identity_providers/acme/protocols/saml2", {"protocol": {"mapping_id": "people", "remote_id_attribute": "Issuer"}})
call("PUT", f"{federation}/service_providers/beta", {"service_provider": {
    "auth_url": "https://beta/v3", "sp_url": "https://beta/sp", "enabled": True}})
ci = call("POST", f"/users/{me}/application_credentials", {"application_credential": {
    "name": "ci", "roles": [{"name": "reader"}]}}).json()["application_credential"]
admins = call("GET", "/projects?name=admin").json()["projects"][0]["id"]
trust = made("/OS-TRUST/trusts", "trust", trustor_user_id=me, trustee_user_id=ann, project_id=admins, impersonation=False,
             roles=[{"name": "reader"}], expires_at="2099-01-31T12:00:00.000000Z")
key = call("POST", f"/users/{me}/credentials/OS-EC2", {"tenant_id": admins}).json()["credential"]
made("/OS-OAUTH1/consumers", "consumer", description="a robot")
call("PUT", f"/domains/{domain}/config", {"config": {"ldap": {"url": "ldap://x", "password": "s3cret"}}})

lists = {}
for path in ["domains", "projects", "users", "groups", "roles", "regions", "services", "endpoints", "role_assignments", "role_inferences"]:
    lists[path] = call("GET", "/" + path).json()[path]
lists["registered_limits"] = call("GET", "/registered_limits").json()["registered_limits"]
lists["policies"] = call("GET", "/policies").json()["policies"]
lists["endpoint_groups"] = call("GET", "/OS-EP-FILTER/endpoint_groups").json()["endpoint_groups"]
for path in ["identity_providers", "mappings", "service_providers"]:
    lists[path] = call("GET", f"{federation}/{path}").json()[path]
lists["protocols"] = call("GET", f"{federation}/identity_providers/acme/protocols").json()["protocols"]
lenas = call("POST", "/auth/tokens", {"auth": {"identity": {"methods": ["password"], "password": {"user": {
    "id": lena, "password": "correct horse"}}}, "scope": {"project": {"id": outer}}}}).headers["X-Subject-Token"]
# Keystone shows all limits only to a session for the system.
login["auth"]["scope"] = {"system": {"all": True}}
system = call("POST", "/auth/tokens", login).headers["X-Subject-Token"]
lists["limits"] = http.get(url + "/limits", headers={"X-Auth-Token": system}).json()["limits"]
assert len(lists["limits"]) == 2, lists["limits"]
lists["credentials"] = call("GET", f"/users/{me}/application_credentials").json()["application_credentials"]
dump = os.path.join(PLACE, "keystone.sql")
with open(dump, "w") as to:
    to.write("\n".join(sqlite3.connect(DATABASE).iterdump()))
print(json.dumps({"url": url, "lists": lists, "dump": dump, "me": me, "associated": associated,
                  "ci": {"id": ci["id"], "secret": ci["secret"]}, "trust": trust, "key": key,
                  "lena": {"id": lena, "token": lenas, "group": pilots}}), flush=True)
sys.stdin.read()
