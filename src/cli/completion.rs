//! `completion`: what makes TAB work, printed or put where kubectl finds it.
//!
//! krew links one program for a plugin and no completer beside it (kubernetes-sigs/krew#812), so the plugin installs its
//! own: three lines of shell that call it back.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use crate::cli::screen::escape;
use crate::cli::{error, file, ui};
use crate::run::Failure;

const SHIM: &str = include_str!("../../completions/kubectl_complete-saferollback");
const BASH: &str = include_str!("../../completions/kubectl-saferollback.bash");
const ZSH: &str = include_str!("../../completions/_kubectl-saferollback");
const FISH: &str = include_str!("../../completions/kubectl-saferollback.fish");
const POWERSHELL: &str = include_str!("../../completions/kubectl-saferollback.ps1");

const PLUGIN: &str = "kubectl-saferollback";
const COMPLETER: &str = "kubectl_complete-saferollback";
/// In every version of the shim: what carries it was written by us.
const OURS: &str = "# Written by: kubectl saferollback completion install";

#[derive(Subcommand, Debug)]
pub enum Completion {
    /// Let kubectl complete `kubectl saferollback`
    ///
    /// Writes the file kubectl_complete-saferollback, which kubectl looks for, beside the plugin or into another directory
    /// of the PATH, below your home directory only; into krew's own only where there is no other. kubectl's own completion
    /// must be on: kubectl completion --help.
    #[command(
        after_help = "Examples:\n  kubectl saferollback completion install\n  kubectl saferollback completion install --print\n\nExit codes: 0 done or nothing to do, 1 could not, 2 usage,\n3 refused: a file of that name is there, and is not ours."
    )]
    Install(Install),
    /// Print the script for bash, for who types kubectl-saferollback
    #[command(
        after_help = "Examples:\n  kubectl saferollback completion bash >~/.local/share/bash-completion/completions/kubectl-saferollback"
    )]
    Bash,
    /// Print the script for zsh, for who types kubectl-saferollback
    #[command(
        after_help = "Examples:\n  kubectl saferollback completion zsh >~/.zfunc/_kubectl-saferollback\n\n~/.zfunc is any directory of your fpath."
    )]
    Zsh,
    /// Print the script for fish, for who types kubectl-saferollback
    #[command(
        after_help = "Examples:\n  kubectl saferollback completion fish >~/.config/fish/completions/kubectl-saferollback.fish"
    )]
    Fish,
    /// Print the script for PowerShell, for who types kubectl-saferollback
    #[command(after_help = "Examples:\n  kubectl saferollback completion powershell >>$PROFILE")]
    Powershell,
}

#[derive(Args, Debug)]
pub struct Install {
    /// Print the file instead, to be put into a directory of the PATH by hand
    #[arg(long)]
    pub print: bool,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

pub fn verb(args: &Completion) -> Result<u8, Failure> {
    let text = match args {
        Completion::Install(args) if !args.print => return install(args),
        Completion::Install(_) => SHIM,
        Completion::Bash => BASH,
        Completion::Zsh => ZSH,
        Completion::Fish => FISH,
        Completion::Powershell => POWERSHELL,
    };
    ui::out(text);
    Ok(0)
}

fn install(args: &Install) -> Result<u8, Failure> {
    if cfg!(windows) {
        let how = "copy kubectl-saferollback.exe to kubectl_complete-saferollback.exe, in a directory of the PATH";
        return Err(Failure::Given(format!("nothing was written: on Windows {how}")));
    }
    if !args.yes && !ui::can_ask() {
        let why = "completion install needs --yes when there is no terminal to ask on; --print writes nothing";
        return Err(Failure::Usage(why.into()));
    }
    let place = Place::find(
        env::home_dir(),
        &env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>()).unwrap_or_default(),
        env::current_exe().ok(),
    )?;
    let path = place.directory.join(COMPLETER);
    let shown = escape(&path.display().to_string());
    let there = match path.symlink_metadata() {
        Err(_) => false,
        // A link to the plugin completes as well.
        Ok(meta) if meta.is_symlink() && same(&path, &place.plugin) => {
            ui::out(&format!("{shown} is a link to the plugin: nothing to do\n"));
            return Ok(0);
        }
        Ok(meta) => {
            let text = if meta.is_file() { fs::read_to_string(&path).unwrap_or_default() } else { String::new() };
            if text == SHIM && executable(&meta) {
                ui::out(&format!("{shown} is there already: nothing to do\n"));
                place.say_what_is_odd();
                return Ok(0);
            }
            if !text.contains(OURS) {
                ui::err(&format!("error: refused, nothing was written: {shown} is there already, and not ours\n"));
                return Ok(error::NO);
            }
            true
        }
    };
    let verb = if there { "Replace" } else { "Write" };
    if !args.yes {
        ui::err(&format!("{shown}:\n"));
        SHIM.lines().for_each(|line| ui::err(&format!("  {line}\n")));
        if !ui::ask(&format!("{verb} it?"))? {
            ui::err("nothing was written\n");
            return Ok(0);
        }
    }
    file::write_program(&path, SHIM, there)?;
    ui::out(&format!("{shown} {}\n", if there { "replaced" } else { "created" }));
    place.say_what_is_odd();
    Ok(0)
}

/// Where the file belongs.
struct Place {
    directory: PathBuf,
    plugin: PathBuf,
    on_path: bool,
}

impl Place {
    /// Beside the plugin where PATH finds it, else another directory of the PATH, else beside the program itself; the first
    /// that is below the home directory. krew's own only where there is no other: with files there that it did not put there,
    /// and none of its plugins left, it takes its home for an outdated one and does nothing any more (krew's
    /// `receiptsmigration.Done`).
    fn find(home: Option<PathBuf>, path: &[PathBuf], program: Option<PathBuf>) -> Result<Place, Failure> {
        let home = home.and_then(|home| home.canonicalize().ok()).filter(|home| home.parent().is_some());
        let Some(home) = home else {
            return Err(Failure::Given("nothing was written: there is no home directory to write to".into()));
        };
        // As it is really, so that no link leads out of it.
        let below = |directory: &Path| {
            directory.is_absolute()
                && directory.canonicalize().is_ok_and(|real| real.is_dir() && real.starts_with(&home))
        };
        let plugin = program.unwrap_or_default();
        let beside = path.iter().find(|directory| same(&directory.join(PLUGIN), &plugin));
        let usual = [home.join(".local/bin"), home.join("bin")];
        let usual = path.iter().find(|directory| usual.iter().any(|usual| same(usual, directory)));
        let found: Vec<&PathBuf> = beside.into_iter().chain(usual).chain(path).filter(|d| below(d)).collect();
        if let Some(directory) = found.iter().find(|directory| !of_krew(directory)).or(found.first()) {
            return Ok(Place { directory: directory.to_path_buf(), plugin, on_path: true });
        }
        match plugin.parent().filter(|directory| below(directory)) {
            Some(directory) => Ok(Place { directory: directory.to_path_buf(), plugin, on_path: false }),
            None => Err(Failure::Given(format!(
                "nothing was written: no directory of the PATH is below {}; --print prints the file, to be put into one",
                home.display()
            ))),
        }
    }

    fn say_what_is_odd(&self) {
        let directory = escape(&self.directory.display().to_string());
        if !self.on_path {
            ui::err(&format!("Warning: {directory} is not on the PATH, where kubectl looks for it\n"));
        }
        if of_krew(&self.directory) {
            ui::err(&format!(
                "Warning: {directory} is krew's own, and no other directory of the PATH is yours: remove the file before you uninstall the plugin\n"
            ));
        }
    }
}

/// Is it where krew links its plugins?
fn of_krew(directory: &Path) -> bool {
    directory.parent().is_some_and(|root| root.join("receipts").is_dir())
}

/// Do both lead to the same file?
fn same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

#[cfg(unix)]
fn executable(meta: &fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o100 != 0
}

#[cfg(not(unix))]
fn executable(_: &fs::Metadata) -> bool {
    true
}
