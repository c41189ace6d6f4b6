//! If a store cannot be opened, replaces it with a new store. The old store is kept under another name.

use super::OpenError;
use super::restore_error::RestoreError;
use rustix::io::Errno;
use std::io;
use std::path::Path;

/// The functions that rename directories. A test replaces them.
struct Renames<E, R> {
    exchange: E,
    rename: R,
}

/// The paths of a move. Before the move, the old store is at `path`, and the new store is at `new`. After the move, the new store is at `path`, and
/// the old store is at `aside`.
pub(super) struct Moved<'p> {
    pub(super) path: &'p Path,
    pub(super) new: &'p Path,
    pub(super) aside: &'p Path,
}

impl Moved<'_> {
    /// Moves the new store to the path of the old store, and the old store to `aside`. If the move fails, the old store has its previous path, except
    /// after [`RestoreError::Halfway`]. The new store also has its previous path. Exception: if the new store could not be moved back, it has the
    /// path `aside`.
    ///
    /// If the process is killed during the move, `path` contains the old or the new store, or does not exist. If `path` does not exist, the new store
    /// is at `new`, and opening the store returns [`OpenError::Unmoved`].
    pub(super) fn swap(&self) -> Result<(), RestoreError> {
        self.swap_by(&Renames { exchange, rename })
    }

    fn swap_by<E, R>(&self, by: &Renames<E, R>) -> Result<(), RestoreError>
    where
        E: Fn(&Path, &Path) -> io::Result<()>,
        R: Fn(&Path, &Path) -> io::Result<()>,
    {
        let Moved { path, new, aside } = *self;
        let failed = |why: io::Error| RestoreError::from(OpenError::io(path, &why));
        // The old store never gets the name `new`, because a later restore would remove a directory with this name.
        (by.rename)(new, aside).map_err(failed)?;
        let Err(why) = (by.exchange)(path, aside) else { return Ok(()) };
        (by.rename)(aside, new).map_err(|other| {
            let aside = aside.display();
            OpenError::io(
                path,
                &format!(
                    "the restored store cannot replace the old store ({why}), and cannot be moved back to its temporary path ({other}). The old store was not changed: remove the restored store `{aside}`, then restore again"
                ),
            )
        })?;
        // If the kernel or the file system cannot exchange names (renameat2(2)), two renames are made instead.
        let cannot = [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP];
        if !cannot.iter().any(|errno| why.raw_os_error() == Some(errno.raw_os_error())) {
            return Err(failed(why));
        }
        (by.rename)(path, aside).map_err(failed)?;
        let Err(why) = (by.rename)(new, path) else { return Ok(()) };
        match (by.rename)(aside, path) {
            Ok(()) => Err(failed(why)),
            Err(_) => {
                let [path, new, aside] = [path, new, aside].map(Path::to_owned);
                Err(RestoreError::Halfway { path, new, aside, why: why.to_string() })
            }
        }
    }
}

/// Exchanges the names of two directories in one step.
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    /// Each case has the error of the exchange, the numbers of the renames that fail, the store that is afterwards at `path`, at `new` and at `aside`
    /// (old, new or none), and a part of the error.
    #[test]
    fn whatever_call_fails_the_stores_are_where_it_is_said() {
        const OLD: Option<&str> = Some("old");
        const NEW: Option<&str> = Some("new");
        type Places = [Option<&'static str>; 3];
        let cases: [(Option<Errno>, &[usize], Places, &str); 10] = [
            (None, &[], [NEW, None, OLD], ""),
            (None, &[0], [OLD, NEW, None], "rename 0"),
            (Some(Errno::IO), &[], [OLD, NEW, None], "Input/output error"),
            (Some(Errno::IO), &[1], [OLD, None, NEW], "remove the restored store"),
            (Some(Errno::INVAL), &[], [NEW, None, OLD], ""),
            (Some(Errno::NOSYS), &[], [NEW, None, OLD], ""),
            (Some(Errno::OPNOTSUPP), &[], [NEW, None, OLD], ""),
            (Some(Errno::INVAL), &[2], [OLD, NEW, None], "rename 2"),
            (Some(Errno::INVAL), &[3], [OLD, NEW, None], "rename 3"),
            (Some(Errno::INVAL), &[3, 4], [None, NEW, OLD], "mv -T '"),
        ];
        for (exchange_fails, renames_fail, places, said) in cases {
            let scratch = Scratch::new();
            let [path, new, aside] = ["facts", "facts.new", "aside"].map(|name| scratch.path().join(name));
            for (place, name) in [(&path, "old"), (&new, "new")] {
                std::fs::create_dir(place).unwrap();
                std::fs::write(place.join("name"), name).unwrap();
            }
            let renamed = std::cell::Cell::new(0);
            let by = Renames {
                exchange: |one: &Path, other: &Path| match exchange_fails {
                    Some(errno) => Err(errno.into()),
                    None => exchange(one, other),
                },
                rename: |from: &Path, to: &Path| {
                    let number = renamed.replace(renamed.get() + 1);
                    match renames_fail.contains(&number) {
                        true => Err(io::Error::other(format!("rename {number}"))),
                        false => rename(from, to),
                    }
                },
            };
            let moved = Moved { path: &path, new: &new, aside: &aside }.swap_by(&by);
            let what = format!("{exchange_fails:?} {renames_fail:?}: {moved:?}");
            let there = [&path, &new, &aside].map(|place| std::fs::read_to_string(place.join("name")).ok());
            assert_eq!(there.each_ref().map(Option::as_deref), places, "{what}");
            assert_eq!(moved.is_ok(), said.is_empty(), "{what}");
            if let Err(why) = moved {
                let is_halfway = matches!(why, RestoreError::Halfway { .. });
                assert!(why.to_string().contains(said) && is_halfway == (places[0].is_none()), "{what}");
            }
        }
    }
}
