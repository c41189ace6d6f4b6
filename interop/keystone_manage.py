"""Every management command of OpenStack's client, against the server. Arguments: URL (…/v3), certificate, the administrator's password."""

import contextlib
import io
import json
import logging
import subprocess
import sys
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
from keystoneauth1 import session
from keystoneauth1.identity import v3
from openstackclient import shell

URL, CERTIFICATE, PASSWORD = sys.argv[1:4]
ADMIN = ["--os-username", "admin", "--os-password", PASSWORD, "--os-user-domain-name", "Default",
         "--os-project-name", "admin", "--os-project-domain-name", "Default"]


def openstack(*words, login=ADMIN, fails=False):
    """What a command printed, as JSON where it can be; whether it has to fail."""
    out, err = io.StringIO(), io.StringIO()
    shows = any(word in ("list", "show", "create", "issue", "set") for word in words) and "set" not in words
    extra = ["-f", "json"] if shows else []
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = shell.main(["--os-auth-url", URL, "--os-cacert", CERTIFICATE] + login + list(words) + extra)
    assert (status != 0) == fails, (words, status, out.getvalue(), err.getvalue())
    return json.loads(out.getvalue()) if shows and not fails and out.getvalue().strip() else out.getvalue()


def openstack_apart(*words, login):
    """The same in another process: within one process the client reuses the session of the first login."""
    command = [sys.executable, "-c", "from openstackclient import shell; raise SystemExit(shell.main())"]
    command += ["--os-auth-url", URL, "--os-cacert", CERTIFICATE] + login + list(words) + ["-f", "json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return json.loads(done.stdout)


def names(rows, column="Name"):
    return {row[column] for row in rows}


# Domains.
made = openstack("domain", "create", "d1", "--description", "one")
assert made["name"] == "d1" and made["enabled"] is True and made["description"] == "one", made
openstack("domain", "create", "d1", fails=True)
assert {"Default", "d1"} <= names(openstack("domain", "list"))
openstack("domain", "set", "--description", "x", "d1")
shown = openstack("domain", "show", "d1")
assert shown["description"] == "x" and shown["id"] == made["id"], shown
openstack("domain", "show", "d9", fails=True)
openstack("domain", "delete", "d1", fails=True)  # It is enabled.

# Projects.
project = openstack("project", "create", "p1", "--domain", "d1", "--tag", "red", "--property", "colour=blue")
assert project["domain_id"] == made["id"] and project["parent_id"] == made["id"], project
openstack("project", "create", "p1", "--domain", "d1", fails=True)
child = openstack("project", "create", "p2", "--domain", "d1", "--parent", "p1")
assert child["parent_id"] == project["id"], child
openstack("project", "create", "p9", "--domain", "nowhere", fails=True)
assert names(openstack("project", "list", "--domain", "d1")) == {"p1", "p2"}
assert "admin" in names(openstack("project", "list"))
assert names(openstack("project", "list", "--tags", "red")) == {"p1"}
assert names(openstack("project", "list", "--not-tags", "red", "--domain", "d1")) == {"p2"}
openstack("project", "set", "p1", "--domain", "d1", "--description", "y", "--name", "p1b")
openstack("project", "set", "p1b", "--domain", "d1", "--name", "p1", "--property", "colour=green")
shown = openstack("project", "show", "p1", "--domain", "d1")
assert shown["description"] == "y" and shown["tags"] == ["red"], shown
shown = openstack("project", "show", "p2", "--domain", "d1", "--parents")
assert list(shown["parents"]) == [project["id"]], shown
openstack("project", "set", "p1", "--domain", "d1", "--disable", fails=True)  # One in it is enabled.

# Users.
user = openstack("user", "create", "u1", "--domain", "d1", "--password", "pw1", "--email", "u@x", "--description", "somebody")
assert user["name"] == "u1" and user["domain_id"] == made["id"] and user["email"] == "u@x", user
openstack("user", "create", "u1", "--domain", "d1", fails=True)
assert names(openstack("user", "list", "--domain", "d1")) == {"u1"}
assert {"admin", "u1"} <= names(openstack("user", "list"))
openstack("user", "set", "u1", "--domain", "d1", "--email", "a@b")
openstack("user", "set", "u1", "--domain", "d1", "--password", "pw2")
assert openstack("user", "show", "u1", "--domain", "d1")["email"] == "a@b"
openstack("user", "set", "u1", "--domain", "d1", "--enable-multi-factor-auth", "--multi-factor-auth-rule", "password,totp")
shown = openstack("user", "show", "u1", "--domain", "d1")["options"]
assert shown["multi_factor_auth_rules"] == [["password", "totp"]] and shown["multi_factor_auth_enabled"], shown
openstack("user", "set", "u1", "--domain", "d1", "--enable-multi-factor-auth", "--multi-factor-auth-rule", "password")
openstack("user", "show", "nobody", "--domain", "d1", fails=True)
assert "admin" in names(openstack("user", "list", "--project", "admin"))

# Groups.
group = openstack("group", "create", "g1", "--domain", "d1", "--description", "many")
assert names(openstack("group", "list", "--domain", "d1")) == {"g1"}
assert openstack("group", "show", "g1", "--domain", "d1")["description"] == "many"
openstack("group", "set", "g1", "--domain", "d1", "--description", "few")
both = ["--group-domain", "d1", "--user-domain", "d1"]
assert "in group" not in openstack("group", "contains", "user", "g1", "u1", *both)
openstack("group", "add", "user", "g1", "u1", *both)
assert "in group" in openstack("group", "contains", "user", "g1", "u1", *both)
assert names(openstack("user", "list", "--group", group["id"])) == {"u1"}
assert names(openstack("group", "list", "--user", "u1", "--user-domain", "d1")) == {"g1"}

# Roles and who has them.
role = openstack("role", "create", "r1", "--description", "a role")
openstack("role", "create", "r1", fails=True)
of_domain = openstack("role", "create", "r1", "--domain", "d1")
assert of_domain["domain_id"] == made["id"], of_domain
assert {"admin", "manager", "member", "reader", "r1"} <= names(openstack("role", "list"))
assert names(openstack("role", "list", "--domain", "d1")) == {"r1"}
openstack("role", "set", "r1", "--name", "r2")
assert openstack("role", "show", "r2")["id"] == role["id"]
openstack("role", "set", "r2", "--name", "r1")
on_project = ["--project", "p1", "--project-domain", "d1"]
openstack("role", "add", "--user", "u1", "--user-domain", "d1", *on_project, "r1")
openstack("role", "add", "--group", "g1", "--group-domain", "d1", "--domain", "d1", "r1")
openstack("role", "add", "--user", "u1", "--user-domain", "d1", "--system", "all", "reader")
openstack("role", "add", "--user", "u1", "--user-domain", "d1", "--domain", "d1", "--inherited", "member")
openstack("role", "add", "--user", "nobody", *on_project, "r1", fails=True)
of_user = openstack("role", "assignment", "list", "--names", "--user", "u1", "--user-domain", "d1")
assert {(row["Role"], row["Project"], row["Domain"], row["System"], row["Inherited"]) for row in of_user} == {
    ("r1", "p1@d1", "", "", False), ("reader", "", "", "all", False), ("member", "", "d1", "", True),
}, of_user
effective = openstack("role", "assignment", "list", "--effective", "--names", *on_project)
assert {(row["Role"], row["User"]) for row in effective} == {("r1", "u1@d1"), ("member", "u1@d1"), ("reader", "u1@d1")}, effective
effective = openstack("role", "assignment", "list", "--effective", "--user", "u1", "--user-domain", "d1", "--domain", "d1", "--names")
assert {(row["Role"], row["Domain"]) for row in effective} == {("r1", "d1")}, effective
assert len(openstack("role", "assignment", "list")) >= 5
assert len(openstack("role", "assignment", "list", "--group", "g1", "--group-domain", "d1")) == 1
inferences = {(row["Prior Role Name"], row["Implied Role Name"]) for row in openstack("implied", "role", "list")}
assert {("admin", "manager"), ("manager", "member"), ("member", "reader")} <= inferences, inferences
openstack("implied", "role", "create", "r1", "--implied-role", "reader")
assert ("r1", "reader") in {(row["Prior Role Name"], row["Implied Role Name"]) for row in openstack("implied", "role", "list")}
openstack("implied", "role", "delete", "r1", "--implied-role", "reader")

# The user works: with the role of the project, with the one that comes from the domain, and no longer.
U1 = ["--os-username", "u1", "--os-user-domain-name", "d1", "--os-project-domain-name", "d1"]
u1 = lambda password, project: U1 + ["--os-password", password, "--os-project-name", project]
assert openstack("token", "issue", login=u1("pw2", "p1"))["project_id"] == project["id"]
assert openstack("token", "issue", login=u1("pw2", "p2"))["project_id"] == child["id"]
openstack("token", "issue", login=u1("pw1", "p1"), fails=True)
openstack("user", "create", "u2", login=u1("pw2", "p1"), fails=True)
assert "u1" in names(openstack("user", "list", login=U1 + ["--os-password", "pw2", "--os-system-scope", "all"]))
openstack("user", "password", "set", "--original-password", "pw2", "--password", "pw3", login=u1("pw2", "p1"))
openstack("token", "issue", login=u1("pw2", "p1"), fails=True)
openstack("token", "issue", login=u1("pw3", "p1"))
openstack("role", "remove", "--user", "u1", "--user-domain", "d1", "--domain", "d1", "--inherited", "member")
openstack("token", "issue", login=u1("pw3", "p2"), fails=True)
openstack("user", "set", "u1", "--domain", "d1", "--disable")
openstack("token", "issue", login=u1("pw3", "p1"), fails=True)
openstack("user", "set", "u1", "--domain", "d1", "--enable")

# The catalog.
service = openstack("service", "create", "--name", "svc1", "compute", "--description", "machines")
assert "svc1" in names(openstack("service", "list"))
assert openstack("service", "show", "svc1")["id"] == service["id"]
openstack("service", "set", "svc1", "--description", "others")
openstack("region", "create", "RegionTwo", "--description", "there", "--parent-region", "RegionOne")
openstack("region", "create", "RegionTwo", fails=True)
assert "RegionTwo" in names(openstack("region", "list"), "Region")
openstack("region", "set", "RegionTwo", "--description", "here")
assert openstack("region", "show", "RegionTwo")["description"] == "here"
endpoint = openstack("endpoint", "create", "svc1", "public", "http://127.0.0.1:9/v2/%(tenant_id)s", "--region", "RegionTwo")
openstack("endpoint", "create", "svc1", "public", "nonsense", fails=True)
assert endpoint["id"] in names(openstack("endpoint", "list"), "ID")
openstack("endpoint", "set", endpoint["id"], "--url", "http://127.0.0.1:9/v3/%(tenant_id)s")
assert openstack("endpoint", "show", endpoint["id"])["url"].startswith("http://127.0.0.1:9/v3/")
told = [row for row in openstack("catalog", "list") if row["Name"] == "svc1"]
assert told and told[0]["Endpoints"][0]["url"].startswith("http://127.0.0.1:9/v3/"), told
openstack("region", "delete", "RegionTwo", fails=True)  # An endpoint is in it.
openstack("endpoint", "delete", endpoint["id"])
openstack("region", "delete", "RegionTwo")
openstack("service", "delete", "svc1")

# What services keep.
me = openstack("token", "issue")["user_id"]
READER = U1 + ["--os-password", "pw3", "--os-system-scope", "all"]
key = openstack("ec2", "credentials", "create")
assert key["access"] in names(openstack("ec2", "credentials", "list"), "Access")
assert openstack("ec2", "credentials", "show", key["access"])["secret"] == key["secret"]
listed = openstack_apart("ec2", "credentials", "list", "--user", me, login=READER)
assert [(row["Access"], row["Secret"]) for row in listed] == [(key["access"], None)], listed
openstack("ec2", "credentials", "delete", key["access"])
kept = openstack("credential", "create", me, "--type", "cert", "some bytes")
assert openstack("credential", "show", kept["id"])["blob"] == "some bytes"
openstack("credential", "set", kept["id"], "--user", me, "--type", "cert", "--data", "others")
assert kept["id"] in names(openstack("credential", "list"), "ID")
listed = {row["ID"]: row["Data"] for row in openstack_apart("credential", "list", login=READER)}
assert listed[kept["id"]] is None, listed
assert openstack_apart("credential", "show", kept["id"], login=READER)["blob"] is None
openstack("credential", "delete", kept["id"])
openstack("credential", "show", kept["id"], fails=True)
openstack("access", "rule", "list")

# Trusts.
trust = openstack("trust", "create", "--project", "admin", "--role", "reader", me, user["id"])
assert openstack("trust", "show", trust["id"])["trustee_user_id"] == user["id"]
assert trust["id"] in names(openstack("trust", "list"), "ID")
openstack("trust", "delete", trust["id"])

# And all of it goes.
openstack("group", "remove", "user", "g1", "u1", *both)
openstack("group", "remove", "user", "g1", "u1", *both, fails=True)
openstack("role", "remove", "--user", "u1", "--user-domain", "d1", *on_project, "r1")
assert not openstack("role", "assignment", "list", "--user", user["id"], *on_project)
openstack("role", "delete", role["id"])
openstack("project", "delete", "p1", "--domain", "d1", fails=True)  # One is in it.
openstack("project", "delete", "p2", "--domain", "d1")
openstack("project", "delete", "p1", "--domain", "d1")
openstack("group", "delete", "g1", "--domain", "d1")
openstack("user", "create", "u3", "--domain", "d1", "--password", "pw")
openstack("user", "delete", "u1", "--domain", "d1")
openstack("user", "show", "u1", "--domain", "d1", fails=True)
openstack("domain", "set", "--disable", "d1")
openstack("domain", "delete", "d1")
assert "d1" not in names(openstack("domain", "list"))
# Its users do not exist any more, although their records were not removed yet.
assert "u3" not in names(openstack("user", "list"))
print(json.dumps({"held": True}))
