//! The connection to the server. A call lasts until the server has answered: while it is lost, one
//! call tries again from time to time, and the others wait for that one.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use http::uri::PathAndQuery;
use log_format::error::FileError;
use prost::Message;
use thiserror::Error;
use tokio::sync::Mutex;
use tokio::time::{sleep_until, timeout};
use tonic::client::Grpc;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use super::backoff::Backoff;
use crate::error::Error;
use crate::options::{Options, Tls};
use crate::stderr::message;

const CONNECT: Duration = Duration::from_secs(5);
/// How long the server may take for a call.
const ANSWER: Duration = Duration::from_secs(20);

/// The server answered, but did not do what was asked.
#[derive(Debug, Error)]
#[error("{}", text(.0))]
pub(crate) struct Refused(Status);

impl Refused {
    /// Whether the server does not know the method.
    pub(crate) fn is_unimplemented(&self) -> bool {
        self.0.code() == Code::Unimplemented
    }
}

/// The connection to a server that may have several addresses.
pub(crate) struct Link {
    servers: Vec<Server>,
    authentication: Option<AsciiMetadataValue>,
    state: RefCell<State>,
    /// While the server is lost, the holder of this lock tries to reach it.
    turn: Mutex<()>,
}

struct Server {
    address: String,
    endpoint: Endpoint,
}

struct State {
    channel: Channel,
    /// Index of the server.
    server: usize,
    /// Whether it has ever answered, at any address.
    was_reached: bool,
    lost: Option<Lost>,
    /// How often the server was lost and came back.
    returns: u32,
}

struct Lost {
    since: Instant,
    backoff: Backoff,
    next: Instant,
}

impl Link {
    /// Prepares the connection; the first call makes it. Must be called in a runtime.
    ///
    /// # Errors
    /// An address, a token or a certificate cannot be used.
    pub(crate) fn new(options: &Options) -> Result<Self, Error> {
        let tls = options.tls.as_ref().map(tls_config).transpose()?;
        let servers = options.oap.iter().map(|address| {
            let endpoint = endpoint(address, tls.as_ref())?;
            Ok(Server { address: address.clone(), endpoint })
        });
        let servers = servers.collect::<Result<Vec<_>, Error>>()?;
        let wrong = |reason: &str| Error::Address {
            address: options.oap.join(","),
            reason: reason.to_owned(),
        };
        let first = servers.first().ok_or_else(|| wrong("no address"))?;
        let channel = first.endpoint.connect_lazy();
        let authentication = options.authentication.as_deref().map(authentication).transpose()?;
        let state = State { channel, server: 0, was_reached: false, lost: None, returns: 0 };
        Ok(Self { servers, authentication, state: RefCell::new(state), turn: Mutex::new(()) })
    }

    /// Calls a method with one message.
    ///
    /// # Errors
    /// The server refuses it. A lost server is no error: the call lasts until it is back.
    pub(crate) async fn call<Q, A>(&self, path: &'static str, message: &Q) -> Result<A, Refused>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        self.repeat(async |grpc| {
            let request = self.request(message.clone());
            grpc.unary(request, PathAndQuery::from_static(path), ProstCodec::default()).await
        })
        .await
    }

    /// Calls a method with a stream of messages.
    ///
    /// # Errors
    /// As above.
    pub(crate) async fn send<Q, A>(&self, path: &'static str, messages: &[Q]) -> Result<A, Refused>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        self.repeat(async |grpc| {
            let request = self.request(tokio_stream::iter(messages.to_vec()));
            let path = PathAndQuery::from_static(path);
            grpc.client_streaming(request, path, ProstCodec::default()).await
        })
        .await
    }

    /// Addresses of the server.
    pub(crate) fn addresses(&self) -> String {
        self.servers.iter().map(|server| &*server.address).collect::<Vec<_>>().join(", ")
    }

    /// How often the server was lost and came back.
    pub(crate) fn returns(&self) -> u32 {
        self.state.borrow().returns
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.authentication {
            request.metadata_mut().insert("authentication", token.clone());
        }
        request
    }

    async fn repeat<A>(
        &self,
        attempt: impl AsyncFn(&mut Grpc<Channel>) -> Result<tonic::Response<A>, Status>,
    ) -> Result<A, Refused> {
        loop {
            let mut _turn = None;
            if self.next_attempt().is_some() {
                _turn = Some(self.turn.lock().await);
            }
            // Another call may have found it meanwhile.
            if let Some(next) = self.next_attempt() {
                sleep_until(next.into()).await;
            }
            let mut grpc = Grpc::new(self.state.borrow().channel.clone());
            let answer = timeout(ANSWER, async {
                let ready = grpc.ready().await;
                ready.map_err(|error| Status::from_error(error.into()))?;
                attempt(&mut grpc).await
            });
            match answer.await {
                Ok(Ok(answer)) => {
                    self.worked();
                    return Ok(answer.into_inner());
                }
                Ok(Err(status)) if is_answer(&status) => {
                    self.worked();
                    return Err(Refused(status));
                }
                Ok(Err(status)) => self.failed(&text(&status), speaks_otherwise(&status)),
                Err(_) => self.failed(&format!("no answer within {} s", ANSWER.as_secs()), true),
            }
        }
    }

    fn next_attempt(&self) -> Option<Instant> {
        self.state.borrow().lost.as_ref().map(|lost| lost.next)
    }

    fn worked(&self) {
        let mut state = self.state.borrow_mut();
        state.was_reached = true;
        if let Some(lost) = state.lost.take() {
            state.returns = state.returns.wrapping_add(1);
            let address = self.servers.get(state.server).map_or("", |server| &*server.address);
            message!("connected to {address} after {} s", lost.since.elapsed().as_secs());
        }
    }

    /// The server is lost. `is_other` if what listens there may be no gRPC server of this kind.
    fn failed(&self, why: &str, is_other: bool) {
        let mut state = self.state.borrow_mut();
        let now = Instant::now();
        // Several calls may have failed at the same time.
        if state.lost.as_ref().is_some_and(|lost| now < lost.next) {
            return;
        }
        let address = self.servers.get(state.server).map_or("", |server| &*server.address);
        let was_reached = state.was_reached;
        let mut lost = state.lost.take().unwrap_or_else(|| {
            let what = if was_reached { "lost" } else { "cannot reach" };
            let hint = if is_other && !was_reached {
                " (is it the server's gRPC port, usually 11800? does it want --tls, or --cert?)"
            } else {
                ""
            };
            message!("{what} {address}: {why}{hint}; trying again");
            Lost { since: now, backoff: Backoff::default(), next: now }
        });
        lost.next = now + lost.backoff.next();
        state.server = (state.server + 1) % self.servers.len().max(1);
        if let Some(server) = self.servers.get(state.server) {
            state.channel = server.endpoint.connect_lazy();
        }
        state.lost = Some(lost);
    }
}

/// Whether the server itself has answered with this status, and would do so again. A wrong token counts as a lost
/// server: nothing can be done until someone has changed it.
fn is_answer(status: &Status) -> bool {
    use std::error::Error as _;
    let is_lost = matches!(
        status.code(),
        Code::Unavailable
            | Code::DeadlineExceeded
            | Code::Cancelled
            | Code::Aborted
            | Code::PermissionDenied
            | Code::Unauthenticated
    );
    // A status that this side has made has a cause.
    !is_lost && status.source().is_none()
}

/// Whether a connection was made, but what listens there answers in another protocol.
fn speaks_otherwise(status: &Status) -> bool {
    use std::error::Error as _;
    let causes = std::iter::successors(status.source(), |error| (**error).source());
    // Errors of the system have a number, those of TLS are of this kind.
    let mut errors = causes.filter_map(|error| error.downcast_ref::<std::io::Error>());
    let is_known = |error: &std::io::Error| {
        error.raw_os_error().is_some() || error.kind() == std::io::ErrorKind::InvalidData
    };
    status.source().is_some() && !errors.any(is_known)
}

/// The innermost cause says most: `Connection refused`.
fn text(status: &Status) -> String {
    use std::error::Error as _;
    let mut text = status.message().to_owned();
    let mut cause = status.source();
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    if matches!(status.code(), Code::PermissionDenied | Code::Unauthenticated) {
        return format!(
            "the server does not accept the authentication token ({:?})",
            status.code()
        );
    }
    if text.is_empty() { status.code().description().to_owned() } else { text }
}

fn endpoint(address: &str, tls: Option<&ClientTlsConfig>) -> Result<Endpoint, Error> {
    let wrong = |reason: String| Error::Address { address: address.to_owned(), reason };
    let scheme = if tls.is_some() { "https" } else { "http" };
    let is_address = address.rsplit_once(':').is_some_and(|(host, port)| {
        let is_host = !host.contains([':', '/', '@']) || host.starts_with('[');
        !host.is_empty() && is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if !is_address {
        return Err(wrong("not HOST:PORT, as in 127.0.0.1:11800".to_owned()));
    }
    let endpoint = Endpoint::from_shared(format!("{scheme}://{address}"));
    let endpoint = endpoint.map_err(|error| wrong(error.to_string()))?.connect_timeout(CONNECT);
    match tls {
        Some(tls) => endpoint.tls_config(tls.clone()).map_err(|error| Error::Tls(causes(&error))),
        None => Ok(endpoint),
    }
}

fn tls_config(tls: &Tls) -> Result<ClientTlsConfig, Error> {
    let read = |path: &Path| fs::read(path).map_err(FileError::at(path));
    let mut config = match &tls.ca {
        Some(ca) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(ca)?)),
        None => ClientTlsConfig::new().with_native_roots(),
    };
    if let Some((certificate, key)) = &tls.identity {
        config = config.identity(Identity::from_pem(read(certificate)?, read(key)?));
    }
    Ok(config)
}

/// The token is not shown.
fn authentication(token: &str) -> Result<AsciiMetadataValue, Error> {
    let mut value = AsciiMetadataValue::try_from(token).map_err(|_| {
        let reason = "has characters other than visible ASCII";
        log_format::error::BadValue::because(reason).of("--authentication")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_host_and_port() {
        for address in ["127.0.0.1:11800", "oap.example:1", "[::1]:11800"] {
            endpoint(address, None).unwrap();
        }
        for address in ["", "oap", "oap:", ":11800", "oap:0", "oap:70000", "http://oap:1", "a b:1"]
        {
            let error = endpoint(address, None).unwrap_err().to_string();
            assert!(error.starts_with(&format!("--oap {address}: ")), "{error}");
        }
    }

    #[test]
    fn a_servers_answer_is_distinguished_from_a_lost_server() {
        assert!(is_answer(&Status::unimplemented("")));
        assert!(is_answer(&Status::unknown("no storage")));
        assert!(!is_answer(&Status::unavailable("")));
        let broken = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let status = Status::from_error(broken.into());
        assert!(!is_answer(&status));
        assert_eq!(text(&status), "broken pipe");
        assert!(speaks_otherwise(&status));
        let refused = std::io::Error::from_raw_os_error(111);
        assert!(!speaks_otherwise(&Status::from_error(refused.into())));
        assert!(!is_answer(&Status::permission_denied("")));
    }
}
