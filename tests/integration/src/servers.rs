//! Servers of one test alone, for tests that kill, freeze or restart them, or need them set up otherwise.
//! The same scripts start them that start the shared ones.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::acl;
use crate::env;
use crate::kafka::Kafka;
use crate::process::TestFolder;
use crate::proxy::Proxy;
use crate::random;

/// A PostgreSQL of one test. Dropping it stops it.
pub struct PrivatePostgres {
    server: Server,
    url: String,
}

impl PrivatePostgres {
    /// Makes one and starts it. `settings` as in `postgresql.conf`, such as `fsync=off` or `wal_level=logical`.
    ///
    /// # Panics
    /// When it does not start, with the script's words.
    pub fn start(settings: &[&str]) -> Self {
        let server = Server::new("postgres-server");
        let url = server.run("up", &flags("-s", settings));
        PrivatePostgres { server, url }
    }

    /// URL of its superuser; restarts don't change it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Ends it without a checkpoint, as a power cut would.
    ///
    /// # Panics
    /// When it does not end.
    pub fn crash(&self) {
        self.server.run("crash", &[]);
    }

    /// Stops it in good order; open connections are ended.
    ///
    /// # Panics
    /// When it does not end.
    pub fn stop(&self) {
        self.server.run("down", &[]);
    }

    /// Starts it again, at the same address. Returns when it has recovered and takes connections.
    ///
    /// # Panics
    /// When it does not start.
    pub fn restart(&self) {
        self.server.run("up", &[]);
    }
}

/// A PgBouncer of one test before a server, in transaction mode. Dropping it stops it.
pub struct PrivatePooler {
    _server: Server,
    address: String,
}

impl PrivatePooler {
    /// Starts one before the server at `target`, `host:port`, with extra settings such as `default_pool_size=2`.
    ///
    /// # Panics
    /// When it does not start, with the script's words.
    pub fn start(target: &str, settings: &[&str]) -> Self {
        let server = Server::new("pgbouncer-server");
        let mut arguments = flags("-t", &[target]);
        arguments.extend(flags("-s", settings));
        let address = server.run("up", &arguments);
        PrivatePooler { _server: server, address }
    }

    /// Where clients go, `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }
}

/// A Kafka broker of one test. Dropping it stops it. Besides the address for clients it has an internal
/// one, which the broker itself and [`Self::kafka`] use: no proxy and no access rule stands before it.
pub struct PrivateKafka {
    server: Server,
    address: String,
    internal: String,
}

impl PrivateKafka {
    /// Makes one and starts it, with extra broker properties such as `message.max.bytes=2000`.
    ///
    /// # Panics
    /// When it does not start, with the script's words.
    pub fn start(properties: &[&str]) -> Self {
        Self::launch(properties, None)
    }

    /// One that tells its clients to come through the proxy which is returned with it.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn behind_proxy(properties: &[&str]) -> (Self, Proxy) {
        let port = random::free_port();
        let mut broker = Self::launch(properties, Some(port));
        let proxy = Proxy::bind(port, &broker.address).await;
        broker.address = proxy.address();
        (broker, proxy)
    }

    fn launch(properties: &[&str], advertised: Option<u16>) -> Self {
        let server = Server::new("kafka-server");
        // a broker that comes back after a kill waits until its former life has timed out
        let quick = ["broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500"];
        let mut arguments = flags("-s", &quick);
        arguments.extend(flags("-s", properties));
        arguments.extend(advertised.iter().flat_map(|port| ["-a".to_owned(), port.to_string()]));
        let address = server.run("up", &arguments);
        let internal = fs::read_to_string(server.place().join("internal")).expect("the script wrote it");
        PrivateKafka { server, address, internal: internal.trim().to_owned() }
    }

    /// Where clients go, `host:port` (the proxy, if it is behind one); restarts don't change it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The harness's own way to it.
    pub fn kafka(&self) -> Kafka {
        Kafka::at(&self.internal)
    }

    /// SIGKILL.
    ///
    /// # Panics
    /// When it does not end.
    pub fn kill9(&self) {
        self.server.run("kill", &[]);
    }

    /// Stops it in good order.
    ///
    /// # Panics
    /// When it does not end.
    pub fn stop(&self) {
        self.server.run("down", &[]);
    }

    /// Starts it again, at the same address. Returns when it takes requests.
    ///
    /// # Panics
    /// When it does not start.
    pub fn restart(&self) {
        self.server.run("up", &[]);
    }
}

/// A broker that knows its users: clients log in by SASL/PLAIN and may do what ACLs allow them; the
/// internal listener lets everybody do everything.
pub struct SecuredKafka {
    broker: PrivateKafka,
}

impl SecuredKafka {
    /// The user that [`Self::user`] logs in as; may do nothing until [`Self::allow_write`].
    pub const USER: &str = "relay";
    /// That user's password.
    pub const PASSWORD: &str = "relay-secret";

    /// Makes one and starts it.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start() -> Self {
        let login = "org.apache.kafka.common.security.plain.PlainLoginModule";
        let jaas = format!("{login} required user_{}=\"{}\";", Self::USER, Self::PASSWORD);
        let listeners = "SASL_PLAINTEXT://127.0.0.1:{port},INTERNAL://127.0.0.1:{internal}";
        let broker = PrivateKafka::start(&[
            &format!("listeners={listeners},CONTROLLER://127.0.0.1:{{controller}}"),
            &format!("advertised.listeners={listeners}"),
            "sasl.enabled.mechanisms=PLAIN",
            &format!("listener.name.sasl_plaintext.plain.sasl.jaas.config={jaas}"),
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users=User:ANONYMOUS",
        ]);
        SecuredKafka { broker }
    }

    /// The broker.
    pub fn broker(&self) -> &PrivateKafka {
        &self.broker
    }

    /// A client that logs in as [`Self::USER`].
    pub fn user(&self) -> Kafka {
        Kafka::at(self.broker.address())
            .with("security.protocol", "SASL_PLAINTEXT")
            .with("sasl.mechanism", "PLAIN")
            .with("sasl.username", Self::USER)
            .with("sasl.password", Self::PASSWORD)
    }

    /// Lets [`Self::USER`] write to a topic.
    ///
    /// # Panics
    /// When the broker refuses.
    pub fn allow_write(&self, topic: &str) {
        acl::change(&self.broker.internal, acl::Change::Allow, Self::USER, topic);
    }

    /// Forbids [`Self::USER`] to write to a topic, whatever it was allowed.
    ///
    /// # Panics
    /// When the broker refuses.
    pub fn deny_write(&self, topic: &str) {
        acl::change(&self.broker.internal, acl::Change::Deny, Self::USER, topic);
    }
}

/// What a script started in a folder.
struct Server {
    script: PathBuf,
    folder: TestFolder,
}

impl Server {
    fn new(script: &str) -> Self {
        Server { script: env::project_root().join("scripts").join(script), folder: TestFolder::create(script) }
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("server")
    }

    /// Runs a verb of the script and returns what it printed.
    fn run(&self, verb: &str, arguments: &[String]) -> String {
        let output =
            Command::new(&self.script).arg(verb).arg(self.place()).args(arguments).output().expect("bash runs");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} {verb}: {words}", self.script.display());
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // a test that failed keeps the folder with the server's log; a second panic would hide the first
        let _ = Command::new(&self.script).arg("down").arg(self.place()).output();
    }
}

fn flags(flag: &str, values: &[&str]) -> Vec<String> {
    values.iter().flat_map(|value| [flag.to_owned(), (*value).to_owned()]).collect()
}
