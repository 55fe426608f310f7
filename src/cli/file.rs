//! A file: whole or not at all, and never over another one unasked.

use std::collections::hash_map::RandomState;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::run::Failure;

/// Refuses a file that is there already: asked before anything is read, so that nobody waits in vain.
pub fn check(path: &Path, overwrite: bool) -> Result<(), Failure> {
    if !overwrite && path.symlink_metadata().is_ok() {
        return Err(Failure::Usage(format!("{} exists already; --overwrite replaces it", path.display())));
    }
    Ok(())
}

/// Writes all of it beside the file first, for its owner alone, then gives it its name in one step.
///
/// # Errors
/// It could not be written, or somebody else wrote a file of that name meanwhile. Then there is none of ours.
pub fn write(path: &Path, text: &str, overwrite: bool) -> Result<(), Failure> {
    write_as(path, text, overwrite, 0o600)
}

/// The same, for a file that can be run.
///
/// # Errors
/// As [`write`].
pub fn write_program(path: &Path, text: &str, overwrite: bool) -> Result<(), Failure> {
    write_as(path, text, overwrite, 0o755)
}

fn write_as(path: &Path, text: &str, overwrite: bool, mode: u32) -> Result<(), Failure> {
    let beside = beside(path);
    let wrong = |path: &Path, error: io::Error| Failure::Given(format!("cannot write {}: {error}", path.display()));
    let filled = fill(&beside, text, mode).map_err(|error| wrong(&beside, error));
    let named = filled.and_then(|()| match overwrite {
        true => fs::rename(&beside, path).map_err(|error| wrong(path, error)),
        // A rename would replace what somebody wrote meanwhile; a second name fails there.
        false => fs::hard_link(&beside, path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                Failure::Given(format!("{} exists already: nothing was saved", path.display()))
            }
            _ => wrong(path, error),
        }),
    });
    // Gone already where it was renamed.
    let _ = fs::remove_file(&beside);
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    named.and_then(|()| settle(folder).map_err(|error| wrong(folder, error)))
}

/// In the same folder, and not the name of anybody else's.
fn beside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    // RandomState is the standard library's only source of randomness: two runs at once have a file each.
    name.push(format!(".{:016x}.tmp", RandomState::new().build_hasher().finish()));
    path.with_file_name(name)
}

#[cfg_attr(not(unix), expect(unused_variables, reason = "other systems know no modes"))]
fn fill(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// The name is safe from a crash once its folder is written.
fn settle(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
