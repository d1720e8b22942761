//! How to reach a source's database, from a URL or its parts. The URL is taken apart here and nowhere else, so that
//! no client's error can print one with a password in it.

use std::fmt;
use std::path::PathBuf;

use super::tree::{Path, Tree};
use super::{ConfigErrors, Secret};

/// A database server, a database, and who one is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Database {
    /// Host name, IP address without brackets, or the directory of a Unix socket (begins with `/`).
    pub host: String,
    /// TCP port, or the socket's number.
    pub port: u16,
    /// Name of the database.
    pub name: String,
    /// Role.
    pub user: String,
    /// Its password, if it needs one.
    pub password: Option<Secret>,
    /// TLS.
    pub tls: DatabaseTls,
}

/// TLS to a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseTls {
    /// How much is asked of the server.
    pub mode: TlsMode,
    /// PEM file of authorities.
    pub ca_file: Option<PathBuf>,
    /// PEM file of a client certificate.
    pub cert_file: Option<PathBuf>,
    /// PEM file of its key.
    pub key_file: Option<PathBuf>,
}

/// PostgreSQL's `sslmode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// Never.
    Disable,
    /// If the server offers it.
    #[default]
    Prefer,
    /// Always, with any certificate.
    Require,
    /// Always, with a certificate of a trusted authority.
    VerifyCa,
    /// And for this host.
    VerifyFull,
}

impl TlsMode {
    const ALL: [TlsMode; 5] =
        [TlsMode::Disable, TlsMode::Prefer, TlsMode::Require, TlsMode::VerifyCa, TlsMode::VerifyFull];

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// As `sslmode` names it.
    pub const fn name(self) -> &'static str {
        match self {
            TlsMode::Disable => "disable",
            TlsMode::Prefer => "prefer",
            TlsMode::Require => "require",
            TlsMode::VerifyCa => "verify-ca",
            TlsMode::VerifyFull => "verify-full",
        }
    }
}

/// Without the password: for logs.
impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}:{}/{}", self.user, self.host, self.port, self.name)
    }
}

const PORT: u16 = 5432;

impl Database {
    /// Reads `postgres://user:password@host:port/name?sslmode=...`. Where a URL and a password leave doubt about
    /// where one ends, it is refused rather than guessed.
    ///
    /// # Errors
    /// What is wrong; no part of the URL is quoted but the names of its parameters.
    pub fn from_url(url: &str) -> Result<Self, String> {
        let rest = ["postgres://", "postgresql://"].iter().find_map(|scheme| url.strip_prefix(scheme)).ok_or(
            "the url must begin with postgres:// (a key=value connection string is not taken: use host, port, database, user)",
        )?;
        let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (userinfo, host) = authority.rsplit_once('@').map_or((None, authority), |(who, at)| (Some(who), at));
        // An unescaped / ? # in a password ends the authority too early, and the @ comes after.
        if tail.contains('#') || (userinfo.is_none() && tail.split('?').next().is_some_and(|path| path.contains('@'))) {
            return Err(ESCAPE.into());
        }
        let mut database = Database { port: PORT, ..Database::default() };
        if let Some(userinfo) = userinfo {
            let (user, password) = userinfo.split_once(':').map_or((userinfo, None), |(u, p)| (u, Some(p)));
            database.user = decode(user)?;
            database.password = password.map(decode).transpose()?.filter(|text| !text.is_empty()).map(Secret::new);
        }
        database.take_host(host)?;
        let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
        database.name = decode(path.trim_start_matches('/'))?;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            database.parameter(key, decode(value)?)?;
        }
        Ok(database)
    }

    /// The same as a URL that every client reads alike, without the password.
    pub fn url(&self) -> String {
        let mut url =
            format!("postgres://{}@{}:{}/{}", encode(&self.user), self.url_host(), self.port, encode(&self.name));
        url.push_str("?sslmode=");
        url.push_str(self.tls.mode.name());
        let tls = &self.tls;
        for (key, file) in [("sslrootcert", &tls.ca_file), ("sslcert", &tls.cert_file), ("sslkey", &tls.key_file)] {
            if let Some(file) = file {
                url.push_str(&format!("&{key}={}", encode(&file.display().to_string())));
            }
        }
        url
    }

    fn url_host(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { encode(&self.host) }
    }

    fn take_host(&mut self, host: &str) -> Result<(), String> {
        let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, port)) => (address, port.strip_prefix(':')),
            None => host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
        };
        self.host = decode(name)?;
        if let Some(port) = port.filter(|port| !port.is_empty()) {
            // Several hosts, or a password's tail: either way not a port, and not to be quoted.
            self.port = port
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or_else(|| format!("the url's port is not 1 to 65535; {ESCAPE}"))?;
        }
        if self.host.contains(|c: char| c.is_whitespace() || ",@?#\\".contains(c)) {
            return Err(format!("the url's host is not one host name; {ESCAPE}"));
        }
        Ok(())
    }

    fn parameter(&mut self, key: &str, value: String) -> Result<(), String> {
        let tls = &mut self.tls;
        match key {
            "sslmode" | "ssl-mode" => {
                tls.mode = TlsMode::named(&value)
                    .ok_or("the url's sslmode must be disable, prefer, require, verify-ca or verify-full")?;
            }
            "sslrootcert" => tls.ca_file = Some(value.into()),
            "sslcert" => tls.cert_file = Some(value.into()),
            "sslkey" => tls.key_file = Some(value.into()),
            "host" => self.host = value,
            "user" => self.user = value,
            "dbname" => self.name = value,
            "password" => self.password = Some(Secret::new(value)),
            "port" => self.port = value.parse().map_err(|_| "the url's parameter port is not a port")?,
            // The session's settings are the relay's own; silently dropping others would surprise.
            _ if super::rules::is_name(key) => {
                return Err(format!("the url's parameter {key} is not supported: remove it"));
            }
            _ => return Err(ESCAPE.into()),
        }
        Ok(())
    }
}

const ESCAPE: &str = "if the password has one of / ? # @ : % [ ] in it, write each as %XX, or give the password by \
    password_file or FENCEPOST__SOURCE__0__PASSWORD, where it needs no escaping";

/// Percent-encodes all but unreserved characters.
fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// Percent-decodes.
fn decode(text: &str) -> Result<String, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(format!("the url has a % without two hexadecimal digits; {ESCAPE}"));
        };
        out.push(u8::try_from(high * 16 + low).unwrap_or_default());
    }
    String::from_utf8(out).map_err(|_| "the url's escapes are not UTF-8".into())
}

/// Keys of a source that this module turns into a [`Database`].
pub(super) const KEYS: [&str; 13] = [
    "url",
    "url_file",
    "url_env",
    "host",
    "port",
    "database",
    "user",
    "password",
    "password_file",
    "tls",
    "tls_ca_file",
    "tls_cert_file",
    "tls_key_file",
];

/// The database of one source. Files and variables were read before: url and password stand in the tree.
///
/// # Errors
/// What is missing or contradicts.
pub(super) fn of_source(tree: &Tree, source: usize) -> Result<Database, ConfigErrors> {
    let path = |key: &str| Path::of_source(source, key);
    let text = |key: &str| tree.text(&path(key)).map(str::to_owned);
    let mut database = match tree.text(&path("url")) {
        Some(url) => {
            if let Some(key) = ["host", "database", "user"].into_iter().find(|key| text(key).is_some()) {
                let also = format!("source.{source} has both a url and {key}: give the url or the parts");
                return Err(ConfigErrors::one(tree.origin(&path(key)).cloned(), also));
            }
            let fault =
                |why| ConfigErrors::one(tree.origin(&path("url")).cloned(), format!("source.{source}.url: {why}"));
            Database::from_url(url).map_err(fault)?
        }
        None => Database {
            host: text("host").unwrap_or_default(),
            port: port(tree, &path("port")),
            name: text("database").unwrap_or_default(),
            user: text("user").unwrap_or_default(),
            ..Database::default()
        },
    };
    complete(&mut database, &text);
    let missing = [("host", &database.host), ("user", &database.user), ("database", &database.name)];
    if let Some((what, _)) = missing.into_iter().find(|(_, value)| value.is_empty()) {
        let name = text("name").unwrap_or_default();
        let env = format!("FENCEPOST__SOURCE__{source}__URL");
        let text = format!(
            "source {name:?} names no database ({what} is missing): give it a url, in url_file, url_env or {env}, or host, database and user"
        );
        return Err(ConfigErrors::one(tree.origin(&path("name")).cloned(), text));
    }
    Ok(database)
}

/// What the source's own keys add to a URL; a URL's own words win.
fn complete(database: &mut Database, text: &impl Fn(&str) -> Option<String>) {
    if database.password.is_none() {
        database.password = text("password").map(Secret::new);
    }
    let tls = &mut database.tls;
    if tls.mode == TlsMode::default() {
        tls.mode = text("tls").and_then(|mode| TlsMode::named(&mode)).unwrap_or_default();
    }
    for (slot, key) in
        [(&mut tls.ca_file, "tls_ca_file"), (&mut tls.cert_file, "tls_cert_file"), (&mut tls.key_file, "tls_key_file")]
    {
        if slot.is_none() {
            *slot = text(key).map(PathBuf::from);
        }
    }
}

fn port(tree: &Tree, path: &Path) -> u16 {
    match tree.get(path).map(|entry| &entry.value) {
        Some(super::tree::Value::Int(port)) => u16::try_from(*port).unwrap_or(PORT),
        _ => PORT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Database {
        Database::from_url(url).unwrap_or_else(|why| panic!("{why}"))
    }

    #[test]
    fn takes_a_url_apart() {
        let full = read("postgresql://me:p%40ss%2F@db.example:6000/app?sslmode=verify-full&sslrootcert=/ca.pem");
        assert_eq!(full.to_string(), "me@db.example:6000/app");
        assert_eq!(full.password.as_ref().map(Secret::expose), Some("p@ss/"));
        assert_eq!(full.tls.mode, TlsMode::VerifyFull);
        assert_eq!(full.tls.ca_file, Some("/ca.pem".into()));
        assert_eq!(read("postgres://me@[::1]/app").to_string(), "me@::1:5432/app");
        assert_eq!(read("postgres://me@/app?host=/run/pg").host, "/run/pg");
        assert_eq!(read("postgres://me@%2Frun%2Fpg/app").host, "/run/pg");
    }

    #[test]
    fn characters_that_leave_no_doubt_need_no_escape() {
        let odd = read("postgres://me:p^w$d@1@host/app");
        assert_eq!((odd.password.as_ref().map(Secret::expose), odd.host.as_str()), (Some("p^w$d@1"), "host"));
    }

    #[test]
    fn b165_what_leaves_doubt_is_refused_without_an_echo() {
        let bad = [
            "postgres://me:p^w$#d@1@host/app",
            "postgres://me:SECRET#x@host/app",
            "postgres://me:SECRET/x@host/app",
            "postgres://me:SECRET?x@host/app",
            "postgres://me:SECRET%x@host/app",
            "postgres://me:SECRET%@host/app",
            "postgres://me:1234/SECRET@host/app",
            "postgres://me:SECRET@host:port/app",
            "postgres://me:SECRET@host:0/app",
            "postgres://me:SECRET@a,b/app",
            "postgres://me:SECRET@host/app?channel_binding=SECRET",
            "postgres://me:SECRET@host/app?sslmode=SECRET",
            "postgres://me:SECRET@host/app?port=SECRET",
            "host=h user=u password=SECRET dbname=d",
            "SECRET",
        ];
        for url in bad {
            let why = Database::from_url(url).expect_err(url);
            assert!(!why.contains("SECRET") && !why.contains("p^w"), "{why}");
        }
    }

    #[test]
    fn its_own_url_reads_back_without_the_password() {
        for url in [
            "postgres://m%40e:SECRET@db.example:6000/a%2Fp?sslmode=verify-ca&sslrootcert=/my%20ca.pem&sslcert=/c&sslkey=/k",
            "postgres://me:SECRET@[::1]/app",
            "postgres://me:SECRET@%2Frun%2Fpg/app",
        ] {
            let database = read(url);
            assert!(!database.url().contains("SECRET"));
            assert_eq!(read(&database.url()), Database { password: None, ..database });
        }
    }

    #[test]
    fn shows_no_password() {
        let database = read("postgres://me:SECRET@host/app");
        assert!(!format!("{database} {database:?}").contains("SECRET"));
    }
}
