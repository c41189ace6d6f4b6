# Runs OpenStack's tests of the Identity API (Tempest).
exec sh "$JUDGES/identity.sh" tempest.api.identity
