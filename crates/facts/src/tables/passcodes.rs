//! Passcodes that were used. The passcode of a time step is accepted only once.

use super::{BlobId, Row, Table};
use crate::codec::{Reader, Writer};
use serde::{Deserialize, Serialize};

/// The last time step with a used passcode, for one credential of type `totp`. This is a separate record, because a login must not change the record
/// of the credential. The record is deleted when the credential is deleted or gets another secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedPasscode {
    /// The time step: the seconds since the epoch, divided by the seconds of a step. Passcodes of this step and of earlier steps are refused.
    pub step: u64,
}

impl Row for UsedPasscode {
    const TABLE: Table = Table::UsedPasscodes;
    type Key = BlobId;

    fn encode(&self, to: &mut Writer) {
        to.u64(self.step);
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(UsedPasscode { step: from.u64()? })
    }
}
