//! Writes the bytes of a zip archive (PKWARE APPNOTE 6.3.10) from its beginning to its end. Files are stored without compression. The checksum of a
//! file follows its content, because the checksum is known only after the content was read.

use enfilade_facts::vocabulary::date_of;

/// Sizes and offsets of at least `LARGE`, and counts of at least `MANY`, need the fields of ZIP64.
const LARGE: u64 = u32::MAX as u64;
const MANY: u64 = u16::MAX as u64;
/// The version of the format that a reader needs for ZIP64.
const VERSION: u16 = 45;
/// Bit 3: the checksum follows the content. Bit 11: names are in UTF-8.
const FLAGS: u16 = 1 << 3 | 1 << 11;
/// The bit for a directory in the attributes of MS-DOS.
const IS_DIRECTORY: u32 = 0x10;

/// A file or folder of an archive. The name of a folder ends with a slash.
pub(super) struct Member {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) modified: i64,
}

/// An archive that is being written.
#[derive(Default)]
pub(super) struct Archive {
    /// The number of bytes that were written until now.
    written: u64,
    members: u64,
    /// The central directory, which lists all members of the archive. It is written last.
    directory: Vec<u8>,
    /// The member that is being written, and its offset.
    current: Option<(Member, u64)>,
}

fn u16(to: &mut Vec<u8>, n: u16) {
    to.extend_from_slice(&n.to_le_bytes());
}

fn u32(to: &mut Vec<u8>, n: u32) {
    to.extend_from_slice(&n.to_le_bytes());
}

fn u64(to: &mut Vec<u8>, n: u64) {
    to.extend_from_slice(&n.to_le_bytes());
}

/// A number in 32 bits. If the number is larger, the result is the value which says that a field of ZIP64 contains the number.
fn short(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// The time and the date in the form of MS-DOS, in UTC. This form has only the years from 1980 to 2107; the nearest of them replaces any other year.
fn moment(unix_seconds: i64) -> (u16, u16) {
    let (year, month, day) = date_of(unix_seconds.div_euclid(86_400));
    let second = unix_seconds.rem_euclid(86_400);
    let year = u16::try_from(year.clamp(1980, 2107) - 1980).unwrap_or(0);
    let of_day = |n: i64| u16::try_from(n).unwrap_or(0);
    let time = of_day(second / 3_600) << 11 | of_day(second / 60 % 60) << 5 | of_day(second % 60 / 2);
    (time, year << 9 | u16::from(month) << 5 | u16::from(day))
}

impl Archive {
    /// The bytes before the content of a member.
    pub(super) fn begin(&mut self, member: Member) -> Vec<u8> {
        let (time, date) = moment(member.modified);
        // The longest path of a datastore is shorter than 64 kB.
        let name_bytes = u16::try_from(member.name.len()).unwrap_or(u16::MAX);
        let is_large = member.bytes >= LARGE;
        let mut bytes = Vec::with_capacity(64 + member.name.len());
        u32(&mut bytes, 0x0403_4b50);
        [VERSION, FLAGS, 0, time, date].into_iter().for_each(|n| u16(&mut bytes, n));
        // The checksum and the sizes follow the content.
        [0, if is_large { u32::MAX } else { 0 }, if is_large { u32::MAX } else { 0 }]
            .into_iter()
            .for_each(|n| u32(&mut bytes, n));
        u16(&mut bytes, name_bytes);
        u16(&mut bytes, if is_large { 20 } else { 0 });
        bytes.extend_from_slice(member.name.as_bytes());
        if is_large {
            [1, 16].into_iter().for_each(|n| u16(&mut bytes, n));
            [0, 0].into_iter().for_each(|n| u64(&mut bytes, n));
        }
        let offset = self.written;
        self.written += bytes.len() as u64 + member.bytes;
        self.current = Some((member, offset));
        bytes
    }

    /// The bytes after the content of the member that was begun.
    pub(super) fn end(&mut self, checksum: u32) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(24);
        let Some((member, offset)) = self.current.take() else { return bytes };
        u32(&mut bytes, 0x0807_4b50);
        u32(&mut bytes, checksum);
        for size in [member.bytes, member.bytes] {
            if member.bytes >= LARGE { u64(&mut bytes, size) } else { u32(&mut bytes, short(size)) }
        }
        self.written += bytes.len() as u64;
        self.list(&member, offset, checksum);
        bytes
    }

    /// Adds a member to the central directory.
    fn list(&mut self, member: &Member, offset: u64, checksum: u32) {
        let (time, date) = moment(member.modified);
        let mut large = Vec::new();
        if member.bytes >= LARGE {
            [member.bytes, member.bytes].into_iter().for_each(|n| u64(&mut large, n));
        }
        if offset >= LARGE {
            u64(&mut large, offset);
        }
        let large_bytes = u16::try_from(large.len()).unwrap_or(0);
        let to = &mut self.directory;
        u32(to, 0x0201_4b50);
        [VERSION, VERSION, FLAGS, 0, time, date].into_iter().for_each(|n| u16(to, n));
        [checksum, short(member.bytes), short(member.bytes)].into_iter().for_each(|n| u32(to, n));
        u16(to, u16::try_from(member.name.len()).unwrap_or(u16::MAX));
        u16(to, if large.is_empty() { 0 } else { large_bytes + 4 });
        // There is no comment, the disk is the first disk, and there are no internal attributes.
        [0, 0, 0].into_iter().for_each(|n| u16(to, n));
        u32(to, if member.name.ends_with('/') { IS_DIRECTORY } else { 0 });
        u32(to, short(offset));
        to.extend_from_slice(member.name.as_bytes());
        if !large.is_empty() {
            u16(to, 1);
            u16(to, large_bytes);
            to.extend_from_slice(&large);
        }
        self.members += 1;
    }

    /// The size of the central directory until now, in bytes.
    pub(super) fn directory_bytes(&self) -> usize {
        self.directory.len()
    }

    /// The central directory and the end of the archive.
    pub(super) fn finish(self) -> Vec<u8> {
        let Archive { written: begin, members, directory: mut bytes, .. } = self;
        let size = bytes.len() as u64;
        if begin >= LARGE || size >= LARGE || members >= MANY {
            u32(&mut bytes, 0x0606_4b50);
            u64(&mut bytes, 44);
            [VERSION, VERSION].into_iter().for_each(|n| u16(&mut bytes, n));
            [0, 0].into_iter().for_each(|n| u32(&mut bytes, n));
            [members, members, size, begin].into_iter().for_each(|n| u64(&mut bytes, n));
            u32(&mut bytes, 0x0706_4b50);
            u32(&mut bytes, 0);
            u64(&mut bytes, begin + size);
            u32(&mut bytes, 1);
        }
        u32(&mut bytes, 0x0605_4b50);
        let count = u16::try_from(members).unwrap_or(u16::MAX);
        [0, 0, count, count].into_iter().for_each(|n| u16(&mut bytes, n));
        [short(size), short(begin)].into_iter().for_each(|n| u32(&mut bytes, n));
        u16(&mut bytes, 0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_of_ms_dos() {
        for (seconds, time, date) in [
            (0, 0, 1 << 5 | 1),
            (1_709_164_799, 23 << 11 | 59 << 5 | 29, 44 << 9 | 2 << 5 | 28),
            (i64::MAX, 15 << 11 | 30 << 5 | 3, 127 << 9 | 12 << 5 | 31),
        ] {
            assert_eq!(moment(seconds), (time, date), "{seconds}");
        }
    }

    #[test]
    fn offsets_and_sizes_of_more_than_32_bits_are_in_the_fields_of_zip64() {
        let mut archive = Archive::default();
        let large = Member { name: "large".into(), bytes: 5 << 30, modified: 0 };
        assert_eq!(archive.begin(large).len(), 30 + 5 + 20);
        assert_eq!(archive.end(7).len(), 24);
        archive.begin(Member { name: "d/".into(), bytes: 0, modified: 0 });
        assert_eq!(archive.end(0).len(), 16);
        assert_eq!(archive.directory_bytes(), (46 + 5 + 20) + (46 + 2 + 12));
        let offset = (5_u64 << 30) + 55 + 24;
        assert!(archive.directory.windows(8).any(|bytes| bytes == offset.to_le_bytes()));
        assert_eq!(archive.finish().len(), 71 + 60 + 56 + 20 + 22);
    }
}
