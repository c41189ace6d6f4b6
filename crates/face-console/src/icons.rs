//! Icons, as SVG in the page. Icons are decoration: the text next to an icon has the same meaning, so screen readers skip icons.

use maud::{Markup, html};

/// An icon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Icon {
    Brand,
    Folder,
    File,
    Text,
    Archive,
    Store,
    User,
    Group,
    Role,
    Key,
    Session,
    Certificate,
    Refusal,
    Log,
    Health,
    Question,
    Search,
    Share,
    Upload,
    Download,
    Add,
    More,
    Leave,
    Trash,
    Right,
    Wrong,
}

impl Icon {
    /// The strokes of the icon as the data of an SVG path, in a square of 24 by 24 units.
    pub(crate) fn path(self) -> &'static str {
        match self {
            // The picture of an enfilade: doors in a row.
            Icon::Brand => "M3 21V3h18v18M7.5 21V7h9v14M11 21V11h2v10M2 21h20",
            Icon::Folder => {
                "M3 6.5A1.5 1.5 0 0 1 4.5 5h4l2.5 2.5h8.5A1.5 1.5 0 0 1 21 9v8.5a1.5 1.5 0 0 1-1.5 1.5h-15A1.5 1.5 0 0 1 3 17.5z"
            }
            Icon::File => "M6 3h8l5 5v13H6zM14 3v5h5",
            Icon::Text => "M6 3h8l5 5v13H6zM14 3v5h5M9 13h7M9 17h5",
            Icon::Archive => "M4 4h16v4H4zM5 8v12h14V8M10 12h4",
            Icon::Store => {
                "M4 6c0-1.7 3.6-3 8-3s8 1.3 8 3-3.6 3-8 3-8-1.3-8-3zM4 6v12c0 1.7 3.6 3 8 3s8-1.3 8-3V6M4 12c0 1.7 3.6 3 8 3s8-1.3 8-3"
            }
            Icon::User => "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4 20.5c.7-3.6 4-5.5 8-5.5s7.3 1.9 8 5.5",
            Icon::Group => {
                "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM2.5 19.5c.5-3 3.2-4.5 6.5-4.5s6 1.5 6.5 4.5M16 4.3a3.5 3.5 0 0 1 0 6.4M18 15.3c2 .6 3.2 2 3.5 4.2"
            }
            Icon::Role => "M12 3l8 3v6c0 4.5-3.2 7.7-8 9-4.8-1.3-8-4.5-8-9V6zM9 12l2.2 2.2L15.5 10",
            Icon::Key => "M8 16a4.5 4.5 0 1 1 4.2-6H21v4h-3v2.5h-3V14h-2.8A4.5 4.5 0 0 1 8 16zM8 11.5h.01",
            Icon::Session => "M3 5h18v11H3zM8 20h8M12 16v4",
            Icon::Certificate => "M12 14.5a5 5 0 1 0 0-10 5 5 0 0 0 0 10zM8.5 13.5L7 21l5-2.5L17 21l-1.5-7.5",
            Icon::Refusal => "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM6 6l12 12",
            Icon::Log => "M8 6h13M8 12h13M8 18h13M3.5 6h.01M3.5 12h.01M3.5 18h.01",
            Icon::Health => "M3 12h4l2.5-6 4.5 12 2.5-6H21",
            Icon::Question => {
                "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM9.3 9.5a2.8 2.8 0 0 1 5.4.8c0 1.8-2.7 2.2-2.7 4M12 17.3h.01"
            }
            Icon::Search => "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM20 20l-4-4",
            Icon::Share => {
                "M10 14a4 4 0 0 0 5.7 0l3.1-3.1a4 4 0 1 0-5.7-5.7L12 6.3M14 10a4 4 0 0 0-5.7 0l-3.1 3.1a4 4 0 1 0 5.7 5.7l1.1-1.1"
            }
            Icon::Upload => "M12 16V4M7 9l5-5 5 5M4 20h16",
            Icon::Download => "M12 4v12M7 11l5 5 5-5M4 20h16",
            Icon::Add => "M12 5v14M5 12h14",
            Icon::More => "M4.5 12h1M11.5 12h1M18.5 12h1",
            Icon::Leave => "M14 4h5v16h-5M10 8l-4 4 4 4M6 12h9",
            Icon::Trash => "M4 7h16M9 7V4h6v3M6 7l1 14h10l1-14M10 11v6M14 11v6",
            Icon::Right => "M5 12.5l4.5 4.5L19 7.5",
            Icon::Wrong => "M6 6l12 12M18 6L6 18",
        }
    }

    pub(crate) fn show(self) -> Markup {
        html! { svg.icon viewBox="0 0 24 24" aria-hidden="true" { path d=(self.path()) {} } }
    }
}
