//! Reads the credentials that services store for users: EC2 keys, TOTP secrets, and others.

use super::super::cloud::Api;
use super::for_services::shown_for_system;
use super::{Asked, id, term, text};
use enfilade_admin::Imported;
use enfilade_admin::keystone::CloudRecord;
use enfilade_facts::tables::{Blob, BlobId};
use serde_json::{Value, json};

/// Adds the credentials. A credential is left out if the API does not show its secret.
pub(super) async fn blobs(api: &mut Api, asked: &mut Asked) -> anyhow::Result<()> {
    let rows = shown_for_system(api, asked, "credentials", "credentials", "credential").await?;
    for row in rows.unwrap_or_default() {
        let kind = if text(&row, "type").as_deref() == Some("ec2") { "EC2 key" } else { "credential" };
        let called = text(&row, "id").unwrap_or_default();
        if text(&row, "blob").is_none() {
            let why = "Keystone does not show the secret in a session for a project: import again with `system_scope: all` instead of the project in clouds.yaml";
            asked.left.push(Imported::left(kind, called, why));
            continue;
        }
        match blob(&row).map(|(id, blob)| (id, enfilade_keystone::with_key(blob))) {
            Some((id, Ok(blob))) => asked.things.push(CloudRecord::Blob(id, Box::new(blob))),
            Some((_, Err(why))) => asked.left.push(Imported::left(kind, called, why.to_string())),
            // The report identifies the record only by its ids, and never contains its secret.
            None => asked.each(kind, &[json!({ "id": called, "user_id": row.get("user_id") })], |_| None),
        }
    }
    Ok(())
}

fn blob(row: &Value) -> Option<(BlobId, Blob)> {
    let (kind, blob, said) = (text(row, "type")?, text(row, "blob")?, text(row, "id")?);
    // Except for EC2 keys, an id in Keystone has half as many digits as an id on this server. So the digits of a short id are repeated.
    let id_here = said.parse().or_else(|_| format!("{said}{said}").parse()).ok()?;
    let project = term(row, "project_id", |project| project.as_str()?.parse().ok())?;
    Some((id_here, Blob { user: id(row, "user_id")?, project, kind, blob, ec2: None }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_keeps_its_id() {
        let (user, short) = ("01".repeat(16), "ab".repeat(16));
        let row =
            |id: &str| json!({ "id": id, "type": "cert", "blob": "b", "user_id": user, "project_id": null });
        let long = "cd".repeat(32);
        for (said, expected) in [(&short, &format!("{short}{short}")), (&long, &long)] {
            assert_eq!(&blob(&row(said)).unwrap().0.to_string(), expected);
        }
        for bad in ["", "abc", "AB"] {
            assert!(blob(&row(bad)).is_none(), "{bad}");
        }
        let mut of_nobody = row(&short);
        for bad in [json!("x"), json!(7), json!("")] {
            of_nobody["project_id"] = bad;
            assert!(blob(&of_nobody).is_none(), "{of_nobody}");
        }
    }
}
