//! A pseudo-terminal: what a person at a screen sees, and how the terminal is left behind.

use super::product::Ran;
use std::fs::File;
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// A program on a terminal of its own.
pub struct Terminal {
    child: Child,
    keys: File,
    /// Stays open, so that the terminal is there to be looked at when the program has ended.
    screen: OwnedFd,
    pieces: Receiver<Vec<u8>>,
    /// All that was written to it so far.
    pub seen: String,
    before: Modes,
}

/// What `stty -g` prints.
#[derive(Debug, PartialEq, Eq)]
pub struct Modes(Vec<u32>, Vec<u8>);

fn modes(of: &OwnedFd) -> Modes {
    let mut found = MaybeUninit::<libc::termios>::uninit();
    // SAFETY: tcgetattr fills the structure or fails, which is checked.
    let found = unsafe {
        assert_eq!(libc::tcgetattr(of.as_raw_fd(), found.as_mut_ptr()), 0, "a terminal has modes");
        found.assume_init()
    };
    Modes(vec![found.c_iflag, found.c_oflag, found.c_cflag, found.c_lflag], found.c_cc.to_vec())
}

impl Terminal {
    /// Starts it with stdin, stdout and stderr on a terminal of that size.
    pub fn start(command: Command, rows: u16, columns: u16) -> Terminal {
        Terminal::started(command, rows, columns, false)
    }

    /// The same with stdout elsewhere, as in `… >file`.
    pub fn start_piped(command: Command, rows: u16, columns: u16) -> Terminal {
        Terminal::started(command, rows, columns, true)
    }

    fn started(mut command: Command, rows: u16, columns: u16, piped: bool) -> Terminal {
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let (mut master, mut slave) = (0, 0);
        // SAFETY: openpty writes two descriptors, which nobody else owns.
        let (master, slave) = unsafe {
            let opened =
                libc::openpty(&raw mut master, &raw mut slave, std::ptr::null_mut(), std::ptr::null(), &raw const size);
            assert_eq!(opened, 0, "a pseudo-terminal");
            (File::from(OwnedFd::from_raw_fd(master)), OwnedFd::from_raw_fd(slave))
        };
        let before = modes(&slave);
        let stdio = || Stdio::from(slave.try_clone().expect("a descriptor"));
        command.stdin(stdio()).stderr(stdio()).stdout(if piped { Stdio::piped() } else { stdio() });
        if command.get_envs().all(|(key, _)| key != "TERM") {
            command.env("TERM", "xterm");
        }
        // SAFETY: only calls that are safe between fork and exec.
        unsafe {
            command.pre_exec(|| {
                // A session of its own, whose terminal this is: keys become its signals.
                if libc::setsid() == -1 || libc::ioctl(0, libc::TIOCSCTTY, 0) == -1 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().expect("the binary runs");
        let mut reader = master.try_clone().expect("a descriptor");
        let (send, pieces) = mpsc::channel();
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length) = reader.read(&mut piece) {
                if length == 0 || send.send(piece[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Terminal { child, keys: master, screen: slave, pieces, seen: String::new(), before }
    }

    /// Types.
    pub fn keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("typed");
    }

    /// Waits until it reads single keys: before that a key is the terminal's own, and Ctrl-C a signal.
    #[track_caller]
    pub fn until_it_reads(&mut self) {
        let end = Instant::now() + Duration::from_secs(30);
        while modes(&self.screen) == self.before {
            assert!(Instant::now() < end, "it reads no keys: {}", self.seen);
            self.take(Duration::from_millis(10));
        }
    }

    pub fn signal(&self, signal: i32) {
        let pid = libc::pid_t::try_from(self.child.id()).expect("a process id");
        // SAFETY: a signal to a child that has not been waited for, so the id is still its own.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }

    fn take(&mut self, patience: Duration) {
        if let Ok(piece) = self.pieces.recv_timeout(patience) {
            self.seen.push_str(&String::from_utf8_lossy(&piece));
        }
    }

    /// Waits until it has written this.
    #[track_caller]
    pub fn until(&mut self, words: &str) {
        let end = Instant::now() + Duration::from_secs(30);
        while !self.seen.contains(words) {
            assert!(Instant::now() < end, "waited 30 s in vain for {words:?}: {}", self.seen);
            self.take(Duration::from_millis(50));
        }
    }

    /// Waits until it has written this, and that after it.
    #[track_caller]
    pub fn until_then(&mut self, words: &str, then: &str) {
        let end = Instant::now() + Duration::from_secs(30);
        while !self.seen.split_once(words).is_some_and(|(_, rest)| rest.contains(then)) {
            assert!(Instant::now() < end, "waited 30 s in vain for {words:?} and {then:?}: {}", self.seen);
            self.take(Duration::from_millis(50));
        }
    }

    /// Waits until it has written nothing for a while: it has done what it was told, as a person sees it.
    pub fn until_silent(&mut self) {
        let mut length = usize::MAX;
        while length != self.seen.len() {
            length = self.seen.len();
            self.take(Duration::from_millis(300));
        }
    }

    /// Waits for its end: the exit code, all that was on the terminal (and stdout, where that is elsewhere), and how the
    /// terminal is left: with the modes and the cursor of before.
    #[track_caller]
    pub fn end(mut self) -> Ran {
        let end = Instant::now() + Duration::from_secs(60);
        let status: ExitStatus = loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break status;
            }
            assert!(Instant::now() < end, "it does not end: {}", self.seen);
            self.take(Duration::from_millis(20));
        };
        let mut stdout = String::new();
        if let Some(mut piped) = self.child.stdout.take() {
            piped.read_to_string(&mut stdout).expect("text");
        }
        // What was written just before the end.
        let mut length = usize::MAX;
        while length != self.seen.len() {
            length = self.seen.len();
            self.take(Duration::from_millis(100));
        }
        assert_eq!(modes(&self.screen), self.before, "stty -g is as before: {:?}", self.seen);
        let hidden = self.seen.rfind("\x1b[?25l");
        assert!(
            hidden.is_none() || self.seen.rfind("\x1b[?25h") > hidden,
            "the cursor is left hidden: {:?}",
            self.seen
        );
        Ran { code: status.code().unwrap_or(-1), stdout, stderr: std::mem::take(&mut self.seen) }
    }
}

impl Drop for Terminal {
    /// A test that failed leaves nobody waiting for an answer.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// What stands on a screen of that many columns after this text: enough of a terminal for what we write.
pub fn screen(text: &str) -> Vec<String> {
    let mut lines: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut column) = (0_usize, 0_usize);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\n' => {
                row += 1;
                if row == lines.len() {
                    lines.push(Vec::new());
                }
            }
            '\r' => column = 0,
            '\x1b' => {
                assert_eq!(rest.next(), Some('['), "only control sequences: {text:?}");
                let mut number = String::new();
                let end = rest.by_ref().find(|c| {
                    number.push(*c);
                    c.is_ascii_alphabetic()
                });
                let count = number.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().unwrap_or(1);
                match end {
                    Some('A') => row = row.checked_sub(count).expect("not above the screen's first line"),
                    Some('J') => {
                        lines[row].truncate(column);
                        lines.truncate(row + 1);
                    }
                    other => panic!("what is {other:?}? {text:?}"),
                }
            }
            c => {
                let line = &mut lines[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = c;
                column += 1;
            }
        }
    }
    lines.into_iter().map(|line| line.into_iter().collect::<String>().trim_end().to_string()).collect()
}
