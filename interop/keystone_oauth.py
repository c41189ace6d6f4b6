"""Tests OAuth 1.0a and OAuth 2.0 with OpenStack's clients.

OAuth 1.0a: keystoneclient gets an access token, and keystoneauth logs in with the access token. Both libraries sign their requests with oauthlib.
OAuth 2.0: keystoneauth gets a token by the grant type `client_credentials`, and the filter of keystonemiddleware validates the token.

Arguments: the URL of the Identity API (…/v3), the path of the server's certificate, the administrator's password, and the password of the user
`service`.

Prints `{"held": true}` if all checks pass. Otherwise the program ends with an error.
"""

import json
import sys
import warnings

warnings.simplefilter("ignore")
import requests
from keystoneauth1 import exceptions, session
from keystoneauth1.extras import oauth1
from keystoneauth1.identity import v3
from keystoneclient.v3 import client
from keystonemiddleware import oauth2_token
from webob import Request, Response
from webob.dec import wsgify

URL, CERTIFICATE, PASSWORD, SERVICE = sys.argv[1:5]


def session_of(plugin):
    return session.Session(auth=plugin, verify=CERTIFICATE)


def password(name, secret, project):
    plugin = v3.Password(URL, username=name, password=secret, user_domain_name="Default", project_name=project,
                         project_domain_name="Default")
    return session_of(plugin)


def refused(call):
    try:
        call()
    except exceptions.HttpError as error:
        return error.http_status
    raise AssertionError("not refused")


admin = password("admin", PASSWORD, "admin")
keystone = client.Client(session=admin, endpoint_override=URL)
user, project = admin.get_user_id(), admin.get_project_id()

# OAuth 1.0a: a consumer gets a request token, the administrator approves the request, and the consumer gets an access token.
consumer = keystone.oauth1.consumers.create(description="a program")
assert consumer.secret and not hasattr(keystone.oauth1.consumers.get(consumer.id), "secret")
role = keystone.roles.list(name="admin")[0]
asked = keystone.oauth1.request_tokens.create(consumer.id, consumer.secret, project)
verifier = keystone.oauth1.request_tokens.authorize(asked.key, [role]).oauth_verifier
access = keystone.oauth1.access_tokens.create(consumer.id, consumer.secret, asked.key, asked.secret, verifier)
assert refused(lambda: keystone.oauth1.access_tokens.create(
    consumer.id, consumer.secret, asked.key, asked.secret, verifier)) == 401

plugin = dict(consumer_key=consumer.id, access_key=access.key, access_secret=access.secret)
lent = session_of(oauth1.V3OAuth1(URL, consumer_secret=consumer.secret, **plugin))
assert (lent.get_user_id(), lent.get_project_id()) == (user, project)
told = admin.get(URL + "/auth/tokens", headers={"X-Subject-Token": lent.get_token()}).json()["token"]
assert told["OS-OAUTH1"] == {"access_token_id": access.key, "consumer_id": consumer.id}, told
assert told["methods"] == ["oauth1"] and [role["name"] for role in told["roles"]].count("admin") == 1
assert refused(session_of(oauth1.V3OAuth1(URL, consumer_secret=access.secret, **plugin)).get_token) == 401
assert refused(lambda: lent.post(URL + "/users", json={"user": {"name": "more"}})) == 403
listed = admin.get(f"{URL}/users/{user}/OS-OAUTH1/access_tokens").json()["access_tokens"]
assert [one["id"] for one in listed] == [access.key]
keystone.oauth1.consumers.delete(consumer.id)
assert refused(lambda: lent.get(URL + "/auth/projects", connect_retries=0)) == 401

# OAuth 2.0: the id and the secret of an application credential are the id and the secret of the client.
credential = keystone.application_credentials.create("client", user=user)
endpoint = URL + "/OS-OAUTH2/token"
lent = session_of(v3.OAuth2ClientCredential(
    URL, oauth2_endpoint=endpoint, oauth2_client_id=credential.id, oauth2_client_secret=credential.secret))
headers = lent.get_auth_headers()
assert headers["Authorization"].startswith("Bearer ") and lent.get(URL + "/auth/projects").status_code == 200


@wsgify
def application(request):
    return Response(request.headers["X-Project-Id"])


options = {
    "auth_type": "password", "auth_url": URL, "www_authenticate_uri": URL, "cafile": CERTIFICATE, "username": "service",
    "password": SERVICE, "user_domain_name": "Default", "project_name": "service", "project_domain_name": "Default",
    "delay_auth_decision": False,
}
guarded = oauth2_token.filter_factory({}, **options)(application)
answer = Request.blank("/", headers={"Authorization": headers["Authorization"]}).get_response(guarded)
assert (answer.status_int, answer.text) == (200, project), answer
assert Request.blank("/", headers={"Authorization": "Bearer x"}).get_response(guarded).status_int == 401

wrong = requests.post(endpoint, data={"grant_type": "client_credentials"}, auth=(credential.id, "wrong"), verify=CERTIFICATE)
assert (wrong.status_code, wrong.json()["error"]) == (401, "invalid_client"), wrong.text
print(json.dumps({"held": True}))
