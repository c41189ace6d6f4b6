//! This crate has a function for every change of facts that a request, a command or the server makes. The faces, the command line and the server call
//! these functions. Outside of this crate, facts are written only by the mirror of edited files, by restores and upgrades, and by the replication of
//! a fleet.
//!
//! A change, with its expectations, is built on a view. The change is committed as a whole or not at all. If another change was committed first, the
//! change is built again. Most functions that change facts return the first revision at which the change is in effect.

mod change_context;
mod comment;
mod write_through;
mod access;
mod activities;
mod administrators;
mod applications;
mod browser_sessions;
mod withdraw;
mod tree_acls;
mod object_acl;
mod bootstrap;
mod certificates;
mod chosen;
mod datastores;
mod error;
mod example;
mod files;
mod foreign_sids;
mod groups;
mod import;
mod key_watch;
mod keys;
pub mod keystone;
mod known_keys;
mod limit_model;
mod links;
mod locks;
mod password_regex;
mod passwords;
mod resolve;
mod roles;
mod second_factors;
mod tokens;
mod users;

pub use access::{
    HeldRole, UserAccess, Way, WayKind, contents_of_domain, name_of_user, user_access, users_in_group,
    ways_for, ways_of,
};
pub use activities::{lock_user, note_logins, settle_activities};
pub use administrators::{Administers, Administrator, administrators, has_administrator, why_no_login};
pub use applications::{
    create_application, edit_application, list_applications, refuse_host_of_sign_in, remove_application,
    show_application,
};
pub use bootstrap::{ensure_local_realm, is_empty, is_set_up};
pub use browser_sessions::{
    BrowserAt, NewBrowserSession, SignInSummary, application_of, end_sign_in, exchange_code, issue_code,
    sign_ins_of, sign_out, store_sign_in, user_of_code,
};
pub use certificates::{
    BadCertificate, CertificateFiles, CertificatePlace, CertificateTerms, Examined, IndexUse, LeafIndex,
    LinePolicy, Looked, Verified,
};
pub use change_context::ChangeContext;
pub use datastores::{
    DatastoreDetails, DatastoreEdit, DatastoreSummary, DatastoreWarning, Exposed, check_home,
    datastore_warnings, edit_datastore, edit_profile, exposed, list_datastores, roots, roots_in_file,
    show_datastore, take_over, writable_chunk_stores,
};
pub use enfilade_content::{Reserved, ReservedPaths, real_path};
pub use enfilade_sources::files::fernet_keys::{FernetKeys, KeyList, Rotation};
pub use enfilade_sources::files::file_set::FileSet;
pub use error::Error;
pub use example::{example_datastores, example_logins, example_user};
pub use files::{FileSummary, list_files};
pub use foreign_sids::{map_sid, mapped_sids, unmap_sid};
pub use groups::{
    GroupSummary, add_group, add_member, list_groups, remove_group, remove_member, remove_members,
};
pub use import::{
    Imported, ProxmoxFiles, ProxmoxTerms, import_proxmox, imported_names, roles_without_effect,
};
pub use key_watch::{KeyLook, KeyNews, KeyWatch};
pub use keys::{
    KeySummary, KeyTerms, KeyUse, check_keys, init_first_keys, init_keys, install_keys, is_rotation_due,
    list_keys, new_keys, prune_keys, pruned_keys, rotate_due_keys, rotate_keys, rotated_keys,
};
pub use known_keys::{TokenKey, has_issued_sessions, judge_token_key, record_token_key, remove_lost_hashes};
pub use limit_model::LimitModel;
pub use links::{
    LinkSummary, MadeLink, NewLink, count_link_use, create_link, end_link, has_limited_uses, list_links,
};
pub use locks::{EndedLock, end_locks_of, unlock};
pub use object_acl::{AclLines, NewAcl, get_acl, open_to_roles, set_acl};
pub use password_regex::PasswordRegex;
pub use passwords::{ChosenBy, PASSWORDS_KEPT_MAX, PasswordRules};
pub use resolve::{Names, Target, list_realms};
pub use roles::{AssignmentSummary, assign_role, check_target, list_roles, remove_role, roles_of_nobody};
pub use second_factors::{
    SecondFactorState, add_passkey, begin_second_factor, check_pending_second_factor, confirm_second_factor,
    remove_passkey, remove_second_factor, renew_recovery_codes, reset_second_factor, second_factor_named,
    second_factor_of,
};
pub use tokens::{
    Marked, NewToken, TokenEdit, TokenSummary, TokenTerms, create_certificate_token, create_token,
    delete_token, list_bad_hashes, list_tokens, mark_for_upgrade, regenerate_token, set_token, upgrade_token,
};
pub use tree_acls::{Propagated, count_beneath, count_entries, propagate_acl, restore_acl, save_acls};
pub use users::{
    NewUser, UserAttributes, UserEdit, UserSave, UserSummary, add_user, create_user, delete_user, list_users,
    remove_user, save_user, set_password, set_user, user_attributes,
};
pub use withdraw::{withdraw, withdraw_for, withdraw_from};
