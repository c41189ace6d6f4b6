//! The messages between a server and the helper. They are sent over a Unix socket that preserves the boundaries of messages (`SOCK_SEQPACKET`). A
//! request is one message: the number of the kind of request, its arguments, and the descriptor of a file or directory if the request needs one. The
//! answer is one message: an error number or 0, and a descriptor if the helper opened one for the server.

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::{self, Errno, IoSlice, IoSliceMut};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The largest ACL, in bytes. Larger ACLs are never sent, because an extended attribute cannot be larger.
pub const ACL_BYTES_MAX: usize = 64 * 1024;
/// The largest message, in bytes: an ACL and the number of the kind of request.
pub const MESSAGE_BYTES_MAX: usize = ACL_BYTES_MAX + 1;

/// A request. If the request needs a descriptor, the descriptor is sent with the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// The descriptor of this request is the root of a datastore. From now on, requests on this connection may act on files in the mount of this
    /// root.
    Root,
    /// Set `security.NTACL` of a file or directory.
    SetAcl(&'a [u8]),
    /// Remove `security.NTACL` of a file or directory.
    RemoveAcl,
    /// Give a file or directory of the server to this user and this group.
    Give {
        /// The number of the user.
        uid: u32,
        /// The number of the group.
        gid: u32,
    },
    /// Open a queue for reports of changes. The answer contains the descriptor of the queue.
    Watch,
    /// Report moves, deletions and changes of attributes on the file system of the directory that is sent with this request. The reports go to the
    /// queue of this connection.
    Mark,
    /// Listen on an address with a port below 1024. The answer contains the listening socket.
    Listen(SocketAddr),
}

impl<'a> Request<'a> {
    /// The number of descriptors that the request needs.
    pub fn descriptors(&self) -> usize {
        match self {
            Request::Watch | Request::Listen(_) => 0,
            _ => 1,
        }
    }

    /// The bytes of the message.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Request::Root => vec![1],
            Request::SetAcl(acl) => [&[2], *acl].concat(),
            Request::RemoveAcl => vec![3],
            Request::Give { uid, gid } => [&[4], uid.to_le_bytes().as_slice(), &gid.to_le_bytes()].concat(),
            Request::Watch => vec![5],
            Request::Mark => vec![6],
            Request::Listen(address) => {
                let ip = match address.ip() {
                    IpAddr::V4(ip) => ip.octets().to_vec(),
                    IpAddr::V6(ip) => ip.octets().to_vec(),
                };
                [&[7], address.port().to_le_bytes().as_slice(), &ip].concat()
            }
        }
    }

    /// Reads a message. `None` if the bytes are not exactly one request.
    pub fn read(message: &'a [u8]) -> Option<Self> {
        let (number, rest) = message.split_first()?;
        let is_alone = || rest.is_empty().then_some(());
        Some(match number {
            1 => is_alone().map(|()| Request::Root)?,
            2 => Request::SetAcl(rest),
            3 => is_alone().map(|()| Request::RemoveAcl)?,
            4 => {
                let (uid, gid) = rest.split_first_chunk::<4>()?;
                let gid: &[u8; 4] = gid.try_into().ok()?;
                Request::Give { uid: u32::from_le_bytes(*uid), gid: u32::from_le_bytes(*gid) }
            }
            5 => is_alone().map(|()| Request::Watch)?,
            6 => is_alone().map(|()| Request::Mark)?,
            7 => {
                let (port, ip) = rest.split_first_chunk::<2>()?;
                let ip = match (<[u8; 4]>::try_from(ip), <[u8; 16]>::try_from(ip)) {
                    (Ok(four), _) => IpAddr::V4(Ipv4Addr::from(four)),
                    (_, Ok(sixteen)) => IpAddr::V6(Ipv6Addr::from(sixteen)),
                    _ => return None,
                };
                Request::Listen(SocketAddr::new(ip, u16::from_le_bytes(*port)))
            }
            _ => return None,
        })
    }
}

/// Sends a message with at most one descriptor.
///
/// # Errors
/// The error of the kernel.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    message: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(Errno::INVAL);
    }
    io::retry_on_intr(|| sendmsg(socket, &[IoSlice::new(message)], &mut ancillary, SendFlags::NOSIGNAL))
        .map(drop)
}

/// Waits for a message. The message can contain one descriptor. `None` if the peer has closed the connection.
///
/// # Errors
/// The error of the kernel; `EMSGSIZE` if the message is longer than the buffer, or has more than one descriptor.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> io::Result<Option<(usize, Option<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let got = io::retry_on_intr(|| {
        recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    let rights = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let mut descriptors: Vec<OwnedFd> = rights.flatten().collect();
    if got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) || descriptors.len() > 1 {
        return Err(Errno::MSGSIZE);
    }
    // An empty message means that the peer has closed the connection, because no request and no answer is empty.
    Ok((got.bytes > 0).then(|| (got.bytes, descriptors.pop())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_read_as_it_was_written_and_nothing_else_is() {
        let requests = [
            Request::Root,
            Request::SetAcl(b"acl"),
            Request::RemoveAcl,
            Request::Give { uid: 1000, gid: 1001 },
            Request::Watch,
            Request::Mark,
            Request::Listen("127.0.0.1:443".parse().unwrap()),
            Request::Listen("[::1]:80".parse().unwrap()),
        ];
        for request in requests {
            let bytes = request.to_bytes();
            assert_eq!(Request::read(&bytes), Some(request));
            let longer = [bytes.as_slice(), b"x"].concat();
            assert!(Request::read(&longer).is_none() || matches!(request, Request::SetAcl(_)), "{request:?}");
        }
        for wrong in [&b""[..], &[0], &[8], &[255], &[4, 1, 2, 3], &[7, 80, 0, 127]] {
            assert_eq!(Request::read(wrong), None, "{wrong:?}");
        }
    }
}
