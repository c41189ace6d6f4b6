//! The verbs: which right each needs, on which descriptor, and that the descriptor that was checked is the one acted on
//! (invariant S5). Everything here blocks on the file system: call it off the async workers.

use crate::refuse::Refusal;
use crate::walk::Stay;
use enfilade_access::{
    AccessPermit, Ask, Inheritance, NodeKind, SecurityDescriptor, Sight, Subject, Version, Wanted,
};
use enfilade_content::{
    Entry as Looked, Lock, LockToken, LookedAt, Meta, Node, Pipe, Property, Reader, Refusal as Content, Room,
    Touches, Upload,
};
use enfilade_facts::MemoKey;
use enfilade_facts::limits::Limits;
use enfilade_facts::vocabulary::{AccessMask, StorePath};
use std::sync::Arc;

/// A file or directory the visitor may see.
pub struct Found {
    /// The open descriptor.
    pub node: Node,
    subject: Subject,
    permit: AccessPermit,
}

impl Stay {
    /// A target, when the visitor may have `wanted` on it; what may not be seen is not there.
    ///
    /// # Errors
    /// The refusal of door 4 or 5.
    pub fn find(&mut self, path: &StorePath, wanted: AccessMask) -> Result<Found, Refusal> {
        let node = self.reach(path)?;
        self.judge(path, node, wanted)
    }

    fn judge(&mut self, path: &StorePath, node: Node, wanted: AccessMask) -> Result<Found, Refusal> {
        let subject = node.subject();
        let permit = self.may(&Ask { path, target: &subject, wanted: Wanted::On(wanted) })?;
        Ok(Found { node, subject, permit })
    }

    /// What is at a path, past every directory on the way where these have to let one pass.
    fn reach(&mut self, path: &StorePath) -> Result<Node, Refusal> {
        if !self.datastore.access().checks_traverse {
            return Ok(self.root.find(path)?);
        }
        let mut at = StorePath::root();
        let mut node = self.root.find(&at)?;
        for name in path.names() {
            let subject = node.subject();
            self.may(&Ask { path: &at, target: &subject, wanted: Wanted::Passing })?;
            node = node.child(name)?;
            at = at.join(name).map_err(|_| Content::Absent(path.to_string()))?;
        }
        Ok(node)
    }

    /// The directory a path is or would be in, and the name there.
    pub(crate) fn reach_parent<'p>(&mut self, path: &'p StorePath) -> Result<(Node, &'p str), Refusal> {
        if !self.datastore.access().checks_traverse {
            return Ok(self.root.find_parent(path)?);
        }
        let (parent, name) = path.split().ok_or(Content::IsRoot)?;
        match self.reach(&parent) {
            Ok(node) if node.kind() == NodeKind::Directory => {
                let subject = node.subject();
                self.may(&Ask { path: &parent, target: &subject, wanted: Wanted::Passing })?;
                Ok((node, name))
            }
            Ok(_) | Err(Refusal::Content(Content::Absent(_) | Content::Special(_))) => {
                Err(Content::ParentAbsent(path.to_string()).into())
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// A file's bytes.
    ///
    /// # Errors
    /// The refusal of door 4 or 5.
    pub fn read(mut self, path: StorePath) -> Result<Reading, Refusal> {
        let Found { node, permit, .. } = self.find(&path, AccessMask::READ_DATA)?;
        let reader = enfilade_content::read(&permit, &node)?;
        let checked = self.visit.house.now().tick_millis;
        Ok(Reading { stay: self, path, node, reader, checked })
    }

    /// The same where nothing has to be waited for: `None` says that [`Stay::read`] has to be asked.
    ///
    /// # Errors
    /// As [`Stay::read`].
    pub fn read_at_hand(mut self, path: &StorePath) -> Result<Option<Reading>, Refusal> {
        if self.datastore.access().checks_traverse {
            return Ok(None);
        }
        let Some(node) = self.root.find_at_hand(path)? else { return Ok(None) };
        let Found { node, permit, .. } = self.judge(path, node, AccessMask::READ_DATA)?;
        let reader = enfilade_content::read(&permit, &node)?;
        let checked = self.visit.house.now().tick_millis;
        Ok(Some(Reading { stay: self, path: path.clone(), node, reader, checked }))
    }

    /// What is in a directory, as far as the visitor may see it.
    ///
    /// # Errors
    /// The refusal of door 4 or 5.
    pub fn list(mut self, path: StorePath) -> Result<Listing, Refusal> {
        let found = self.find(&path, AccessMask::LIST)?;
        self.list_found(path, found)
    }

    /// The same of a directory that was found just now.
    ///
    /// # Errors
    /// The refusal of door 4 or 5.
    pub fn list_found(mut self, path: StorePath, found: Found) -> Result<Listing, Refusal> {
        let Found { node, subject, mut permit } = found;
        if !permit.granted().covers(AccessMask::LIST) {
            // Seen, where the datastore shows names and no content: door 4 says why.
            permit =
                self.may(&Ask { path: &path, target: &subject, wanted: Wanted::On(AccessMask::LIST) })?;
        }
        let listing = enfilade_content::list(&permit, &node)?;
        Ok(Listing { stay: self, path, node, listing, is_known: true, sample: SAMPLE })
    }

    /// Begins to write a file, new or over an old one, of so many bytes where that is known.
    ///
    /// # Errors
    /// The refusal of door 4 or 5.
    pub fn upload(mut self, path: StorePath, expected: Option<u64>) -> Result<Uploading, Refusal> {
        let (directory, name) = self.reach_parent(&path)?;
        let target = present(directory.child(name))?;
        let upload = match &target {
            Some(target) => {
                let permit = self.may_overwrite(&path, target)?;
                Upload::replace(&permit, &directory, name, target)?
            }
            None => {
                let (permit, from_start) = self.may_create(&path, &directory, NodeKind::File)?;
                Upload::create(&permit, &directory, name, &from_start)?
            }
        };
        if let Some(bytes) = expected {
            upload.make_room(bytes)?;
        }
        // After the doors: how full a store is, is nobody's business who may not write there.
        let take = |quota| self.fill.take(&self.root, quota, expected.unwrap_or(0));
        let room = self.datastore.quota().map(take).transpose()?;
        Ok(Uploading { stay: self, path, directory, target, upload, room })
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// The refusal of door 4 or 5.
    pub fn make_collection(&mut self, path: &StorePath, tokens: &[LockToken]) -> Result<(), Refusal> {
        let (directory, name) = self.reach_parent(path)?;
        let (permit, from_start) = self.may_create(path, &directory, NodeKind::Directory)?;
        if let Some(existing) = present(directory.child(name))? {
            self.refuse_hidden(path, &existing)?;
        }
        self.unless_locked(path, Touches::Entry, tokens)?;
        enfilade_content::make_collection(&permit, &directory, name, &from_start)?;
        Ok(())
    }

    /// The right to write over a file.
    fn may_overwrite(&mut self, path: &StorePath, target: &Node) -> Result<AccessPermit, Refusal> {
        let subject = target.subject();
        self.may(&Ask { path, target: &subject, wanted: Wanted::Overwrite })
    }

    /// Creating onto what may not be seen is refused like a create without the right.
    pub(crate) fn refuse_hidden(&mut self, path: &StorePath, existing: &Node) -> Result<(), Refusal> {
        let subject = existing.subject();
        if self.may(&Ask { path, target: &subject, wanted: Wanted::On(AccessMask::NONE) }).is_err() {
            self.may(&Ask { path, target: &subject, wanted: Wanted::Overwrite })?;
        }
        Ok(())
    }

    /// The right to make something in `directory`, and what it has from there.
    pub(crate) fn may_create(
        &mut self,
        path: &StorePath,
        directory: &Node,
        kind: NodeKind,
    ) -> Result<(AccessPermit, Inheritance), Refusal> {
        let parent = path.split().map(|(parent, _)| parent).unwrap_or_default();
        let subject = directory.subject();
        let permit = self.may(&Ask { path: &parent, target: &subject, wanted: Wanted::Create(kind) })?;
        let from_start = enfilade_access::inherited(&subject, directory.acls(), permit.creator(), kind)?;
        Ok((permit, from_start))
    }
}

/// Absent is an answer here, not a refusal.
pub(crate) fn present(node: Result<Node, Content>) -> Result<Option<Node>, Refusal> {
    match node {
        Ok(node) => Ok(Some(node)),
        Err(Content::Absent { .. }) => Ok(None),
        Err(other) => Err(other.into()),
    }
}

impl Found {
    /// What it is.
    pub fn kind(&self) -> NodeKind {
        self.subject.kind
    }

    pub(crate) fn permit(&self) -> &AccessPermit {
        &self.permit
    }

    /// What the visitor may do with it.
    pub fn granted(&self) -> AccessMask {
        self.permit.granted()
    }

    /// Its owner and ACL; nothing for whoever may not read them, where mode bits rule, or where they cannot be believed.
    pub fn descriptor(&self) -> Option<SecurityDescriptor> {
        let may = self.granted().covers(AccessMask::READ_ACL);
        may.then(|| self.subject.descriptor().ok().flatten()).flatten()
    }
}

/// A file being read. The doors are asked again whenever the facts changed, and at least once a second,
/// so that withdrawing a token or a right cuts a running download.
pub struct Reading {
    stay: Stay,
    path: StorePath,
    node: Node,
    reader: Reader,
    checked: u64,
}

const CHECK_EVERY_MILLIS: u64 = 1000;

impl Reading {
    /// Its name.
    pub fn name(&self) -> &str {
        self.path.name()
    }

    /// A word nobody can guess.
    pub fn random(&self) -> Option<String> {
        let bytes: [u8; 16] = self.stay.visit.house.random()?;
        Some(format!("{:032x}", u128::from_ne_bytes(bytes)))
    }

    /// What is too much here.
    pub fn limits(&self) -> Limits {
        self.stay.visit.limits()
    }

    /// Size, times and validator.
    pub fn meta(&self) -> &Meta {
        self.node.meta()
    }

    /// Appends bytes from `offset` on, as many as there is room for: fewer at the end of the file.
    ///
    /// # Errors
    /// When the file cannot be read, or the visitor may no longer read it.
    pub fn read_at(&mut self, offset: u64, buffer: &mut Vec<u8>) -> Result<(), Refusal> {
        self.check()?;
        Ok(self.reader.fill_from(offset, buffer)?)
    }

    /// Puts the next bytes from `offset` into an empty pipe, at most so many; says how many, 0 at the end.
    ///
    /// # Errors
    /// When the file cannot be read, or the visitor may no longer read it.
    pub fn fill_pipe(&mut self, offset: u64, at_most: u64, pipe: &Pipe) -> Result<u64, Refusal> {
        self.check()?;
        Ok(self.reader.fill_pipe(offset, at_most, pipe)?)
    }

    /// Reads as much from `offset` on as there is room for, or to the end, where all of that is in memory: how much that is.
    ///
    /// # Errors
    /// When the visitor may no longer read it.
    pub fn read_at_hand(&mut self, offset: u64, room: &mut [u8]) -> Result<Option<usize>, Refusal> {
        self.check()?;
        Ok(self.reader.fill_at_hand(offset, room))
    }

    /// May the visitor still? Looks at the facts, and once a second at the file's ACL.
    ///
    /// # Errors
    /// The refusal of whichever door says no now.
    pub fn check(&mut self) -> Result<(), Refusal> {
        let tick = self.stay.visit.house.now().tick_millis;
        if self.stay.unchanged() && tick.saturating_sub(self.checked) < CHECK_EVERY_MILLIS {
            return Ok(());
        }
        let subject = self.node.subject();
        let wanted = Wanted::On(AccessMask::READ_DATA);
        self.stay.may(&Ask { path: &self.path, target: &subject, wanted })?;
        self.checked = tick;
        Ok(())
    }

    /// The revision the doors last judged on.
    pub fn revision(&self) -> u64 {
        self.stay.revision().0
    }
}

/// A directory being listed.
pub struct Listing {
    stay: Stay,
    path: StorePath,
    node: Node,
    listing: enfilade_content::Listing,
    /// Whether most entries' states lately told which ACL they have.
    is_known: bool,
    /// So many are asked at most before that is looked at again.
    sample: usize,
}

/// So many entries tell whether it is worth asking the others by name.
const SAMPLE: usize = 64;

/// Leaves those whose sight is wanted.
fn keep(entries: &mut Vec<Looked>, sights: &mut Vec<Sight>, is_wanted: impl Fn(Sight) -> bool) {
    let mut each = sights.iter();
    entries.retain(|_| each.next().is_some_and(|sight| is_wanted(*sight)));
    sights.retain(|sight| is_wanted(*sight));
}

/// One visible entry.
pub struct Entry {
    /// Its name.
    pub name: String,
    /// What it is, its size, times and validator.
    pub meta: Meta,
    subject: Subject,
}

impl Listing {
    /// The directory itself.
    pub fn meta(&self) -> &Meta {
        self.node.meta()
    }

    /// Of which entries it is known by the state they are in that they have no dead properties.
    pub fn are_bare(&self, entries: &[Entry]) -> Vec<bool> {
        let bare = &self.stay.visit.house.bare;
        // Nothing is remembered under the key of what has no state.
        let key = |entry: &Entry| entry.subject.state(bare.key("properties of")).unwrap_or_default();
        let keys: Vec<MemoKey> = entries.iter().map(key).collect();
        bare.get_all(&keys).into_iter().map(|known| known == Some(true)).collect()
    }

    /// The dead properties of an entry; none where it is gone, or is another than was shown.
    ///
    /// # Errors
    /// When an earlier door says no by now.
    pub fn properties(&mut self, entry: &Entry) -> Result<Vec<Property>, Refusal> {
        let house = Arc::clone(&self.stay.visit.house);
        let state = entry.subject.state(house.bare.key("properties of"));
        let Some(found) = self.find(entry, AccessMask::READ_NAMED_ATTRIBUTES)? else { return Ok(Vec::new()) };
        // The state was read before: of what is changed in between, it is another afterwards.
        let properties = self.stay.properties(&found)?;
        if let (true, Some(state)) = (properties.is_empty(), state) {
            house.bare.put(state, true);
        }
        Ok(properties)
    }

    /// An entry itself, when the visitor may have `wanted` on it; nothing where it is gone, or is another than was shown.
    ///
    /// # Errors
    /// When an earlier door says no by now.
    pub fn find(&mut self, entry: &Entry, wanted: AccessMask) -> Result<Option<Found>, Refusal> {
        let Ok(path) = self.path.join(&entry.name) else { return Ok(None) };
        match self.stay.find(&path, wanted) {
            Ok(found) => Ok(Some(found).filter(|found| found.node.object() == entry.meta.object)),
            Err(Refusal::Content(_) | Refusal::Access(_)) => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// The locks that cover an entry.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn locks_on(&self, entry: &Entry) -> Result<Vec<Lock>, Refusal> {
        let Ok(path) = self.path.join(&entry.name) else { return Ok(Vec::new()) };
        self.stay.locks_on(&path)
    }

    /// Whether any lock may cover an entry.
    ///
    /// # Errors
    /// When locks cannot be read.
    pub fn is_locked_anywhere(&self) -> Result<bool, Refusal> {
        self.stay.is_locked_anywhere(&self.path)
    }

    /// Whether everything there is was asked for.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn is_over(&mut self) -> Result<bool, Refusal> {
        Ok(self.listing.is_over()?)
    }

    /// The next visible entries of the next `at_most` there are: `None` at the end, and an empty list where none of
    /// them may be seen. Door 4 is asked about a whole batch on one view.
    ///
    /// # Errors
    /// When the directory cannot be read, or the visitor may no longer list it.
    pub fn next_batch(&mut self, at_most: usize) -> Result<Option<Vec<Entry>>, Refusal> {
        let house = Arc::clone(&self.stay.visit.house);
        // The time first: what is changed after this looks changed.
        let (unix_seconds, clock) = (house.now().unix_seconds, house.clock_sets());
        let at = LookedAt { unix_seconds, clock, watch: house.parts.watch.as_ref() };
        let (mut entries, is_sample) = match self.is_known {
            true => (self.listing.next_batch(at_most.min(self.sample), at)?, self.sample < at_most),
            // Not asked by name first where most have to be opened anyhow.
            false => (self.listing.next_looked(at_most, at)?, false),
        };
        if entries.is_empty() {
            return Ok(None);
        }
        if house.clock_sets() != at.clock {
            // What is stamped with the time may be stamped with one that was before.
            let is_stamped =
                |entry: &&mut Looked| matches!(entry.subject.version, Some(Version::Stamped { .. }));
            entries.iter_mut().filter(is_stamped).for_each(|entry| entry.subject.version = None);
        }
        let mut sights = self.see(&entries)?;
        let unread = sights.iter().filter(|sight| **sight == Sight::Unread).count();
        (self.is_known, self.sample) = match (self.is_known, unread * 2 > entries.len()) {
            // After each batch that was opened some are asked by name: the rest may be known.
            (false, _) => (true, SAMPLE),
            (true, true) => (false, SAMPLE),
            (true, false) => (true, if is_sample { at_most } else { self.sample }),
        };
        keep(&mut entries, &mut sights, |sight| sight != Sight::Hidden);
        for (entry, sight) in entries.iter_mut().zip(&mut sights) {
            // Of what is shown everything is said, unless it is another object than the one that was judged.
            if *sight == Sight::Seen && !self.listing.describe(entry) {
                *sight = Sight::Unread;
            }
        }
        if sights.contains(&Sight::Unread) {
            self.read(&mut entries, &mut sights, at)?;
        }
        let shown = entries
            .into_iter()
            .filter_map(|Looked { name, meta, subject }| Some(Entry { name, meta: meta?, subject }));
        Ok(Some(shown.collect()))
    }

    /// Opens what has to be read, and leaves what may be seen, in its order.
    fn read(
        &mut self,
        entries: &mut Vec<Looked>,
        sights: &mut Vec<Sight>,
        at: LookedAt<'_>,
    ) -> Result<(), Refusal> {
        let mut opened = Vec::with_capacity(entries.len());
        for (entry, sight) in entries.iter_mut().zip(sights.iter_mut()) {
            if *sight != Sight::Unread {
                continue;
            }
            match self.listing.look(std::mem::take(&mut entry.name), at)? {
                Some(looked) => opened.push(looked),
                // It is gone.
                None => *sight = Sight::Hidden,
            }
        }
        keep(entries, sights, |sight| sight != Sight::Hidden);
        let judged = self.see(&opened)?;
        let places = entries.iter_mut().zip(sights.iter_mut()).filter(|(_, sight)| **sight == Sight::Unread);
        for ((entry, sight), (looked, judged)) in places.zip(opened.into_iter().zip(judged)) {
            (*entry, *sight) = (looked, judged);
        }
        keep(entries, sights, |sight| sight == Sight::Seen);
        Ok(())
    }

    fn see(&mut self, entries: &[Looked]) -> Result<Vec<Sight>, Refusal> {
        let children: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), &entry.subject)).collect();
        let path = &self.path;
        self.stay.on_view(|stay, view| {
            let memo = &stay.visit.house.parts.access_memo;
            let (now, identity) = (stay.visit.house.now(), &stay.visit.identity);
            Ok(enfilade_access::see(view, now, identity, &stay.datastore, path, &children, memo)?)
        })
    }

    /// The revision the doors last judged on.
    pub fn revision(&self) -> u64 {
        self.stay.revision().0
    }
}

/// A file being written. Nothing of it is visible until [`Uploading::finish`].
pub struct Uploading {
    stay: Stay,
    path: StorePath,
    directory: Node,
    target: Option<Node>,
    upload: Upload,
    /// In a store with a quota.
    room: Option<Room>,
}

impl Uploading {
    /// What it will replace.
    pub fn existing(&self) -> Option<&Meta> {
        self.target.as_ref().map(Node::meta)
    }

    /// Whether locks let it be written, with the tokens that came.
    ///
    /// # Errors
    /// [`Content::Locked`], or when the locks cannot be read.
    pub fn unless_locked(&self, tokens: &[LockToken]) -> Result<(), Refusal> {
        let touches = if self.target.is_some() { Touches::Content } else { Touches::Entry };
        self.stay.unless_locked(&self.path, touches, tokens)
    }

    /// When its content was made, as whoever sends it says, in seconds since the epoch.
    ///
    /// # Errors
    /// When the file system does not take it.
    pub fn set_modified(&self, unix_seconds: i64) -> Result<(), Refusal> {
        Ok(self.upload.set_modified(unix_seconds)?)
    }

    /// More bytes.
    ///
    /// # Errors
    /// When they cannot be written, or the visitor may no longer write here.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        if !self.stay.unchanged() {
            self.ask_again()?;
        }
        if let Some(room) = &mut self.room {
            room.grow_to(self.upload.bytes().saturating_add(bytes.len() as u64))?;
        }
        Ok(self.upload.write(bytes)?)
    }

    /// Makes it durable, and then visible, in one step. The doors are asked once more before.
    ///
    /// # Errors
    /// As [`Uploading::write`]; or when somebody else put something there meanwhile.
    pub fn finish(mut self) -> Result<Meta, Refusal> {
        self.ask_again()?;
        let (bytes, replaced) = (self.upload.bytes(), self.target.as_ref().map_or(0, Node::content_bytes));
        let made = self.upload.finish()?.meta().clone();
        self.room.into_iter().for_each(|room| room.keep(bytes, replaced));
        Ok(made)
    }

    fn ask_again(&mut self) -> Result<(), Refusal> {
        match &self.target {
            Some(target) => self.stay.may_overwrite(&self.path, target).map(drop),
            None => self.stay.may_create(&self.path, &self.directory, NodeKind::File).map(drop),
        }
    }

    /// The revision the doors last judged on.
    pub fn revision(&self) -> u64 {
        self.stay.revision().0
    }
}
