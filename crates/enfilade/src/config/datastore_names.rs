//! A list of datastores in the configuration.

use super::values::{Spelled, Value, no_list};
use enfilade_facts::vocabulary::DatastoreName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Datastores, as a list, or in one string, separated by commas or spaces.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "Spelled<String>", into = "Vec<String>")]
pub(crate) struct DatastoreNames(pub(crate) BTreeSet<DatastoreName>);

impl TryFrom<Spelled<String>> for DatastoreNames {
    type Error = String;
    fn try_from(spelled: Spelled<String>) -> Result<Self, String> {
        let names: Vec<String> = match spelled {
            Spelled::Text(text) => {
                text.split([',', ' ']).filter(|part| !part.is_empty()).map(str::to_owned).collect()
            }
            Spelled::List(names) => names,
            Spelled::Other(value) => return Err(no_list(&value, "a list of datastores, such as [\"main\"]")),
        };
        let parsed = names.iter().map(|name| {
            let why = |why| format!("`{name}` is not the name of a datastore: {why}");
            name.parse::<DatastoreName>().map_err(why)
        });
        parsed.collect::<Result<_, _>>().map(DatastoreNames)
    }
}

impl From<DatastoreNames> for Vec<String> {
    fn from(DatastoreNames(names): DatastoreNames) -> Self {
        names.into_iter().map(|name| name.to_string()).collect()
    }
}

impl Value for DatastoreNames {
    fn expected() -> String {
        "list of datastores, such as `[\"main\"]`".to_owned()
    }

    fn sample() -> &'static str {
        r#"["main"]"#
    }
}
