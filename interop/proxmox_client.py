"""Creates, changes and deletes users, API tokens and assignments of roles with the client proxmoxer, and checks the answers.

Arguments: the port, the path of the server's certificate, and the id and the secret of an API token of the administrator.

Prints a line of text if all checks pass. Otherwise the program ends with an error.
"""

from proxmox_api import SECRET, TOKEN, api, refused

admin = api(TOKEN, SECRET)
assert admin.ping.get() == {"pong": True}
assert set(admin.version.get()) == {"version", "release", "repoid"}

users = admin.access.users
users.post(userid="bob@local", comment="Bob & co", password="a long password")
assert users("bob@local").get()["comment"] == "Bob & co"
refused(400, users.post, userid="bob@local")
refused(400, users.post, userid="no realm")
assert "additional properties" in refused(400, users.post, userid="x@local", colour="red")
users("bob@local").put(comment="Bob", expire=2000000000)
shown = users("bob@local").get()
assert (shown["comment"], shown["expire"], shown["enable"]) == ("Bob", 2000000000, True)
users("bob@local").put(delete="comment", expire=0)
assert users("bob@local").get()["comment"] is None
assert {user["userid"] for user in users.get()} - {"root@pam"} == {"admin@local", "bob@local"}

tokens = users("bob@local").token
made = tokens("work").post(comment="for work")
assert made["tokenid"] == "bob@local!work"
refused(400, tokens("work").post)
assert [token["token-name"] for token in tokens.get()] == ["work"]
bob = api("bob@local!work", made["value"])
assert bob.version.get()["repoid"] == "enfilade"
refused(403, bob.access.users("admin@local").get)
refused(403, bob.access.users.post, userid="eve@local")
assert bob.access.users.get()[0]["userid"] == "bob@local"

acl = admin.access.acl
acl.put(path="/datastore/main", role="DatastoreReader", **{"auth-id": "bob@local"})
acl.put(path="/datastore/main", role="DatastoreReader", **{"auth-id": "bob@local!work"})
rows = {(row["path"], row["ugid"], row["roleid"]) for row in acl.get(path="/datastore/main", exact=1)}
assert rows == {
    ("/datastore/main", "bob@local", "DatastoreReader"),
    ("/datastore/main", "bob@local!work", "DatastoreReader"),
}, rows
assert [row["ugid"] for row in bob.access.acl.get()] == ["bob@local!work"]
held = bob.access.permissions.get()
assert held == {"/datastore/main": {"Datastore.Audit": True, "Datastore.Read": True, "Datastore.Verify": True}}, held
assert admin.access.permissions.get(**{"auth-id": "bob@local", "path": "/"}) == {}
refused(403, bob.access.permissions.get, **{"auth-id": "admin@local"})
refused(403, bob.access.acl.put, path="/", role="Admin", **{"auth-id": "bob@local!work"})
refused(400, acl.put, path="/", role="Admni", **{"auth-id": "bob@local"})
acl.put(path="/datastore/main", role="DatastoreReader", delete=1, **{"auth-id": "bob@local"})
assert bob.access.permissions.get() == {}
assert {role["roleid"] for role in admin.access.roles.get()} > {"Admin", "NoAccess", "TapeReader"}
assert {"realm": "local", "type": "pbs"} in admin.access.domains.get()

renewed = tokens("work").put(regenerate=1)
refused(401, bob.version.get)
bob = api("bob@local!work", renewed["secret"])
assert bob.version.get()
tokens("work").put(enable=0)
refused(401, bob.version.get)
tokens("work").put(enable=1)
assert bob.version.get()
refused(400, users("bob@local").delete, digest="0" * 64)
tokens("work").delete()
refused(401, bob.version.get)
users("bob@local").delete()
refused(400, users("bob@local").get)
assert "bob@local" not in str(acl.get())
print("proxmoxer: everything it asked for was answered as by the original")
