//! The files of a user.
//!
//! - `folder.rs` makes the page of a folder, and `file.rs` the page of a file. `change.rs` does the actions of the forms on both pages.
//! - `content.rs` sends a file, and `zip.rs` sends a folder. `upload.rs` receives a file.
//! - `search.rs` finds files by name. `search.rs` and `zip.rs` visit folders with `walk.rs`.

pub(crate) mod change;
pub(crate) mod content;
pub(crate) mod file;
pub(crate) mod folder;
pub(crate) mod search;
pub(crate) mod upload;
pub(crate) mod zip;
pub(crate) mod row;
mod walk;
mod zip_format;

use crate::click::Click;
use crate::place::Place;
use enfilade_faces::{Answer, Failure};
use maud::{Markup, html};

/// The page of a file or folder.
pub(crate) async fn show(click: &mut Click<'_>, place: Place) -> Result<Answer, Failure> {
    click.trace.event.datastore = place.datastore.to_string();
    if let Some(notice) = crate::trash::moved(click, &place.datastore) {
        click.notice = Some(notice);
    }
    match place.is_folder {
        true => folder::show(click, place).await,
        false => file::show(click, place).await,
    }
}

/// The folders above a place. Each folder is a link.
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
