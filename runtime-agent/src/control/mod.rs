//! Remote control over TCP, by lines of text. `docs/control.md` is the authority on the protocol.
//!
//! Nothing that a client does or does not do can hold up a probe or another client: each has its
//! own thread, of which there are at most [`MAX_CLIENTS`], a line is at most [`MAX_LINE`] bytes, and
//! a client that says nothing is hung up on. A command that is not known changes nothing and ends
//! the connection, so that a web page's request cannot smuggle one in.

mod answers;
mod commands;
mod conversation;
mod line;
pub(crate) mod token;

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use self::conversation::{Conversation, hang_up};
use self::token::Token;
use crate::engine::Handle;
use crate::message::message;
use crate::native_thread::{self, Priority};
use crate::options::Options;
use crate::presence;

const MAX_CLIENTS: usize = 16;
const IDLE: Duration = Duration::from_secs(30);
const WRITE: Duration = Duration::from_secs(5);
/// How many ports are tried, from the one that was asked for.
const PORTS: u16 = 16;

/// A port to listen on.
pub(crate) struct Control {
    listener: TcpListener,
    port: u16,
    context: Arc<Context>,
}

/// What every conversation needs beside the engine.
struct Context {
    /// What a client has to know.
    token: Option<Token>,
    /// The options as they were given.
    options: BTreeMap<String, String>,
}

impl Control {
    /// Takes the port that the options say, or the next free one of 16. Says so if it is not the first;
    /// if there can be none, says that and gives `None`.
    pub(crate) fn bind(options: &Options) -> Option<Self> {
        let first = options.port?;
        let opened = token_for(options).and_then(|token| {
            let context = Arc::new(Context { token, options: options.to_map() });
            let (listener, port) = listen(options.bind, first)?;
            Ok(Self { listener, port, context })
        });
        match opened {
            Ok(control) => {
                if control.port != first {
                    message!("port {first} is taken; control is on port {}", control.port);
                }
                Some(control)
            }
            Err(reason) => {
                message!("{reason}; there is no remote control");
                None
            }
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Serves clients on threads of its own, until it is closed.
    pub(crate) fn serve(self, engine: Handle) -> Option<Serving> {
        let clients = Arc::new(Clients::default());
        let listener = Arc::new(self.listener);
        let (named, is_named) = mpsc::channel();
        let serve = {
            let (clients, listener) = (clients.clone(), listener.clone());
            let context = self.context;
            move || {
                // Its name is seen from outside from now on. Whoever waits may have gone.
                let _ = named.send(());
                loop {
                    let accepted = listener.accept();
                    if clients.is_closed.load(Ordering::Acquire) {
                        return;
                    }
                    match accepted {
                        Ok((stream, _)) => admit(stream, &engine, &context, &clients),
                        // Out of file descriptors, perhaps; there may be some again.
                        Err(_) => thread::sleep(Duration::from_millis(100)),
                    }
                }
            }
        };
        let name = presence::control_thread(self.port);
        match native_thread::spawn(&name, Priority::Normal, serve) {
            Ok(thread) => {
                // An error would say that it has ended.
                let _ = is_named.recv();
                Some(Serving { listener, clients, thread })
            }
            Err(error) => {
                message!("no thread for remote control: {error}");
                None
            }
        }
    }
}

/// What clients have to know. From elsewhere nobody is let in who knows nothing.
fn token_for(options: &Options) -> Result<Option<Token>, String> {
    match &options.token_file {
        Some(path) => Token::read(path).map(Some),
        None if options.bind.is_loopback() => Ok(None),
        None => Err(format!(
            "bind: {} can be reached from elsewhere, which takes a token_file",
            options.bind
        )),
    }
}

/// Takes `first` or the next free one of 16 ports.
fn listen(address: IpAddr, first: u16) -> Result<(TcpListener, u16), String> {
    let last = first.saturating_add(PORTS - 1);
    let mut reason = String::new();
    for port in first..=last {
        match TcpListener::bind(SocketAddr::new(address, port)) {
            Ok(listener) => return Ok((listener, port)),
            Err(error) => reason = format!(" ({error})"),
        }
    }
    Err(format!("no free port from {first} to {last}{reason}"))
}

/// A port that is listened on.
pub(crate) struct Serving {
    listener: Arc<TcpListener>,
    clients: Arc<Clients>,
    thread: thread::JoinHandle<()>,
}

impl Serving {
    /// Closes the port and hangs up on all clients, once they have the answers that they wait for.
    #[allow(unsafe_code)]
    pub(crate) fn close(self) {
        self.clients.is_closed.store(true, Ordering::Release);
        // SAFETY: the descriptor is the listener's, which is open. It wakes the thread up.
        unsafe { libc::shutdown(self.listener.as_raw_fd(), libc::SHUT_RDWR) };
        drop(self.listener);
        // It cannot have panicked.
        let _ = self.thread.join();
        for stream in self.clients.streams().values() {
            // A client that has gone is no error.
            let _ = stream.shutdown(Shutdown::Read);
        }
    }
}

fn admit(stream: TcpStream, engine: &Handle, context: &Arc<Context>, clients: &Arc<Clients>) {
    let timeouts = stream
        .set_read_timeout(Some(IDLE))
        .and_then(|()| stream.set_write_timeout(Some(WRITE)))
        .and_then(|()| stream.set_nodelay(true));
    if timeouts.is_err() {
        return;
    }
    // A client that is turned away gets a thread too, for the moment that its answer takes.
    let (place, refusal) = match occupy(&clients.served) {
        Some(place) => (place, None),
        None => match occupy(&clients.refused) {
            Some(place) => (place, Some("error: too many clients\n")),
            None => return,
        },
    };
    let (engine, context) = (engine.clone(), context.clone());
    let stream = Arc::new(stream);
    let known = clients.add(stream.clone());
    let clients = clients.clone();
    let serve = move || {
        let _known = known;
        match refusal {
            None => {
                let conversation = Conversation { stream: &stream, engine, context: &context };
                // A client that goes away is no error.
                drop(conversation.hold(|| clients.make_room(place)));
            }
            Some(answer) => {
                let _place = place;
                if (&*stream).write_all(answer.as_bytes()).is_ok() {
                    hang_up(&stream);
                }
            }
        }
    };
    // If there is no thread, what was to run on it is dropped, and the client hung up on.
    let _ = thread::Builder::new().name("tprofiler-cli".to_owned()).spawn(serve);
}

/// Who the clients are.
#[derive(Default)]
struct Clients {
    served: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
    is_closed: AtomicBool,
    last: AtomicU64,
    /// By number.
    streams: Mutex<HashMap<u64, Arc<TcpStream>>>,
}

impl Clients {
    fn streams(&self) -> MutexGuard<'_, HashMap<u64, Arc<TcpStream>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the place of one that is about to be turned away to others, if as many are not turned away
    /// already. What is returned is where it is now.
    fn make_room(&self, place: Place) -> Place {
        occupy(&self.refused).unwrap_or(place)
    }

    /// A client's connection, which can be closed from outside until what is returned is dropped.
    fn add(self: &Arc<Self>, stream: Arc<TcpStream>) -> Known {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        self.streams().insert(number, stream);
        Known { clients: self.clone(), number }
    }
}

/// A client that can be hung up on.
struct Known {
    clients: Arc<Clients>,
    number: u64,
}

impl Drop for Known {
    fn drop(&mut self) {
        self.clients.streams().remove(&self.number);
    }
}

/// One of [`MAX_CLIENTS`] places, which is free again when dropped.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn occupy(count: &Arc<AtomicUsize>) -> Option<Place> {
    let more = |n: usize| (n < MAX_CLIENTS).then_some(n + 1);
    let taken = count.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
    taken.is_ok().then(|| Place(count.clone()))
}
