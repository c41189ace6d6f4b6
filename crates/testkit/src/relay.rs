//! A connection that a test can interrupt.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// A direction of a connection: from the client to the server (questions), or from the server to the client (answers).
#[derive(Default)]
pub struct Direction {
    is_held: AtomicBool,
    delay_millis: AtomicU64,
}

impl Direction {
    /// If `holds` is true, holds the direction: from now on it passes no data on, and does not pass on the end of the connection. If `holds` is
    /// false, the direction passes data on again.
    pub fn hold(&self, holds: bool) {
        self.is_held.store(holds, Ordering::Relaxed);
    }

    /// From now on, each piece of data is passed on with this delay.
    pub fn delay(&self, by: Duration) {
        self.delay_millis.store(u64::try_from(by.as_millis()).unwrap(), Ordering::Relaxed);
    }
}

/// Passes connections on to a server.
pub struct Relay {
    /// The address of the relay: `127.0.0.1:<port>`.
    pub address: String,
    /// The direction to the server.
    pub questions: Arc<Direction>,
    /// The direction from the server.
    pub answers: Arc<Direction>,
}

impl Relay {
    /// A relay to the server at `127.0.0.1:<port>`.
    pub fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (questions, answers) = <(Arc<Direction>, Arc<Direction>)>::default();
        let (directions, server) = ([Arc::clone(&questions), Arc::clone(&answers)], server.to_owned());
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&server) else { continue };
                let pairs = [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)];
                for ((from, to), direction) in pairs.into_iter().zip(directions.clone()) {
                    let _ = to.set_nodelay(true);
                    std::thread::spawn(move || pass_on(from, to, &direction));
                }
            }
        });
        Relay { address, questions, answers }
    }

    /// Both directions.
    pub fn both(&self) -> [&Direction; 2] {
        [&self.questions, &self.answers]
    }
}

#[expect(clippy::disallowed_methods, reason = "it delays real connections")]
fn pass_on(mut from: TcpStream, mut to: TcpStream, direction: &Direction) {
    let (sender, pieces) = sync_channel::<(Instant, Vec<u8>)>(1_024);
    std::thread::scope(|scope| {
        // The delay of each piece is the same, even if many pieces arrive at the same time.
        scope.spawn(move || {
            let mut piece = [0; 16_384];
            while let Ok(count @ 1..) = from.read(&mut piece) {
                let piece = piece.get(..count).unwrap_or_default().to_vec();
                if sender.send((Instant::now(), piece)).is_err() {
                    break;
                }
            }
        });
        for (came, piece) in pieces {
            let delay = Duration::from_millis(direction.delay_millis.load(Ordering::Relaxed));
            std::thread::sleep(delay.saturating_sub(came.elapsed()));
            while direction.is_held.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            if to.write_all(&piece).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}
