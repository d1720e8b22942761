//! The file of a source as the file system knows it.

use std::fs;
use std::io;
use std::path::Path;

use super::error::unfit;
use crate::store::StoreError;

/// The database's file, which must be there.
///
/// # Errors
/// [`StoreError::Unfit`] with the path.
pub(super) fn identify(path: &Path) -> Result<(), StoreError> {
    let shown = path.display();
    match fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(()),
        Ok(_) => Err(unfit(format!("{shown} is not a file"), "correct the source's URL")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(unfit(
            format!("there is no file {shown}"),
            "correct the source's URL, or make the file: fencepost migrate up",
        )),
        Err(error) => Err(unfit(
            format!("{shown} can't be looked at: {error}"),
            "let the relay's user read and write the file and its folder",
        )),
    }
}
