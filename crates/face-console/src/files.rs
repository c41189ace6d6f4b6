//! The files of a user.
//!
//! - `folder.rs` is the page of a folder, `file.rs` that of a file; `change.rs` is what their forms do.
//! - `content.rs` sends a file, `zip.rs` a folder; `upload.rs` receives a file.
//! - `search.rs` finds files by name. It and `zip.rs` go through folders with `walk.rs`.

pub(crate) mod change;
pub(crate) mod content;
pub(crate) mod file;
pub(crate) mod folder;
pub(crate) mod search;
pub(crate) mod upload;
pub(crate) mod zip;
mod row;
mod walk;
mod zip_format;

use crate::click::Click;
use crate::place::Place;
use enfilade_faces::{Answer, Failure};
use maud::{Markup, html};

/// The page of a file or folder.
pub(crate) async fn show(click: &mut Click<'_>, place: Place) -> Result<Answer, Failure> {
    click.trace.event.datastore = place.datastore.to_string();
    match place.is_folder {
        true => folder::show(click, place).await,
        false => file::show(click, place).await,
    }
}

/// The folders above a place, each a link.
pub(crate) fn crumbs(place: &Place) -> Markup {
    let mut above = vec![place.clone()];
    while let Some(parent) = above.last().and_then(Place::parent) {
        above.push(parent);
    }
    above.reverse();
    html! {
        nav aria-label="Folders" {
            ol.crumbs {
                li { a href="/console/" { "Files" } }
                @for one in &above {
                    @if one == place {
                        li aria-current="page" { (one.name()) }
                    } @else {
                        li { a href=(one.url("files")) { (one.name()) } }
                    }
                }
            }
        }
    }
}
