//! Prints the facts about a session on which the server and the model disagree.

use super::World;
use super::model::Token;
use enfilade_admin::keystone as admin;
use enfilade_facts::Read;
use enfilade_facts::tables::{Key, LogEntry, Revocation, Revoked, Table, Written};
use std::fmt::Write as _;

impl World {
    /// The refusal, the clock, and each mark that covers the second in which the token was issued, with the changes that wrote the mark. Marks of
    /// other tokens and chains are left out.
    pub(crate) fn reasons(&self, token: &Token) -> String {
        let mut told = format!("clock: {} s, right time: {} s\n", self.now(), self.now() - self.wall);
        let refusal = self.ask(token).err().map(|refusal| refusal.to_string());
        let _ = writeln!(told, "refusal: {refusal:?}");
        for of_time in [Revoked::Horizon, Revoked::Passed] {
            let row = self.house.facts().read(|view| view.get::<Revocation>(&of_time)).unwrap().unwrap();
            let _ = writeln!(told, "{of_time:?}: {row:?}");
        }
        let is_of_another = |mark: &Revoked| matches!(mark, Revoked::Token(id) | Revoked::Chain(id) if ![token.own, token.chain].contains(id));
        let log = self.house.facts().read(|view| view.list::<LogEntry>(&[])).unwrap().unwrap();
        for row in admin::list_revocations(self.house.facts()).unwrap() {
            if row.revocation.issued_before < token.issued.second || is_of_another(&row.mark) {
                continue;
            }
            let _ = writeln!(told, "{:?}: {:?}", row.mark, row.revocation);
            let wrote =
                |(table, key): &(Table, Vec<u8>)| *table == Table::Revocations && *key == row.mark.bytes();
            for (revision, entry) in &log {
                if matches!(&entry.written, Written::Here(keys) if keys.iter().any(wrote)) {
                    let _ = writeln!(told, "    {revision} at {}: {}", entry.unix_seconds, entry.what);
                }
            }
        }
        let events: Vec<_> = self.events.iter().filter(|event| !is_of_another(&event.mark)).collect();
        let _ = writeln!(
            told,
            "users {:?}\nevents of the model: {events:#?}\ntaken: {:#?}",
            self.users, self.taken
        );
        told
    }
}
