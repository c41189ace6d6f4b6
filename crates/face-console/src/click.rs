//! A request of a signed-in browser: the user, the page around the response, and the permits for actions.

use crate::page::{Frame, Notice, page};
use crate::section::Section;
use enfilade_admin::ChangeContext;
use enfilade_faces::browser::parameter;
use enfilade_faces::{Answer, Connection, Faces, Failure, RequestError, Trace, blocking_failure};
use enfilade_facts::vocabulary::{Privileges, RolePath, Userid};
use enfilade_passage::{AdminAsk, AdminPermit, Lending, Refusal, Visit};
use hyper::StatusCode;
use hyper::http::request::Parts;
use maud::Markup;

/// A request of a signed-in browser.
pub(crate) struct Click<'f> {
    pub(crate) faces: &'f Faces,
    pub(crate) connection: Connection,
    /// The user that door 2 admitted.
    pub(crate) visit: Visit,
    /// The head of the request.
    pub(crate) head: Parts,
    /// The fields of the query.
    pub(crate) query: Vec<(String, String)>,
    /// The fields of the form.
    pub(crate) form: Vec<(String, String)>,
    /// The token that every form must send back.
    pub(crate) csrf: String,
    /// The message that the page shows above its content.
    pub(crate) notice: Option<Notice>,
    pub(crate) trace: Trace,
}

/// The reason why an action failed.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// A door refused the action, or the request is invalid. The browser gets the page about the failure instead of the requested page.
    Failed(Failure),
    /// The user can correct the error. The page with the form shows this text above its content.
    Said(String),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Trouble::Failed(failure)
    }
}

impl From<RequestError> for Trouble {
    fn from(error: RequestError) -> Self {
        Trouble::Failed(error.into())
    }
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Trouble::Failed(refusal.into())
    }
}

impl From<enfilade_admin::Error> for Trouble {
    fn from(error: enfilade_admin::Error) -> Self {
        match error {
            enfilade_admin::Error::Source(why) => Trouble::Failed(why.into()),
            other => Trouble::Said(other.to_string()),
        }
    }
}

/// Makes a [`Trouble::Said`] with this text for the user.
pub(crate) fn said(text: impl std::fmt::Display) -> Trouble {
    Trouble::Said(text.to_string())
}

impl Click<'_> {
    /// Makes the next page show why an action failed. If a door refused the action, `says` returns a sentence about the refusal.
    pub(crate) fn failed(&mut self, trouble: Trouble, says: impl FnOnce(&Failure) -> String) {
        let why = match trouble {
            Trouble::Said(why) => why,
            Trouble::Failed(failure) => {
                self.trace.failed(&failure);
                says(&failure)
            }
        };
        self.notice = Some(Notice::Failed(why));
    }

    /// The text of a field of the form, without blanks at both ends.
    pub(crate) fn field(&self, name: &str) -> &str {
        parameter(&self.form, name).unwrap_or_default().trim()
    }

    /// A field of the form, parsed.
    pub(crate) fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
        &self,
        name: &str,
    ) -> Result<T, Trouble> {
        self.field(name).parse().map_err(said)
    }

    /// The text of a field of the query, without blanks at both ends.
    pub(crate) fn asked(&self, name: &str) -> &str {
        parameter(&self.query, name).unwrap_or_default().trim()
    }

    /// The name of the user.
    pub(crate) fn user(&self) -> Userid {
        self.visit.principal().authid.user.clone()
    }

    /// The present time, in seconds since the epoch.
    pub(crate) fn now(&self) -> i64 {
        self.faces.house().now().unix_seconds
    }

    /// Whether the user has these privileges on the path. The result decides only which parts of a page are shown.
    pub(crate) fn holds(&mut self, path: &str, needed: Privileges) -> bool {
        let Ok(path) = path.parse::<RolePath>() else { return false };
        self.visit.privileges(&path).is_ok_and(|(here, _)| here.covers(needed))
    }

    /// Asks door 4 for the permit to read or change records on a path.
    pub(crate) fn permit(
        &mut self,
        path: &str,
        needed: Privileges,
        lending: Lending,
        own: Option<&Userid>,
    ) -> Result<AdminPermit, Failure> {
        let path: RolePath = path.parse().map_err(|_| RequestError::NoRoute)?;
        Ok(self.visit.administer(&AdminAsk { path: &path, needed, lending, own })?)
    }

    /// Makes a change with a permit, on a thread that is allowed to block.
    pub(crate) async fn change<R: Send + 'static>(
        &self,
        permit: AdminPermit,
        change: impl FnOnce(&ChangeContext<'_>) -> Result<R, enfilade_admin::Error> + Send + 'static,
    ) -> Result<R, Trouble> {
        let (faces, id) = (self.faces.clone(), self.trace.event.id);
        let done = blocking_failure(self.visit.share(), move || {
            let who = permit.who().to_word();
            Ok(change(&faces.change_context(&who, permit.requester(), id)))
        });
        Ok(done.await??)
    }

    /// A page with this content.
    pub(crate) fn page(&mut self, section: Section, title: &str, content: &Markup) -> Answer {
        let status = match &self.notice {
            Some(Notice::Failed(_)) => StatusCode::UNPROCESSABLE_ENTITY,
            _ => StatusCode::OK,
        };
        self.page_with(status, section, title, content)
    }

    /// Does the same as [`Click::page`], but with this status.
    pub(crate) fn page_with(
        &mut self,
        status: StatusCode,
        section: Section,
        title: &str,
        content: &Markup,
    ) -> Answer {
        let mut sections = Vec::from(Section::ALL);
        sections.retain(|section| section.needs().is_none_or(|(path, needed)| self.holds(path, needed)));
        let user = self.user().to_string();
        let (csrf, notice) = (self.csrf.as_str(), self.notice.as_ref());
        page(status, &Frame { title, section, sections: &sections, user: &user, csrf, notice }, content)
    }
}
