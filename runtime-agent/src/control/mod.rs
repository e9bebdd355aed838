//! Remote control over TCP, by lines of text. `docs/control.md` is the authority on the protocol.
//!
//! Every user of this machine can connect, and so can a server that is tricked into fetching a URL. So a client has
//! to prove that it knows the token ([`token_proof`]), which decides what it may do ([`access`]). Unauthenticated
//! clients are limited in number ([`clients`]) and rate ([`rate`]), and cannot use up the share of clients that know
//! the token.
//!
//! Each client has its own thread, which only asks the agent thread and waits: no client can delay a probe.
//! A line is at most 4,096 bytes, and a silent client is disconnected. The first line that is no command
//! ends the connection, so that a web page's request cannot smuggle one in.

mod access;
mod answer;
mod answers;
mod blocked;
mod clients;
mod commands;
mod context;
mod conversation;
mod line;
mod method_answers;
mod rate;
mod recent_status;
mod task_answers;
pub(crate) mod token;
pub(crate) mod token_proof;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use log_format::error::BadValue;

use self::clients::{CONNECTIONS, Clients};
use self::context::Context;
use self::conversation::Conversation;
use self::rate::RateLimit;
use self::token::{Token, TokenFile};
use crate::attach_protocol;
use crate::error::Error;
use crate::log::folder::RunFolder;
use crate::options::{ControlOptions, Options};
use crate::request::Handle;
use crate::stderr::message;
use crate::sys::native_thread::{self, Priority};

const IDLE: Duration = Duration::from_secs(30);
const WRITE: Duration = Duration::from_secs(5);
/// How many ports are tried, from the requested one on.
const PORTS: u16 = 16;

/// A port to listen on.
pub(crate) struct Control {
    listener: TcpListener,
    port: u16,
    context: Context,
    token_file: Option<TokenFile>,
}

impl Control {
    /// Takes the port that the options name, or the next free one of 16; `None` if they disable control. Creates the
    /// token in the run's `folder`, unless the options name a token file.
    pub(crate) fn bind(options: &Options, folder: &Arc<RunFolder>) -> Option<Result<Self, Error>> {
        let first = options.control.port?;
        Some(token_for(&options.control, folder).and_then(|(token, token_file)| {
            let (listener, port) = listen(options.control.bind, first)?;
            let context = Context::new(options, port, token);
            Ok(Self { listener, port, context, token_file })
        }))
    }

    /// Reports on stderr if the port is not the one that the options name, or why there is none.
    pub(crate) fn tell(bound: Result<Self, Error>, named: Option<u16>) -> Option<Self> {
        match bound {
            Ok(control) => {
                if let Some(first) = named.filter(|first| *first != control.port) {
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
    pub(crate) fn serve(self, agent: Handle) -> Option<Serving> {
        let Self { listener, port, context, token_file } = self;
        let clients = Arc::new(Clients::default());
        let listener = Arc::new(listener);
        let (named, is_named) = mpsc::channel();
        let serve = {
            let (clients, listener) = (clients.clone(), listener.clone());
            move || {
                // From now on its name is visible from outside. The waiting thread may be gone.
                let _ = named.send(());
                accept(&listener, &agent, &Arc::new(context), &clients);
            }
        };
        let name = attach_protocol::control_thread(port);
        match native_thread::spawn(&name, Priority::Normal, serve) {
            Ok(thread) => {
                // An error would mean that the thread has ended.
                let _ = is_named.recv();
                Some(Serving { listener, clients, thread, _token_file: token_file })
            }
            Err(error) => {
                message!("no thread for remote control: {error}");
                None
            }
        }
    }
}

/// Accepts clients until control is closed. They are accepted in order and at a limited rate, so a flood
/// of connections delays the owner and does not keep it out.
fn accept(listener: &TcpListener, agent: &Handle, context: &Arc<Context>, clients: &Arc<Clients>) {
    let turns = RateLimit::new(CONNECTIONS.0, CONNECTIONS.1);
    loop {
        let accepted = listener.accept();
        if clients.is_closed() {
            return;
        }
        match accepted {
            Ok((stream, address)) => {
                thread::sleep(turns.take().unwrap_or(rate::MAX_WAIT));
                admit(stream, address, agent, context, clients);
            }
            // Probably out of file descriptors; some may be free again later.
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// The token: that of `token_file`, or a new one in the run's `folder`. Clients on other machines could not
/// read that, so another address than loopback needs a `token_file`.
fn token_for(
    options: &ControlOptions,
    folder: &Arc<RunFolder>,
) -> Result<(Token, Option<TokenFile>), Error> {
    match &options.token_file {
        Some(path) => {
            let token = Token::read(path).map_err(|error| error.of("token_file"))?;
            Ok((token, None))
        }
        None if options.bind.is_loopback() => {
            let (token, file) = Token::create(folder)?;
            Ok((token, Some(file)))
        }
        None => {
            let reason = "can be reached from elsewhere, which takes a token_file";
            Err(BadValue::because(format!("{} {reason}", options.bind)).of("bind").into())
        }
    }
}

/// Takes `first` or the next free one of 16 ports.
fn listen(address: IpAddr, first: u16) -> Result<(TcpListener, u16), Error> {
    let last = first.saturating_add(PORTS - 1);
    let mut source = io::ErrorKind::AddrInUse.into();
    for port in first..=last {
        match TcpListener::bind(SocketAddr::new(address, port)) {
            Ok(listener) => return Ok((listener, port)),
            Err(error) => source = error,
        }
    }
    Err(Error::NoPort { first, last, source })
}

/// A port that the agent listens on.
pub(crate) struct Serving {
    listener: Arc<TcpListener>,
    clients: Arc<Clients>,
    thread: thread::JoinHandle<()>,
    _token_file: Option<TokenFile>,
}

impl Serving {
    /// Closes the port, closes each connection after the answer in progress, and deletes the token.
    pub(crate) fn close(self) {
        self.clients.close();
        // This wakes the thread up.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        drop(self.listener);
        // The thread cannot have panicked.
        let _ = self.thread.join();
    }
}

fn admit(
    stream: TcpStream,
    address: SocketAddr,
    agent: &Handle,
    context: &Arc<Context>,
    clients: &Arc<Clients>,
) {
    let timeouts = stream
        .set_read_timeout(Some(IDLE))
        .and_then(|()| stream.set_write_timeout(Some(WRITE)))
        .and_then(|()| stream.set_nodelay(true));
    if timeouts.is_err() {
        return;
    }
    let stream = Arc::new(stream);
    let Some(place) = clients.admit(stream.clone()) else { return };
    let (agent, context) = (agent.clone(), context.clone());
    let is_loopback = address.ip().to_canonical().is_loopback();
    let serve = move || {
        let (stream, place, context) = (&*stream, &place, &*context);
        // A client that disconnects is not an error.
        drop(Conversation { stream, place, agent, context, is_loopback }.hold());
    };
    // Without a thread, its closure is dropped, which hangs up on the client.
    let _ = thread::Builder::new().name("tprofiler-cli".to_owned()).spawn(serve);
}
