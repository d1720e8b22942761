//! The schema's name. SQL text always writes it as the quoted identifier `"fencepost"`; an
//! installation under another name replaces exactly that token, once, at start.

use std::fmt;

/// What SQL text writes for the schema.
pub const TOKEN: &str = "\"fencepost\"";

/// PostgreSQL cuts longer identifiers, so that two names could become one.
pub const NAME_BYTES_MAX: usize = 63;

/// A schema name that can be substituted safely: checked, and quoted as an identifier.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Schema {
    name: String,
    quoted: String,
}

/// Why a schema name is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaNameError {
    /// Empty.
    Empty,
    /// Longer than [`NAME_BYTES_MAX`].
    TooLong,
    /// PostgreSQL keeps `pg_...` for itself.
    SystemPrefix,
    /// A control character (NUL among them), `'`, `\` or `$`: the token also stands in string
    /// literals, function bodies and comments.
    Character,
}

impl Schema {
    /// Checks and quotes a name. Case, dots, spaces, hyphens, double quotes and other letters than ASCII are allowed.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn new(name: &str) -> Result<Self, SchemaNameError> {
        if name.is_empty() {
            return Err(SchemaNameError::Empty);
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(SchemaNameError::TooLong);
        }
        if name.starts_with("pg_") {
            return Err(SchemaNameError::SystemPrefix);
        }
        if name.chars().any(|c| c.is_control() || matches!(c, '\'' | '\\' | '$')) {
            return Err(SchemaNameError::Character);
        }
        Ok(Schema { name: name.to_owned(), quoted: quote_identifier(name) })
    }

    /// The bare name, as the catalog holds it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name as a quoted identifier.
    pub fn quoted(&self) -> &str {
        &self.quoted
    }

    /// The text with each [`TOKEN`] replaced by the quoted name.
    pub fn qualify(&self, sql: &str) -> String {
        sql.replace(TOKEN, &self.quoted)
    }
}

impl Default for Schema {
    fn default() -> Self {
        Schema { name: "fencepost".to_owned(), quoted: TOKEN.to_owned() }
    }
}

impl fmt::Display for SchemaNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SchemaNameError::Empty => "the schema name is empty; give 1 to 63 bytes",
            SchemaNameError::TooLong => "the schema name is longer than 63 bytes, where PostgreSQL cuts it; shorten it",
            SchemaNameError::SystemPrefix => {
                "the schema name begins with pg_, which PostgreSQL keeps for itself; choose another"
            }
            SchemaNameError::Character => {
                "the schema name holds a control character, a single quote, a backslash or a dollar sign; leave it out"
            }
        })
    }
}

impl std::error::Error for SchemaNameError {}

/// `name` as a quoted SQL identifier.
pub fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_what_needs_it() {
        for (name, quoted) in [
            ("Order", "\"Order\""),
            ("my-app", "\"my-app\""),
            ("select", "\"select\""),
            ("a.b", "\"a.b\""),
            ("x\"y", "\"x\"\"y\""),
            ("naïve", "\"naïve\""),
        ] {
            assert_eq!(Schema::new(name).expect(name).quoted(), quoted);
        }
    }

    #[test]
    fn refuses_what_it_could_not_substitute() {
        let long = "n".repeat(64);
        for (name, error) in [
            ("", SchemaNameError::Empty),
            (long.as_str(), SchemaNameError::TooLong),
            ("pg_mine", SchemaNameError::SystemPrefix),
            ("a\0b", SchemaNameError::Character),
            ("a\nb", SchemaNameError::Character),
            ("a'b", SchemaNameError::Character),
            ("a$b", SchemaNameError::Character),
            ("a\\b", SchemaNameError::Character),
        ] {
            assert_eq!(Schema::new(name), Err(error), "{name:?}");
        }
        assert!(Schema::new(&"n".repeat(63)).is_ok());
    }

    #[test]
    fn replaces_the_token_and_nothing_else() {
        let schema = Schema::new("x\"y").expect("a name");
        let sql = "SELECT '\"fencepost\".a'::regclass, fencepost, \"fencepost_owner\" FROM \"fencepost\".b";
        assert_eq!(
            schema.qualify(sql),
            "SELECT '\"x\"\"y\".a'::regclass, fencepost, \"fencepost_owner\" FROM \"x\"\"y\".b"
        );
        assert_eq!(Schema::default().qualify(sql), sql);
        assert_eq!(Schema::default(), Schema::new("fencepost").expect("the default"));
    }
}
