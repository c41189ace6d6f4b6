# OpenStack's tests of the Identity API.
exec sh "$JUDGES/identity.sh" tempest.api.identity
