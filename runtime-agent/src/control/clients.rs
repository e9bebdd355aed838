//! The connected clients. Unauthenticated clients and those that know the token have separate places.
//!
//! Every client begins unauthenticated. If all their places are taken, the connection of the oldest one
//! is closed, once it had enough time to prove that it knows the token. So unauthenticated clients cannot keep the
//! owner out, however many they are.

use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Connections a second, and in a burst, of all clients: the agent does not know yet who they are.
pub(super) const CONNECTIONS: (u32, u32) = (100, 100);
const MAX_UNAUTHENTICATED: usize = 32;
const MAX_KNOWN: usize = 16;
/// How long an unauthenticated client keeps its place in any case. Proving the token takes a few milliseconds.
const MOMENT: Duration = Duration::from_millis(250);
/// At the rate at which connections are accepted, none waits for another's place.
const _: () =
    assert!(MAX_UNAUTHENTICATED as u128 * 1_000 >= CONNECTIONS.0 as u128 * MOMENT.as_millis());

/// All clients.
#[derive(Debug, Default)]
pub(super) struct Clients {
    table: Mutex<Table>,
    /// Signalled when a client is admitted, leaves, becomes known, or is closed.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Table {
    is_closed: bool,
    last: u64,
    /// By number.
    clients: HashMap<u64, Client>,
}

#[derive(Debug)]
struct Client {
    stream: Arc<TcpStream>,
    since: Instant,
    is_known: bool,
}

impl Clients {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.table().is_closed
    }

    /// Takes an unauthenticated client's place for a connection; waits up to [`MOMENT`] if all are taken. `None` after
    /// [`close`](Self::close).
    pub(super) fn admit(self: &Arc<Self>, stream: Arc<TcpStream>) -> Option<Place> {
        let mut table = self.table();
        loop {
            if table.is_closed {
                return None;
            }
            let unauthenticated = table.clients.iter().filter(|(_, client)| !client.is_known);
            let oldest =
                unauthenticated.clone().map(|(number, client)| (client.since, *number)).min();
            let Some((since, number)) =
                oldest.filter(|_| unauthenticated.count() >= MAX_UNAUTHENTICATED)
            else {
                break;
            };
            let had = since.elapsed();
            if had >= MOMENT {
                if let Some(client) = table.clients.remove(&number) {
                    // It is no error if the client has closed the connection itself.
                    let _ = client.stream.shutdown(Shutdown::Both);
                }
                self.changed.notify_all();
                break;
            }
            let waited = self.changed.wait_timeout(table, MOMENT.saturating_sub(had));
            table = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        table.last += 1;
        let number = table.last;
        table.clients.insert(number, Client { stream, since: Instant::now(), is_known: false });
        Some(Place { clients: self.clone(), number })
    }

    /// Admits no more clients, and has every connection closed after the answer in progress.
    pub(super) fn close(&self) {
        let mut table = self.table();
        table.is_closed = true;
        for client in table.clients.values() {
            // It is no error if the client has closed the connection itself.
            let _ = client.stream.shutdown(Shutdown::Read);
        }
        self.changed.notify_all();
    }
}

/// A client's place; dropping it frees the place.
#[derive(Debug)]
pub(super) struct Place {
    clients: Arc<Clients>,
    number: u64,
}

impl Place {
    /// Moves the client to a place for clients that know the token, if it has none. `false` if all are
    /// taken.
    pub(super) fn become_known(&self) -> bool {
        let mut table = self.clients.table();
        let known = table.clients.values().filter(|client| client.is_known).count();
        match table.clients.get_mut(&self.number) {
            Some(client) if client.is_known => true,
            Some(client) if known < MAX_KNOWN => {
                client.is_known = true;
                self.clients.changed.notify_all();
                true
            }
            _ => false,
        }
    }

    /// Waits. Returns `false` at once if the connection is closed meanwhile.
    pub(super) fn wait(&self, time: Duration) -> bool {
        let began = Instant::now();
        let mut table = self.clients.table();
        loop {
            if table.is_closed || !table.clients.contains_key(&self.number) {
                return false;
            }
            let left = time.saturating_sub(began.elapsed());
            if left.is_zero() {
                return true;
            }
            let waited = self.clients.changed.wait_timeout(table, left);
            table = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.clients.table().clients.remove(&self.number);
        self.clients.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    /// The client's end of a connection, and the place of the agent's end.
    fn connect(clients: &Arc<Clients>, listener: &TcpListener) -> (TcpStream, Place) {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        (client, clients.admit(Arc::new(stream)).unwrap())
    }

    #[test]
    fn the_oldest_client_without_the_token_gives_way_to_those_with_it() {
        let clients = Arc::new(Clients::default());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let known: Vec<_> = (0..MAX_KNOWN)
            .map(|_| {
                let (client, place) = connect(&clients, &listener);
                assert!(place.become_known() && place.become_known());
                (client, place)
            })
            .collect();
        let (_, late) = connect(&clients, &listener);
        assert!(!late.become_known(), "all known places are taken");
        drop(late);

        let began = Instant::now();
        let mut unauthenticated: Vec<_> =
            (0..MAX_UNAUTHENTICATED).map(|_| connect(&clients, &listener)).collect();
        let (mut first, place) = unauthenticated.remove(0);
        let waits = std::thread::spawn(move || place.wait(Duration::from_secs(60)));
        let (_next, next) = connect(&clients, &listener);
        assert!(began.elapsed() >= MOMENT, "the oldest was closed too early");
        assert!(!waits.join().unwrap(), "a closed client still waits");
        assert_eq!(first.read(&mut [0]).unwrap(), 0);
        assert!(next.wait(Duration::ZERO));

        drop(known);
        assert!(next.become_known());
        clients.close();
        assert!(!next.wait(Duration::from_secs(60)));
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(clients.admit(Arc::new(stream)).is_none());
    }
}
