//! Checks the descriptions and tags of the records that an import reads from a Keystone server. A text that the Identity API would refuse is left
//! out, and the record is imported without it.

use super::{CloudRecord, FederationRecord, ServiceRecord};
use crate::comment::check_comment;
use crate::keystone::projects::check_tags;

/// Removes the texts that the Identity API would refuse. Returns the note about the removed texts for the report.
pub(super) fn without_refused_texts(thing: &mut CloudRecord) -> Option<String> {
    let mut lost = Vec::new();
    if let Some(description) = description_of(thing)
        && let Err(why) = check_comment(description.as_deref())
    {
        *description = None;
        lost.push(format!("without its description: {why}"));
    }
    if let CloudRecord::Project(_, project) = thing
        && let Err(why) = check_tags(&project.tags)
    {
        project.tags.clear();
        lost.push(format!("without its tags: {why}"));
    }
    (!lost.is_empty()).then(|| lost.join("; "))
}

/// The description of a record, if it can have one.
fn description_of(thing: &mut CloudRecord) -> Option<&mut Option<String>> {
    Some(match thing {
        CloudRecord::Domain(_, row) => &mut row.description,
        CloudRecord::Role(_, row) => &mut row.description,
        CloudRecord::Project(_, row) => &mut row.description,
        CloudRecord::User(_, row) => &mut row.comment,
        CloudRecord::Group(.., description) => description,
        CloudRecord::Region(_, row) => &mut row.description,
        CloudRecord::Service(_, row) => &mut row.description,
        CloudRecord::Credential(_, row) => &mut row.comment,
        CloudRecord::Consumer(_, row) => &mut row.description,
        CloudRecord::ForServices(record) => match record {
            ServiceRecord::RegisteredLimit(_, row) => &mut row.description,
            ServiceRecord::Limit(_, row) => &mut row.description,
            ServiceRecord::EndpointGroup(_, row) => &mut row.description,
            ServiceRecord::Policy(..) | ServiceRecord::Association(..) | ServiceRecord::EndpointFilter(_) => {
                return None;
            }
        },
        CloudRecord::Federation(record) => match record {
            FederationRecord::IdentityProvider(_, row) => &mut row.description,
            FederationRecord::ServiceProvider(_, row) => &mut row.description,
            FederationRecord::Mapping(..) | FederationRecord::Protocol(..) => return None,
        },
        CloudRecord::Immutable(_)
        | CloudRecord::Member(_)
        | CloudRecord::Grant(_)
        | CloudRecord::Endpoint(..)
        | CloudRecord::Blob(..)
        | CloudRecord::Trust(..)
        | CloudRecord::AccessToken(..)
        | CloudRecord::Configuration(..) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use enfilade_facts::limits::COMMENT_BYTES_MAX;
    use enfilade_facts::tables::Region;
    use enfilade_facts::tables::RegionId;

    #[test]
    fn a_record_comes_without_a_description_that_a_request_could_not_set() {
        for (description, is_kept) in [
            ("one line".to_owned(), true),
            ("x".repeat(COMMENT_BYTES_MAX), true),
            ("x".repeat(COMMENT_BYTES_MAX + 1), false),
            ("two\nlines".to_owned(), false),
        ] {
            let row = Region { description: Some(description), parent: None };
            let mut thing = CloudRecord::Region(RegionId("a".to_owned()), row);
            let lost = without_refused_texts(&mut thing);
            let CloudRecord::Region(_, row) = thing else { panic!() };
            assert_eq!((lost.is_none(), row.description.is_some()), (is_kept, is_kept));
        }
    }
}
