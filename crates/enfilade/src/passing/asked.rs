//! The body of a request that is passed on. A client that sent `Expect: 100-continue` waits until the server asks for the body. The HTTP library asks
//! for the body when the body is read for the first time. So this server reads the body only after the other member has asked for it. Then a client
//! does not send an upload that the other member refuses.

use bytes::Bytes;
use enfilade_faces::{BoxError, Received};
use hyper::body::{Body, Frame, SizeHint};
use hyper::ext::on_informational;
use hyper::header::EXPECT;
use hyper::{Request, StatusCode};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The body of a request that is passed on.
pub(super) enum AskedBody {
    /// The body may be read.
    Open(Received),
    /// The body may be read after the other member has asked for it.
    Held(Held, SizeHint),
}

/// A body that the other member has not asked for yet.
#[derive(Clone, Default)]
pub(super) struct Held(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The body; `None` if it was refused, or was read already.
    body: Option<Received>,
    is_asked: bool,
    reader: Option<Waker>,
}

impl Held {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asked(&self) {
        let mut state = self.state();
        state.is_asked = true;
        state.reader.take().into_iter().for_each(Waker::wake);
    }
}

/// This value is dropped when the other member has answered, or when the request to it has failed. If the other member has not asked for the body,
/// the body is dropped, too. Then the connection of the client ends after the response. The other member also closes the connection on which it
/// got the request.
pub(super) struct UntilAnswered(Held);

impl Drop for UntilAnswered {
    fn drop(&mut self) {
        let refused = {
            let mut state = self.0.state();
            if state.is_asked { None } else { state.body.take() }
        };
        drop(refused);
    }
}

/// Holds back the body of a request if the client waits until the server asks for the body.
pub(super) fn held(request: Request<Received>) -> (Request<AskedBody>, Option<UntilAnswered>) {
    if !request.headers().contains_key(EXPECT) || request.body().is_end_stream() {
        return (request.map(AskedBody::Open), None);
    }
    let held = Held::default();
    let asked = held.clone();
    let mut request = request.map(|body| {
        let size = body.size_hint();
        held.state().body = Some(body);
        AskedBody::Held(held.clone(), size)
    });
    on_informational(&mut request, move |answer| {
        if answer.status() == StatusCode::CONTINUE {
            asked.asked();
        }
    });
    (request, Some(UntilAnswered(held)))
}

impl Body for AskedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if let AskedBody::Held(held, _) = this {
            let mut state = held.state();
            let body = if state.is_asked { state.body.take() } else { None };
            let Some(body) = body else {
                state.reader = Some(cx.waker().clone());
                return Poll::Pending;
            };
            drop(state);
            *this = AskedBody::Open(body);
        }
        match this {
            AskedBody::Open(body) => Pin::new(body).poll_frame(cx),
            AskedBody::Held(..) => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AskedBody::Open(body) => body.is_end_stream(),
            AskedBody::Held(..) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AskedBody::Open(body) => body.size_hint(),
            AskedBody::Held(_, size) => *size,
        }
    }
}
