//! The secrets of passcodes.

use super::super::cloud::Api;
use super::{Asked, id, text, unknown};
use enfilade_admin::Imported;
use enfilade_admin::keystone::CloudRecord;
use enfilade_facts::tables::Blob;
use serde_json::Value;

/// Adds the credentials of type `totp` whose secret the API shows. The other credentials are left out.
pub(super) async fn totp(api: &mut Api, asked: &mut Asked) -> anyhow::Result<()> {
    let rows = match api.list_if_served("credentials", "credentials").await? {
        Ok(rows) => rows,
        Err(refused) => {
            asked.left.push(unknown("credential", &refused));
            return Ok(());
        }
    };
    let (of_totp, others): (Vec<Value>, Vec<Value>) = rows
        .into_iter()
        .partition(|row| text(row, "type").as_deref() == Some("totp") && text(row, "blob").is_some());
    asked.each("credential", &of_totp, |row| {
        let (kind, blob) = (text(row, "type")?, text(row, "blob")?);
        let project = id(row, "project_id");
        let row_id = text(row, "id")?;
        // Keystone's id of such a credential has half as many digits as an id here.
        let id_here = row_id.parse().or_else(|_| format!("{row_id}{row_id}").parse()).ok()?;
        Some(CloudRecord::Totp(id_here, Blob { user: id(row, "user_id")?, project, kind, blob, ec2: None }))
    });
    let why = "EC2 keys, credentials of other types, and secrets that the API does not show are not imported: their user must create them again";
    asked.left.extend(
        others.iter().map(|row| Imported::left("credential", text(row, "id").unwrap_or_default(), why)),
    );
    Ok(())
}
