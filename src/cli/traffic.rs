//! What a person hears of the requests: with `-v 6` each of them, and else the one that keeps the screen quiet.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::cli::screen::escape;
use crate::cli::ui;
use crate::cluster::Notice;

/// kubectl's level for requests.
const REQUESTS: u8 = 6;

/// After so long without a word a person wonders.
const SILENCE: Duration = Duration::from_secs(1);

static TRAFFIC: Mutex<Traffic> = Mutex::new(Traffic { level: 0, on_the_way: BTreeMap::new() });

struct Traffic {
    level: u8,
    on_the_way: BTreeMap<u64, OnTheWay>,
}

struct OnTheWay {
    call: String,
    since: Instant,
    said: bool,
}

fn traffic<T>(act: impl FnOnce(&mut Traffic) -> T) -> T {
    act(&mut TRAFFIC.lock().unwrap_or_else(PoisonError::into_inner))
}

pub fn set_up(level: u8) {
    traffic(|traffic| traffic.level = level);
}

/// Notes a request's beginning or end.
pub fn heard(notice: &Notice) {
    match notice {
        Notice::Sent { number, call } => {
            let one = OnTheWay { call: call.clone(), since: Instant::now(), said: false };
            traffic(|traffic| traffic.on_the_way.insert(*number, one));
        }
        Notice::Answered { number, status, .. } => {
            let level = traffic(|traffic| {
                traffic.on_the_way.remove(number);
                traffic.level
            });
            if level >= REQUESTS && status.is_some() {
                ui::err(&format!("{}\n", escape(&notice.to_string())));
            }
        }
        _ => {}
    }
}

/// On a terminal: says after a second of silence what is waited for, once for each request. Never ends.
pub async fn silence() -> Infallible {
    if !ui::can_draw() {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(SILENCE / 4).await;
        if ui::draws() || ui::quiet() < SILENCE {
            continue;
        }
        let waits = traffic(|traffic| {
            let one = traffic.on_the_way.values_mut().find(|one| one.since.elapsed() >= SILENCE)?;
            Some(one.call.clone()).filter(|_| !std::mem::replace(&mut one.said, true))
        });
        if let Some(call) = waits {
            ui::err(&format!("Waiting for {}...\n", escape(&call)));
        }
    }
}
