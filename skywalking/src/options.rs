//! What the user chooses.

use std::path::PathBuf;
use std::time::Duration;

/// What the user chooses.
#[derive(Clone)]
pub struct Options {
    /// Addresses of the server, `HOST:PORT`; if one fails, the next is tried.
    pub oap: Vec<String>,
    /// Use TLS.
    pub tls: Option<Tls>,
    /// The token that SkyWalking's `authentication` setting asks for.
    pub authentication: Option<String>,
    /// Name of the service.
    pub service: String,
    /// Name of the instance; without one, the host's.
    pub instance: Option<String>,
    /// The service's layer.
    pub layer: String,
    /// What the UI shows of the instance, besides what the runs say.
    pub properties: Vec<(String, String)>,
    /// The folder of runs.
    pub logs: PathBuf,
    /// Which methods are an endpoint.
    pub endpoints: Option<PathBuf>,
    /// The agents' token, if they read it from a file.
    pub token_file: Option<PathBuf>,
    /// How often to ask for tasks.
    pub poll: Duration,
    /// Brokers that take snapshots, `HOST:PORT`; without any, the server does.
    pub kafka: Vec<String>,
}

/// How to use TLS.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// Certificates of authorities; without, those of the system.
    pub ca: Option<PathBuf>,
    /// The certificate and the key with which this program proves who it is.
    pub identity: Option<(PathBuf, PathBuf)>,
}
