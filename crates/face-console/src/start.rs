//! The first page: the datastores in which the user has a role.

use crate::click::Click;
use crate::icons::Icon;
use crate::page::{bytes, command, empty};
use crate::section::Section;
use enfilade_faces::browser::url;
use enfilade_faces::{Answer, Failure, blocking};
use enfilade_facts::vocabulary::{DatastoreName, OperationKind, shell_word};
use enfilade_passage::{Blocking, Visit};
use maud::{Markup, html};

/// The maximum number of datastores on a page. The number is small, because the server asks the file system of each datastore.
const TILES: usize = 60;

/// A datastore on the first page.
struct Tile {
    name: DatastoreName,
    /// The free and the used bytes, if the user may read the datastore now.
    quota: Option<(u64, u64)>,
    /// The member of the fleet that serves the datastore; `None` if this machine serves the datastore.
    elsewhere: Option<String>,
}

impl Tile {
    fn of(visit: &mut Visit, name: DatastoreName) -> Self {
        let elsewhere = visit.home_elsewhere(&name);
        let stay = visit.clone().enter(&name, OperationKind::Read, Blocking);
        let quota = stay.ok().and_then(|stay| stay.quota().ok());
        Tile { name, quota, elsewhere }
    }

    fn show(&self) -> Markup {
        html! {
            li {
                a.card.tile href={ "/console/files/" (self.name) "/" } {
                    span.top { (Icon::Store.show()) (self.name) }
                    @match (&self.elsewhere, self.quota) {
                        (Some(member), _) => span.weak { "Served by " (member) },
                        (None, Some((free, used))) => {
                            meter min="0" max="100" value=(per_cent(free, used)) aria-label="Used space" {}
                            span.weak.small { (bytes(used)) " used, " (bytes(free)) " free" }
                        },
                        (None, None) => span { span.badge.warn { "not available now" } },
                    }
                }
            }
        }
    }
}

fn per_cent(free: u64, used: u64) -> u64 {
    let all = u128::from(free) + u128::from(used);
    u64::try_from(u128::from(used) * 100 / all.max(1)).unwrap_or(100)
}

pub(crate) async fn show(click: &mut Click<'_>) -> Result<Answer, Failure> {
    let mut visit = click.visit.clone();
    let after = click.asked("after").to_owned();
    let found = blocking(click.visit.share(), move || {
        let mut names = visit.clone().stores()?;
        names.retain(|name| name.as_str() > after.as_str());
        let next = names.get(TILES - 1).filter(|_| names.len() > TILES).cloned();
        names.truncate(TILES);
        Ok((names.into_iter().map(|name| Tile::of(&mut visit, name)).collect::<Vec<_>>(), next))
    });
    let (tiles, next) = found.await?;
    let content = html! {
        div.head { div { h1 { "Files" } p { "The datastores in which you have a role." } } }
        @if tiles.is_empty() {
            div.card {
                (empty(Icon::Store, "No datastore yet", &html! {
                    "You have no role in any datastore. Ask an administrator of this server for one."
                }))
            }
        } @else {
            ul.cards { @for tile in &tiles { (tile.show()) } }
        }
        @if let Some(next) = next {
            nav.pages aria-label="Pages" { span {} a rel="next" href=(url("", &[("after", next.as_str())])) { "Next page" } }
        }
        (command(&[format!("curl --user {} https://HOST/dav/", shell_word(&format!("{}!TOKEN", click.user())))]))
    };
    Ok(click.page(Section::Files, "Files", &content))
}
