//! Says whether a call may wait for a disk, for another machine, or for a thread that waits for a disk or another machine.

/// The trait of the types [`Blocking`] and [`CachedOnly`], which say whether a call may wait. A call that may wait returns its result. A call that
/// may not wait returns its result or [`Cached::WouldWait`].
pub trait Patience: Copy {
    /// Whether a call may wait.
    const MAY_WAIT: bool;

    /// The result type of a call that yields a value of type `T`.
    type Of<T>;

    /// Makes the result of a call from a value that is ready.
    fn ready<T>(found: T) -> Self::Of<T>;

    /// Continues with the result of another call, unless that call would have had to wait.
    ///
    /// # Errors
    /// The errors of `next`.
    fn and_then<T, U, E>(
        found: Self::Of<T>,
        next: impl FnOnce(T) -> Result<Self::Of<U>, E>,
    ) -> Result<Self::Of<U>, E>;

    /// Calls `blocking` if a call may wait, otherwise `cached`. `cached` returns [`Cached::WouldWait`] if it would have to wait.
    ///
    /// # Errors
    /// The errors of the function that is called.
    fn choose<W, T, E>(
        with: W,
        blocking: impl FnOnce(W) -> Result<T, E>,
        cached: impl FnOnce(W) -> Result<Cached<T>, E>,
    ) -> Result<Self::Of<T>, E>;

    /// Does work that always has to wait. With [`CachedOnly`] the work is not done.
    ///
    /// # Errors
    /// The errors of `work`.
    fn wait<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<Self::Of<T>, E> {
        Self::choose((), |()| work(), |()| Ok(Cached::WouldWait))
    }
}

/// The call may wait. Such a call must not be made on the threads of asynchronous tasks.
#[derive(Clone, Copy, Debug)]
pub struct Blocking;

/// The call may not wait. The call uses only data that is in the memory of the kernel or of this process.
#[derive(Clone, Copy, Debug)]
pub struct CachedOnly;

/// The result of a call that may not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cached<T> {
    /// The result.
    Ready(T),
    /// Nothing was done. The caller must repeat the call with [`Blocking`].
    WouldWait,
}

impl<T> Cached<T> {
    /// The result, unless the call would have had to wait.
    pub fn ready(self) -> Option<T> {
        match self {
            Cached::Ready(found) => Some(found),
            Cached::WouldWait => None,
        }
    }
}

impl<T> From<Option<T>> for Cached<T> {
    fn from(found: Option<T>) -> Self {
        found.map_or(Cached::WouldWait, Cached::Ready)
    }
}

impl Patience for Blocking {
    const MAY_WAIT: bool = true;
    type Of<T> = T;

    fn ready<T>(found: T) -> T {
        found
    }

    fn and_then<T, U, E>(found: T, next: impl FnOnce(T) -> Result<U, E>) -> Result<U, E> {
        next(found)
    }

    fn choose<W, T, E>(
        with: W,
        blocking: impl FnOnce(W) -> Result<T, E>,
        _: impl FnOnce(W) -> Result<Cached<T>, E>,
    ) -> Result<T, E> {
        blocking(with)
    }
}

impl Patience for CachedOnly {
    const MAY_WAIT: bool = false;
    type Of<T> = Cached<T>;

    fn ready<T>(found: T) -> Cached<T> {
        Cached::Ready(found)
    }

    fn and_then<T, U, E>(
        found: Cached<T>,
        next: impl FnOnce(T) -> Result<Cached<U>, E>,
    ) -> Result<Cached<U>, E> {
        match found {
            Cached::Ready(found) => next(found),
            Cached::WouldWait => Ok(Cached::WouldWait),
        }
    }

    fn choose<W, T, E>(
        with: W,
        _: impl FnOnce(W) -> Result<T, E>,
        cached: impl FnOnce(W) -> Result<Cached<T>, E>,
    ) -> Result<Cached<T>, E> {
        cached(with)
    }
}
