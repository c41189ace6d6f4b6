"""Sends requests to a fleet behind HAProxy while a test kills members of the fleet, and checks the answers.

Arguments: the port of HAProxy, the path of the server's certificate, the id and the secret of an API token of the administrator, the URL of the
Identity API (…/v3), the administrator's password, and the path of a file. The program ends when this file exists and each kind of check has succeeded
at least once.

The program repeats a call after a broken connection and after the status 503. Every other answer must be right.

Prints a line of JSON with the numbers of checked sessions, checked API tokens, successful commands, and repeated calls.
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
counts = {"sessions": 0, "tokens": 0, "commands": 0, "repeated": 0}


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
    raise AssertionError("no answer for 30 s")


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


def one_session():
    """Checks that a session is valid on every member, and that the session is valid on no member after its revocation."""
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
    for _ in range(LOOKS):
        assert validated(token) == 404, "a revoked session was accepted"
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
    """Checks that an API token is valid on every member, and that the token is valid on no member after its deletion."""
    owner, name = TOKEN.split("!")[0], f"t{number}"
    tokens = lambda: api(TOKEN, SECRET).access.users(owner).token(name)

    def change(call):
        """Makes a change. Returns the answer, or None if a repeated try was refused because an earlier try may have made the change."""
        is_repeated = False

        def once():
            nonlocal is_repeated
            try:
                return call()
            except ResourceException as why:
                if is_repeated and why.status_code in (400, 404):
                    return None
                raise
            finally:
                is_repeated = True

        return repeated(once)[0]

    made = change(lambda: tokens().post())
    if made is not None:
        for _ in range(LOOKS):
            assert status_of(f"{owner}!{name}", made["value"]) == 200, "a valid token was refused"
    change(lambda: tokens().delete())
    if made is not None:
        for _ in range(LOOKS):
            assert status_of(f"{owner}!{name}", made["value"]) == 401, "a deleted token was accepted"
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
