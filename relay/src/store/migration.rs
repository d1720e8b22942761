//! What the migrations of every database have in common: numbered texts that never change once they landed, the list
//! of those that were applied, and which comes next.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// One numbered step of the schema.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Counts from 1 without gaps.
    pub version: i32,
    /// Short name, as in the file's name.
    pub name: &'static str,
    pub(in crate::store) text: &'static str,
}

impl Migration {
    /// SHA-256 in hex of the text as it stands in the repository: the same for every schema name, line
    /// ending and amount of white space at the end.
    pub fn checksum(&self) -> String {
        let text = self.text.replace("\r\n", "\n");
        Sha256::digest(text.trim_end().as_bytes()).iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}

/// One line of `fencepost migrate status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Number of the migration.
    pub version: i32,
    /// Its name.
    pub name: String,
    /// When it was applied, in microseconds since the Unix epoch by the database's clock; `None` while it is pending.
    pub applied_at_us: Option<i64>,
}

impl Status {
    /// What was applied, then what is pending.
    pub(in crate::store) fn of(known: &[Migration], applied: &[Applied]) -> Vec<Status> {
        let done =
            |a: &Applied| Status { version: a.version, name: a.name.clone(), applied_at_us: Some(a.applied_at_us) };
        let pending = known.iter().filter(|m| applied.iter().all(|a| a.version != m.version));
        let pending = pending.map(|m| Status { version: m.version, name: m.name.to_owned(), applied_at_us: None });
        applied.iter().map(done).chain(pending).collect()
    }
}

/// A line of the list of applied migrations.
pub(in crate::store) struct Applied {
    pub(in crate::store) version: i32,
    pub(in crate::store) name: String,
    pub(in crate::store) checksum: String,
    pub(in crate::store) applied_at_us: i64,
}

/// How the applied migrations differ from this program's.
#[derive(Debug)]
pub(in crate::store) enum Mismatch {
    /// One is newer than the program.
    Unknown(i32),
    /// One has another text, or an earlier one was left out.
    Changed { version: i32, name: String },
}

/// The first migration that was not applied, once the applied ones are exactly this program's first ones.
pub(in crate::store) fn next_after(
    known: &'static [Migration],
    applied: &[Applied],
) -> Result<Option<&'static Migration>, Mismatch> {
    for (at, row) in applied.iter().enumerate() {
        if row.version > known.last().map_or(0, |m| m.version) {
            return Err(Mismatch::Unknown(row.version));
        }
        let same = known.get(at).is_some_and(|m| m.version == row.version && m.checksum() == row.checksum);
        if !same {
            return Err(Mismatch::Changed { version: row.version, name: row.name.clone() });
        }
    }
    Ok(known.get(applied.len()))
}

#[cfg(test)]
pub(in crate::store) mod tests {
    use super::*;

    const KNOWN: &[Migration] =
        &[Migration { version: 1, name: "a", text: "A" }, Migration { version: 2, name: "b", text: "B" }];

    /// Also that each says so in the settings, which relays read.
    pub(in crate::store) fn versions_count_from_one(known: &[Migration]) {
        for (at, migration) in known.iter().enumerate() {
            assert_eq!(migration.version, i32::try_from(at + 1).expect("few"));
            let newest = format!("schema_version{}{};", if at == 0 { ") VALUES (" } else { " = " }, migration.version);
            let newest = newest.replace("1;", "1);");
            let text = migration.text.replace(")\nVALUES (", ") VALUES (");
            assert!(text.contains(&newest), "{} sets schema_version", migration.name);
        }
    }

    fn applied(migration: &Migration) -> Applied {
        let (name, checksum) = (migration.name.to_owned(), migration.checksum());
        Applied { version: migration.version, name, checksum, applied_at_us: 0 }
    }

    #[test]
    fn checksum_ignores_line_endings() {
        let of = |text| Migration { version: 1, name: "x", text }.checksum();
        assert_eq!(of("a\nb\n"), of("a\r\nb\r\n\r\n"));
        assert_ne!(of("a\nb\n"), of("a\nc\n"));
    }

    #[test]
    fn next_is_found_only_behind_the_same_migrations() {
        let mut rows: Vec<Applied> = KNOWN.iter().map(applied).collect();
        assert!(next_after(KNOWN, &rows).expect("the same").is_none());
        assert_eq!(next_after(KNOWN, &rows[..1]).expect("a prefix").map(|m| m.version), Some(2));
        rows.remove(0);
        assert!(matches!(next_after(KNOWN, &rows), Err(Mismatch::Changed { version: 2, .. })), "a gap");
        let mut changed = vec![applied(&KNOWN[0])];
        changed[0].checksum.replace_range(..1, "x");
        assert!(matches!(next_after(KNOWN, &changed), Err(Mismatch::Changed { version: 1, .. })));
        let newer = Applied { version: 99, name: "later".into(), checksum: String::new(), applied_at_us: 0 };
        assert!(matches!(next_after(KNOWN, &[newer]), Err(Mismatch::Unknown(99))));
    }
}
