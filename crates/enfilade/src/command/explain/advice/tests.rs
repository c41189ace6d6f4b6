use super::*;
use enfilade_facts::vocabulary::ProjectId;

#[test]
fn every_code_of_a_door_that_explain_asks_has_a_next_step() {
    let doors = [
        enfilade_identity::CODES.as_slice(),
        &enfilade_datastore::CODES,
        &enfilade_access::CODES,
        &enfilade_content::CODES,
    ];
    for row in doors.into_iter().flatten() {
        assert!(action_of(row.code).is_some_and(|action| !action.is_empty()), "{}", row.code);
    }
}

/// Runs a test on a question about this user or token.
fn asked(authid: &str, test: impl FnOnce(&Asked<'_>)) {
    let arguments = Explain {
        authid: authid.parse().unwrap(),
        datastore: None,
        url: None,
        path: "/a".into(),
        right: AccessMask::DELETE,
        project: Some("p".into()),
    };
    let project = Some("p@corp".to_owned());
    let of_remedy = project.clone();
    let datastore = &"tank".parse().unwrap();
    test(&Asked {
        arguments: &arguments,
        datastore,
        is_user: true,
        of_remedy,
        project,
        acl: None,
        obstacle: None,
    });
}

#[test]
fn the_next_step_fits_the_reason_why_the_project_is_no_scope() {
    let no_role = "the user has no role in the scope";
    for (authid, why, says) in [
        ("ann@local", no_role, "enfilade role assign --project p@corp --auth-id ann@local reader"),
        ("ann@local!ci", no_role, "create a new application credential"),
        ("ann@local", IdentityRefusal::PROJECT_CLOSED, "enfilade project set p@corp --enable"),
        ("ann@local!ci", IdentityRefusal::OF_OTHER_PROJECT, "without --project"),
    ] {
        asked(authid, |asked| {
            let next = asked.about_login(&IdentityRefusal::NoScope(why)).unwrap();
            assert!(next.contains(says), "{next}");
        });
    }
}

#[test]
fn the_next_step_about_rights_helps_the_one_who_asked() {
    let project = ProjectId::from_bytes([1; 16]);
    let barred = Remedy::WithoutNoAccess(StorePath::root(), vec!["ann@local".parse().unwrap()]);
    let role = Remedy::Role { path: StorePath::root(), role: Role::DatastoreBackup, of_token: false };
    for (remedy, says) in [
        (Remedy::Binding(project), "enfilade datastore set tank --project p@corp"),
        // A role on the path would give more rights than the roles on the project.
        (Remedy::OfProject(project), "enfilade token create 'ann@local!NAME' --project p@corp"),
        // A new binding would take the datastore away from its project.
        (
            Remedy::OfOtherProject(project),
            "use a session or an application credential for the project p@corp",
        ),
        (
            Remedy::NewCredential(project, "member"),
            "create a new application credential with the role member",
        ),
        (Remedy::RoleOnProject(project, "member"), "--auth-id ann@local member"),
        (barred, "enfilade role remove --path /datastore/tank --auth-id ann@local NoAccess"),
        (role, "enfilade role assign --path /datastore/tank --auth-id 'ann@local!ci' DatastoreBackup"),
    ] {
        asked("ann@local!ci", |asked| {
            let next = asked.about_rights(&remedy).unwrap();
            assert!(next.contains(says), "{next}");
        });
    }
}
