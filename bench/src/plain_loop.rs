//! A loop that does only the work that every server of files must do without TLS: it reads the bytes of a request, opens the file, and sends it. The
//! loop parses no header field, judges nothing, and writes no log.

use crate::Failure;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::fs::sendfile;
use rustix::io::retry_on_intr;
use rustix::net::{SendFlags, send};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

const EVENTS: usize = 256;
/// The maximum length of a request head, in bytes.
const HEAD: usize = 4_096;
/// The most bytes that one call sends from a file.
const PIECE: usize = 1 << 30;

/// The connections of a core.
struct Core {
    poll: OwnedFd,
    streams: Mutex<HashMap<u64, Arc<TcpStream>>>,
}

impl Core {
    fn new() -> Result<Self, Failure> {
        Ok(Core { poll: epoll::create(CreateFlags::CLOEXEC)?, streams: Mutex::default() })
    }

    fn add(&self, n: u64, stream: TcpStream) -> Result<(), Failure> {
        let stream = Arc::new(stream);
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).insert(n, Arc::clone(&stream));
        Ok(epoll::add(&self.poll, &*stream, EventData::new_u64(n), EventFlags::IN)?)
    }

    fn stream(&self, n: u64) -> Option<Arc<TcpStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).get(&n).map(Arc::clone)
    }

    fn answer_all(&self, file: &Path) -> Result<(), Failure> {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            retry_on_intr(|| epoll::wait(&self.poll, spare_capacity(&mut events), None))?;
            for event in events.drain(..) {
                let data = event.data;
                let Some(stream) = self.stream(data.u64()) else { continue };
                // A connection whose client has gone is forgotten.
                if !answer(&stream, file).is_ok_and(|goes_on| goes_on) {
                    self.streams.lock().unwrap_or_else(PoisonError::into_inner).remove(&data.u64());
                }
            }
        }
    }
}

/// Runs the loop, with a thread for each core.
pub(crate) fn serve(address: SocketAddr, file: &Path) -> Result<(), Failure> {
    let cores = std::thread::available_parallelism()?.get();
    let all = (0..cores).map(|_| Core::new()).collect::<Result<Vec<_>, _>>()?;
    let listener = TcpListener::bind(address)?;
    std::thread::scope(|scope| {
        for core in &all {
            scope.spawn(|| core.answer_all(file).map_err(|why| why.to_string()));
        }
        for (n, core) in (0..).zip(all.iter().cycle()) {
            let (stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            core.add(n, stream)?;
        }
        Ok(())
    })
}

/// Reads a request, and sends the file. A request is complete when the client sends no more bytes at once. Returns whether the connection goes on.
fn answer(mut stream: &TcpStream, file: &Path) -> Result<bool, Failure> {
    if stream.read(&mut [0; HEAD])? == 0 {
        return Ok(false);
    }
    let file = File::open(file)?;
    let mut left = file.metadata()?.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {left}\r\n\r\n");
    send(stream, head.as_bytes(), SendFlags::MORE | SendFlags::NOSIGNAL)?;
    while left > 0 {
        let sent = retry_on_intr(|| sendfile(stream, &file, None, PIECE.min(left as usize)))?;
        if sent == 0 {
            return Ok(false);
        }
        left -= sent as u64;
    }
    Ok(true)
}
