# Runs Keystone's own tests of the Identity API. They test which calls are permitted for each role and scope, and test the extensions.
exec sh "$JUDGES/identity.sh" keystone_tempest_plugin.tests
