//! Receives a file for a drop box. A guest never replaces a file. If the name is taken, the file gets another name, and the response does not show
//! this. So a guest does not learn which names are taken.

use super::{Guest, count_use, page};
use enfilade_faces::{Answer, Arriving, Body, Failure, Received, RequestError, blocking, blocking_failure};
use enfilade_facts::limits::NAME_BYTES_MAX;
use enfilade_facts::vocabulary::{DatastoreName, OperationKind, StorePath};
use enfilade_passage::{Blocking, Refusal, Uploading, Visit};
use hyper::body::Body as _;
use hyper::{Response, StatusCode};

/// The size of the write buffer, in bytes.
const PIECE_BYTES: usize = 256 * 1024;

pub(super) async fn put(mut guest: Guest<'_>, body: Received) -> Answer {
    match store(&mut guest, body).await {
        Ok(()) => {
            let mut answer = Response::new(Body::empty());
            *answer.status_mut() = StatusCode::CREATED;
            page::answered(page::guarded(answer), guest.trace)
        }
        Err(failure) => page::plain(&failure, guest.trace),
    }
}

async fn store(guest: &mut Guest<'_>, body: Received) -> Result<(), Failure> {
    let folder = guest.link.path.clone();
    let is_in_folder = guest.place.path.split().is_some_and(|(parent, _)| parent == folder);
    if guest.place.is_folder || !is_in_folder {
        return Err(RequestError::NoRoute.into());
    }
    let expected = body.size_hint().exact();
    let (visit, name) = (guest.visit.clone(), guest.place.name().to_owned());
    let names = [name.clone(), other_name(&name, &guest.trace.event.id.to_string())];
    let mut arriving = Arriving::new(body, &visit.limits());
    let datastore = guest.link.datastore.clone();
    let mut uploading = blocking_failure(visit.share(), move || {
        let begin = |visit: Visit, name: &str| -> Result<Uploading, Failure> {
            let path = folder.join(name).map_err(RequestError::Path)?;
            begun(visit, &datastore, path, expected)
        };
        let [first, second] = &names;
        begin(visit.clone(), first).or_else(|_| begin(visit, second))
    })
    .await?;
    let mut gathered = Vec::new();
    while let Some(data) = arriving.next(&mut guest.trace).await? {
        gathered.extend_from_slice(&data);
        if gathered.len() >= PIECE_BYTES {
            let piece = std::mem::take(&mut gathered);
            uploading = blocking(uploading.share(), move || written(uploading, &piece)).await?;
        }
    }
    uploading = blocking(uploading.share(), move || written(uploading, &gathered)).await?;
    count_use(guest).await?;
    blocking(uploading.share(), move || uploading.finish()).await?;
    Ok(())
}

/// Begins an upload. If the name is taken, returns an error.
fn begun(
    visit: Visit,
    datastore: &DatastoreName,
    path: StorePath,
    expected: Option<u64>,
) -> Result<Uploading, Failure> {
    let stay = visit.enter(datastore, OperationKind::Write, Blocking)?;
    let mut begun = stay.upload(path, expected)?;
    if begun.existing().is_some() {
        return Err(RequestError::Condition.into());
    }
    begun.unless_locked(Vec::new())?;
    Ok(begun)
}

/// Another name for a file: the last characters of the id of the request are inserted before the extension. A long name is shortened, so that the new
/// name is not too long.
fn other_name(name: &str, id: &str) -> String {
    let mark = id.rsplit('-').next().unwrap_or_default();
    let (stem, ending) = match name.rfind('.').filter(|dot| *dot > 0) {
        Some(dot) => name.split_at(dot),
        None => (name, ""),
    };
    let most = NAME_BYTES_MAX.saturating_sub(mark.len() + 1);
    let stem = stem.get(..stem.floor_char_boundary(most.saturating_sub(ending.len()))).unwrap_or_default();
    let ending = ending.get(..ending.floor_char_boundary(most)).unwrap_or_default();
    format!("{stem}-{mark}{ending}")
}

fn written(mut uploading: Uploading, piece: &[u8]) -> Result<Uploading, Refusal> {
    uploading.write(piece)?;
    Ok(uploading)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_name_keeps_the_extension() {
        for (name, other) in
            [("a.txt", "a-0f.txt"), ("a", "a-0f"), (".env", ".env-0f"), ("a.tar.gz", "a.tar-0f.gz")]
        {
            assert_eq!(other_name(name, "req-1-2-0f"), other);
        }
        for name in ["é".repeat(127), format!("{}.txt", "é".repeat(125)), format!("a.{}", "é".repeat(126))]
        {
            let other = other_name(&name, "req-1-2-0123456789ab");
            assert!(other.len() <= NAME_BYTES_MAX && other.contains("-0123456789ab"), "{other}");
        }
    }
}
