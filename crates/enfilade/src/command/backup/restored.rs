//! The result of `enfilade restore`, and the texts that the command prints about the restore and the backup.

use crate::command::facts::{see_log, valid_again};
use crate::config::Config;
use crate::output;
use enfilade_sources::backup::Manifest;
use serde_json::json;
use std::path::{Path, PathBuf};

/// A restore that was completed.
pub(super) struct Restored {
    pub(super) manifest: Manifest,
    pub(super) config: Config,
    pub(super) aside: Option<PathBuf>,
    /// The directories that earlier restores moved aside after the backup was made.
    pub(super) earlier: Vec<PathBuf>,
    /// The directory of datastores in the data directory, if its content was kept.
    pub(super) kept: Option<PathBuf>,
    pub(super) steps: Vec<String>,
}

pub(super) fn about(manifest: &Manifest) -> String {
    let Manifest { records, revision, unix_seconds, data, files, .. } = manifest;
    format!(
        "backup of `{}`, made at {}: {records} records as of revision {revision}, and {} other files",
        data.display(),
        output::time(*unix_seconds),
        files.len().saturating_sub(1)
    )
}

pub(super) fn described(manifest: &Manifest) -> serde_json::Value {
    let Manifest { enfilade_backup, program, unix_seconds, data, store, revision, records, files, .. } =
        manifest;
    json!({
        "format": enfilade_backup, "program": program, "unix_seconds": unix_seconds, "of": data, "of_store": store,
        "of_revision": revision, "records": records, "files": files.len(),
    })
}

pub(super) fn tell(data: &Path, restored: &Restored, json: bool) {
    let Restored { manifest, config, aside, earlier, kept, steps } = restored;
    let mut value = described(manifest);
    if let Some(value) = value.as_object_mut() {
        value.insert("data".into(), json!(data));
        // Credentials that were revoked after this second are valid again.
        value.insert("revocations_until".into(), json!(manifest.unix_seconds));
        value.insert("set_aside".into(), json!(aside));
        value.insert("set_aside_earlier".into(), json!(earlier));
        value.insert("kept".into(), json!(kept));
        value.insert("next".into(), json!(steps));
    }
    let mut lines = vec![about(manifest), format!("restored to `{}`", data.display())];
    lines.push(format!(
        "{}. Make these changes again before you start a server",
        valid_again(manifest.unix_seconds)
    ));
    let log = |aside: &Path| format!("enfilade --data '{}' facts log --last 1000", aside.display());
    lines.extend(aside.iter().map(|aside| {
        format!(
            "the old data directory was renamed to `{}`; to list its last changes: {}",
            aside.display(),
            log(aside)
        )
    }));
    lines.extend(earlier.iter().map(|earlier| {
        format!(
            "an earlier restore renamed a data directory to `{}` after the backup was made; to list the last changes in that directory: {}",
            earlier.display(),
            log(earlier)
        )
    }));
    let has_aside = aside.is_some() || !earlier.is_empty();
    lines.extend(has_aside.then(|| see_log(manifest.revision)));
    lines.extend(
        kept.iter()
            .map(|kept| format!("the content of datastores was kept: it is still in `{}`", kept.display())),
    );
    lines.push("next:".into());
    lines.extend(steps.iter().map(|step| format!("  - {step}")));
    lines.push(format!("  - check: enfilade --data '{}' doctor", data.display()));
    lines.push(format!(
        "  - start: enfilade --data '{}' serve   (listens on {}, as `[tls] listen` says)",
        data.display(),
        config.tls.listen
    ));
    output::done(json, &value, &lines.join("\n"));
}
