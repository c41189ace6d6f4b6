"""Issues and decrypts Fernet tokens with Keystone's own code.

Arguments: the key repository, and one of these commands:
- `mint USER PROJECT DOMAIN CREDENTIAL TRUST` issues six tokens for the user: an unscoped token, and one token each for the domain, the project, the
  trust, the system and the application credential. All arguments are ids.
- `read TOKEN…` decrypts the tokens.

Prints a line of JSON for each token. After `mint`, the line has the token, Keystone's number for the kind of its payload, its audit ids and its
expiry. After `read`, the line has all values that the token contains.
"""

import base64
import datetime
import json
import sys
import uuid

from keystone.common import utils
from keystone.conf import configure
from keystone.token import token_formatters as formatters
from oslo_config import cfg

configure()
CONF = cfg.CONF
CONF([], project="keystone", default_config_files=[])
CONF.set_override("key_repository", sys.argv[1], group="fernet_tokens")

formatter = formatters.TokenFormatter()
if sys.argv[2] == "mint":
    user, project, domain, credential, trust = sys.argv[3:]
    expires = utils.isotime(
        datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None) + datetime.timedelta(hours=1), subsecond=True
    )
    audit = lambda: base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    kinds = [
        (formatters.UnscopedPayload, {}),
        (formatters.DomainScopedPayload, {"domain_id": domain}),
        (formatters.ProjectScopedPayload, {"project_id": project}),
        (formatters.TrustScopedPayload, {"project_id": project, "trust_id": trust}),
        (formatters.SystemScopedPayload, {"system": "all"}),
        (formatters.ApplicationCredentialScopedPayload, {"project_id": project, "app_cred_id": credential}),
    ]
    for kind, scope in kinds:
        audits = [audit(), audit()]
        method = "application_credential" if "app_cred_id" in scope else "password"
        token = formatter.create_token(user, expires, audits, kind, methods=[method], **scope)
        print(json.dumps({"kind": kind.version, "token": token, "audit_ids": audits, "expires": expires}))
else:
    names = (
        "user_id methods audit_ids system domain_id project_id trust_id federated_group_ids identity_provider_id protocol_id "
        "access_token_id app_cred_id thumbprint issued_at expires_at"
    ).split()
    for token in sys.argv[3:]:
        said = dict(zip(names, formatter.validate_token(token)))
        print(json.dumps({name: value for name, value in said.items() if value is not None}))
