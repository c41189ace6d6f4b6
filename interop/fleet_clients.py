"""Sends requests to a fleet behind HAProxy while a test kills members of the fleet, and checks the answers.

Arguments: the port of HAProxy, the path of the server's certificate, the id and the secret of an API token of the administrator, the URL of the
Identity API (…/v3), the administrator's password, and the path of a file. The program ends when this file exists and each kind of check has succeeded
at least once.

The program repeats a call after a broken connection and after the status 503. Every other answer must be right.

A change is acknowledged if one of its tries gets the answer of a success. Then all members must obey it at once. If a try broke off, and a later try
is refused because the earlier try had made the change, the change is not acknowledged. Then a member may answer with older facts until its proof
expires (docs/fleet.md), so the program waits for that time before its checks.

Prints a line of JSON with the numbers of checked sessions, checked API tokens, successful commands, failed tries, changes without acknowledgement,
and answers with older facts before the wait.
"""

import json
import os
import subprocess
import sys
import time

from keystoneauth1 import exceptions, session
from keystoneauth1.identity import v3
from proxmox_api import CERTIFICATE, REST, SECRET, TOKEN, api
from proxmoxer.core import ResourceException
from requests import RequestException

URL, PASSWORD, STOP = REST
USER = {"username": "admin", "password": PASSWORD, "user_domain_name": "Default"}
SCOPE = {"project_name": "admin", "project_domain_name": "Default"}
# How often each session and each API token is checked. Each check uses a new connection, so HAProxy chooses a member again.
LOOKS = 6
# How long a proof is valid (`fleet.proof_millis`), with a reserve, in seconds.
PROOF = 1.25
counts = {"sessions": 0, "tokens": 0, "commands": 0, "repeated": 0, "unacknowledged": 0, "older": 0}


def repeated(call):
    """Repeats a call until there is an answer. Returns the answer, and whether the server may have executed an earlier try of the call."""
    for tries in range(300):
        try:
            return call(), tries > 0
        except (RequestException, exceptions.ConnectFailure, exceptions.ServiceUnavailable):
            pass
        except exceptions.SSLError as why:
            # The connection ended during the handshake.
            if "EOF" not in str(why):
                raise
        except ResourceException as why:
            if why.status_code != 503:
                raise
        counts["repeated"] += 1
        time.sleep(0.1)
    raise AssertionError("no answer after 300 tries")


def login():
    return session.Session(auth=v3.Password(auth_url=URL, **USER, **SCOPE), verify=CERTIFICATE)


def validated(token):
    """Validates a token at a member that HAProxy chooses. Returns the status of the answer."""

    def ask():
        headers = {"X-Subject-Token": token}
        answer = login().get(URL + "/auth/tokens", headers=headers, raise_exc=False)
        if answer.status_code == 503:
            raise RequestException
        return answer.status_code

    return repeated(ask)[0]


def ended(what, status_now, expected, is_acknowledged):
    """Checks that no asked member accepts an ended credential."""
    began = time.monotonic()
    if not is_acknowledged:
        counts["unacknowledged"] += 1
        counts["older"] += status_now() != expected
        time.sleep(PROOF)
    for look in range(LOOKS):
        status = status_now()
        seconds = time.monotonic() - began
        known = f"acknowledged: {is_acknowledged}, check {look}, {seconds:.3f} s after the answer"
        assert status == expected, f"{what} got {status} instead of {expected} ({known})"


def one_session():
    """Checks at members that HAProxy chooses that a session is valid, and that it is not valid after its revocation."""
    token, _ = repeated(lambda: login().get_token())
    for _ in range(LOOKS):
        assert validated(token) == 200, "a valid session was refused"

    def revoke():
        answer = login().delete(URL + "/auth/tokens", headers={"X-Subject-Token": token}, raise_exc=False)
        if answer.status_code == 503:
            raise RequestException
        return answer.status_code

    status, is_repeated = repeated(revoke)
    assert status == 204 or is_repeated and status == 404, status
    ended("a revoked session", lambda: validated(token), 404, status == 204)
    counts["sessions"] += 1


def status_of(token, secret):
    def ask():
        try:
            api(token, secret).access.users.get()
            return 200
        except ResourceException as why:
            if why.status_code == 503:
                raise
            return why.status_code

    return repeated(ask)[0]


def one_token(number):
    """Checks at members that HAProxy chooses that an API token is valid, and that it is not valid after its deletion."""
    owner, name = TOKEN.split("!")[0], f"t{number}"
    tokens = lambda: api(TOKEN, SECRET).access.users(owner).token(name)

    def change(call):
        """Makes a change. Returns the answer, and whether the change was acknowledged. It was not acknowledged if a repeated try got 400 or 404: then
        an earlier try probably made the change."""
        is_repeated = False

        def once():
            nonlocal is_repeated
            try:
                return call(), True
            except ResourceException as why:
                if is_repeated and why.status_code in (400, 404):
                    return None, False
                raise
            finally:
                is_repeated = True

        return repeated(once)[0]

    made, is_made = change(lambda: tokens().post())
    now = lambda: status_of(f"{owner}!{name}", made["value"])
    if is_made:
        for look in range(LOOKS):
            status = now()
            assert status == 200, f"a valid token got {status} (check {look})"
    _, is_deleted = change(lambda: tokens().delete())
    if is_made:
        ended("a deleted token", now, 401, is_deleted)
        counts["tokens"] += 1


def one_command():
    """Runs the command `openstack token issue`. It does not repeat failed calls, so it may fail with the status 503 or a broken connection."""
    words = ["token", "issue", "-f", "json", "--os-auth-url", URL, "--os-cacert", CERTIFICATE, "--os-identity-api-version", "3"]
    words += ["--os-username", USER["username"], "--os-password", PASSWORD, "--os-user-domain-name", "Default"]
    words += ["--os-project-name", SCOPE["project_name"], "--os-project-domain-name", "Default"]
    done = subprocess.run([sys.executable, "-m", "openstackclient.shell", *words], capture_output=True, text=True)
    if done.returncode:
        assert "503" in done.stderr or "Unable to establish connection" in done.stderr or "Connection" in done.stderr, done.stderr
        counts["repeated"] += 1
    else:
        assert json.loads(done.stdout)["id"].startswith("gAAAA"), done.stdout
        counts["commands"] += 1


number = 0
while not os.path.exists(STOP) or not all(counts[what] for what in ("sessions", "tokens", "commands")):
    one_session()
    one_token(number)
    if number % 10 == 0:
        one_command()
    number += 1
print(json.dumps(counts))
