//! The optional roles step: names from a prefix, and the text that makes and grants them.

use std::fmt;

use fencepost_core::schema::quote_identifier;
use sqlx::{Connection, PgConnection};

use super::{MigrateError, Migrator};

const ROLES: &str = include_str!("../../../../../migrations/postgres/roles.sql");
const KINDS: [&str; 4] = ["owner", "producer", "relay", "admin"];
/// `_producer`, the longest suffix, must fit PostgreSQL's 63 bytes too.
const PREFIX_BYTES_MAX: usize = 54;

/// What the four roles' names begin with: `<prefix>_owner`, `_producer`, `_relay`, `_admin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolePrefix(String);

/// Why a prefix is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolePrefixError;

impl RolePrefix {
    /// Checks a prefix.
    ///
    /// # Errors
    /// Empty, longer than 54 bytes, beginning with `pg_`, or with a control character, `'`, `\` or `$`.
    pub fn new(prefix: &str) -> Result<Self, RolePrefixError> {
        let refused = |c: char| c.is_control() || matches!(c, '\'' | '\\' | '$');
        if prefix.is_empty() || prefix.len() > PREFIX_BYTES_MAX || prefix.starts_with("pg_") || prefix.contains(refused)
        {
            return Err(RolePrefixError);
        }
        Ok(RolePrefix(prefix.to_owned()))
    }

    fn substitute(&self, sql: &str) -> String {
        KINDS.iter().fold(sql.to_owned(), |sql, kind| {
            sql.replace(&format!("\"fencepost_{kind}\""), &quote_identifier(&format!("{}_{kind}", self.0)))
        })
    }
}

impl Default for RolePrefix {
    fn default() -> Self {
        RolePrefix("fencepost".to_owned())
    }
}

impl fmt::Display for RolePrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a role prefix is 1 to 54 bytes, does not begin with pg_, and has no control character, single quote, \
             backslash or dollar sign; choose another",
        )
    }
}

impl std::error::Error for RolePrefixError {}

impl Migrator {
    /// The SQL of the roles step, for a DBA; made without a database.
    pub fn roles_sql(&self, prefix: &RolePrefix) -> String {
        // the schema first: its name must not be searched for role names
        let sql = prefix.substitute(ROLES);
        self.schema.qualify(&sql)
    }

    /// Makes the roles where they are missing, hands the objects to the owner role and grants the
    /// rest its rights, in one transaction. Run it again after each migration.
    ///
    /// # Errors
    /// [`MigrateError::Denied`] where the session may not create roles or give objects away; nothing is changed then.
    pub async fn roles(&self, connection: &mut PgConnection, prefix: &RolePrefix) -> Result<(), MigrateError> {
        let what = "making roles and grants";
        let mut tx = connection.begin().await.map_err(|e| self.sort(what, e))?;
        let made = async {
            self.run(&mut tx, "setting up the session", self.settings()).await?;
            self.run(&mut tx, what, self.roles_sql(prefix)).await
        };
        match made.await {
            Ok(()) => tx.commit().await.map_err(|e| self.sort(what, e)),
            Err(error) => {
                // the first error is the one to tell
                let _ = tx.rollback().await;
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_prefix() {
        let sql = RolePrefix::new("a\"b").expect("a prefix").substitute("x \"fencepost_relay\" \"fencepost\".y");
        assert_eq!(sql, "x \"a\"\"b_relay\" \"fencepost\".y");
        assert_eq!(RolePrefix::default().substitute(ROLES), ROLES);
    }

    #[test]
    fn refuses_what_can_not_be_quoted_everywhere() {
        let long = "p".repeat(55);
        for prefix in ["", "pg_x", "a'b", "a\0", "a$b", &long] {
            assert_eq!(RolePrefix::new(prefix), Err(RolePrefixError), "{prefix:?}");
        }
    }
}
