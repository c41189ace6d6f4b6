//! Sends a file. A user who may write a file must not be able to run a script in the origin of the console. So the response tells the browser to
//! download the file, and its content security policy contains `sandbox`. Exception: pages show pictures of known kinds.

use crate::click::Click;
use crate::failure;
use crate::page::guarded;
use crate::place::Place;
use bytes::Bytes;
use enfilade_faces::pieces::{Buffers, PIECE_BYTES, place_for, read_piece};
use enfilade_faces::{
    Answer, Body, Connection, Cut, Failure, RequestError, Trace, blocking_failure, counted,
};
use enfilade_facts::vocabulary::OperationKind;
use enfilade_passage::{Blocking, Reading, Visit};
use hyper::Response;
use hyper::header::{
    CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue,
};
use std::fmt::Write as _;
use std::ops::Range;
use tokio::sync::mpsc;

/// The policy of a document that is not a page of the console. The document cannot run a script, cannot load other content, and cannot be in a frame.
const SANDBOX: HeaderValue =
    HeaderValue::from_static("sandbox; default-src 'none'; base-uri 'none'; frame-ancestors 'none'");

/// The kinds of pictures that cannot contain a script. SVG is not in the list, because an SVG picture can contain a script.
const PICTURES: [(&str, &str); 6] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
];

/// The media type of a picture, by the extension of its name; `None` for any other file.
pub(crate) fn picture(name: &str) -> Option<&'static str> {
    let (_, ending) = name.rsplit_once('.')?;
    PICTURES.iter().find(|(known, _)| known.eq_ignore_ascii_case(ending)).map(|(_, kind)| *kind)
}

/// The response with this body, which is the content of a file or folder. Sets the headers that describe the content.
pub(crate) fn head(kind: &'static str, disposition: &str, name: &str, body: Body) -> Answer {
    let mut answer = Response::new(body);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_SECURITY_POLICY, SANDBOX);
    // RFC 6266 §4.3: the name in UTF-8. ASCII letters, digits and three marks are written as they are. All other bytes are encoded.
    let mut value = format!("{disposition}; filename*=UTF-8''");
    for byte in name.bytes() {
        match byte {
            plain if plain.is_ascii_alphanumeric() || b"-._".contains(&plain) => {
                value.push(char::from(plain))
            }
            other => {
                let _ = write!(value, "%{other:02X}");
            }
        }
    }
    if let Ok(value) = HeaderValue::from_str(&value) {
        headers.insert(CONTENT_DISPOSITION, value);
    }
    guarded(answer)
}

/// Sends a file. If the query has the field `show` and the file is a picture, the browser shows the picture. Otherwise the browser downloads the
/// file.
pub(crate) async fn send(click: Click<'_>, place: Place) -> Answer {
    let mut click = click;
    click.trace.event.datastore = place.datastore.to_string();
    if place.is_folder {
        return failure::page(click, RequestError::NoRoute.into());
    }
    let reading = match open(&click.visit, &place).await {
        Ok(reading) => reading,
        Err(failure) => return failure::page(click, failure),
    };
    let shown = picture(place.name()).filter(|_| click.query.iter().any(|(name, _)| name == "show"));
    let Click { trace, connection, .. } = click;
    match shown {
        Some(kind) => stream(reading, (kind, "inline"), place.name(), (connection, trace)),
        None => stream(reading, DOWNLOAD, place.name(), (connection, trace)),
    }
}

/// The media type and the disposition of a file that the browser downloads.
pub(crate) const DOWNLOAD: (&str, &str) = ("application/octet-stream", "attachment");

/// Opens a file to read it.
///
/// # Errors
/// The refusal of a door.
pub(crate) async fn open(visit: &Visit, place: &Place) -> Result<Reading, Failure> {
    let (visit, at) = (visit.clone(), place.clone());
    blocking_failure(visit.share(), move || {
        Ok(visit.enter(&at.datastore, OperationKind::Read, Blocking)?.read(&at.path, Blocking)?)
    })
    .await
}

/// The response with the content of an open file.
pub(crate) fn stream(
    reading: Reading,
    (kind, disposition): (&'static str, &str),
    name: &str,
    (connection, mut trace): (Connection, Trace),
) -> Answer {
    let range = 0..reading.meta().bytes;
    let (sender, pieces) = mpsc::channel(1);
    let mut answer = head(kind, disposition, name, Body::stream(pieces));
    answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(range.end));
    trace.event.revision = reading.revision();
    trace.answered(&answer);
    tokio::spawn(async move {
        let sending = Sending { sender: &sender, connection: &connection, trace: &mut trace };
        sending.send(reading, range, |_| {}).await
    });
    answer
}

/// A response that is being sent.
pub(super) struct Sending<'s> {
    pub(super) sender: &'s mpsc::Sender<Result<Bytes, Cut>>,
    pub(super) connection: &'s Connection,
    pub(super) trace: &'s mut Trace,
}

impl Sending<'_> {
    /// Sends a part of a file. Before every piece, and every second while the client is slow, the server checks that the user may still read the
    /// file. This function calls `see` with every piece. Returns `None` if the response was cut short.
    pub(super) async fn send(
        self,
        mut reading: Reading,
        mut range: Range<u64>,
        mut see: impl FnMut(&[u8]),
    ) -> Option<()> {
        let mut buffers = Buffers::new();
        while !range.is_empty() {
            let place = place_for(
                reading,
                self.sender,
                self.connection,
                self.trace,
                u32::try_from(PIECE_BYTES).unwrap_or(u32::MAX),
                Some(&mut buffers),
            );
            let (back, place, held) = place.await?;
            let piece = match read_piece(back, range.start, buffers.take()).await {
                Ok((back, mut bytes)) => {
                    reading = back;
                    bytes.truncate(usize::try_from(range.end - range.start).unwrap_or(usize::MAX));
                    see(&bytes);
                    counted(buffers.lend(bytes), held)
                }
                Err(failure) => {
                    self.trace.failed(&failure);
                    place.send(Err(Cut));
                    return None;
                }
            };
            if piece.is_empty() {
                // The file became shorter than the length that the response announced.
                place.send(Err(Cut));
                return None;
            }
            range.start += piece.len() as u64;
            self.trace.event.bytes += piece.len() as u64;
            place.send(Ok(piece));
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pictures_without_scripts_are_shown() {
        for (name, kind) in [
            ("a.png", Some("image/png")),
            ("A.JPG", Some("image/jpeg")),
            ("a.svg", None),
            ("a.html", None),
            ("a.png.html", None),
            ("png", None),
            ("a.", None),
        ] {
            assert_eq!(picture(name), kind, "{name}");
        }
    }

    #[test]
    fn a_name_cannot_end_its_header() {
        let answer = head("text/plain", "attachment", "a\"; b\r\nX: ü/ %", Body::empty());
        let value = answer.headers().get(CONTENT_DISPOSITION).unwrap().to_str().unwrap();
        assert_eq!(value, "attachment; filename*=UTF-8''a%22%3B%20b%0D%0AX%3A%20%C3%BC%2F%20%25");
    }
}
