//! `fencepost healthcheck`

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use clap::Args;

use super::{CliError, Exit, Output};
use crate::http::ask_ready;

/// Ask a running relay whether it is ready; for containers.
#[derive(Debug, Args)]
pub struct Healthcheck {
    /// Address of the relay's HTTP. Default: http.listen of the configuration.
    #[arg(long, value_name = "IP:PORT")]
    pub address: Option<SocketAddr>,
    /// How long to wait for the answer.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
}

/// Asks; `listen` is the configured address. Prints the relay's own answer.
///
/// # Errors
/// Not ready is [`Exit::Failed`], no answer [`Exit::Unreachable`].
pub async fn run(verb: &Healthcheck, listen: Option<SocketAddr>, out: &mut Output<'_>) -> Result<(), CliError> {
    let off =
        || CliError::new(Exit::Usage, "http.listen is empty, so the relay answers nobody; set it, or give --address");
    let address = reachable(verb.address.or(listen).ok_or_else(off)?);
    match ask_ready(address, verb.timeout).await {
        Ok(answer) => out.line(answer),
        Err(why) if why.starts_with("not ready") => Err(CliError::new(Exit::Failed, why)),
        Err(why) => Err(CliError::new(Exit::Unreachable, format!("{why}; is the relay running?"))),
    }
}

/// A relay that listens on all addresses is asked on loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
