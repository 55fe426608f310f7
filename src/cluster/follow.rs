//! Follows objects of one type: read once, then watched for as long as anybody listens.
//!
//! A watch that ends is opened again where it stood. Only after an error, or when its version is gone, the objects are
//! read again, so nothing is asked for while nothing happens.

use std::mem;
use std::time::Duration;

use futures_util::stream::{self, LocalBoxStream, StreamExt};

use crate::cluster::read::{ReadError, Resource, Select};
use crate::cluster::watch::{Change, Event, Watch};
use crate::cluster::{Cluster, Patience};
use crate::core::object::Object;

/// The pause where nothing can be watched.
const UNWATCHED: Duration = Duration::from_secs(2);

/// Between the end of a watch and the next one: a server that ends each at once is not asked without a pause.
const REOPEN: Duration = Duration::from_millis(200);

/// The pauses after errors; the last one repeats.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(5)];

pub enum News {
    /// All there is now.
    Listed(Vec<Object>),
    Changed(Change),
    /// It may not be read. Nothing follows.
    Denied(ReadError),
    /// It could not be read now, so often in a row. It is tried again.
    Lost(ReadError, usize),
}

enum Step {
    Read,
    Open,
    Watching(Box<Watch>),
    Pause(Duration, bool),
    Over,
}

struct Follower<'a> {
    cluster: Cluster,
    resource: Resource,
    namespace: &'a str,
    select: Select<'a>,
    version: Option<u64>,
    /// There is no right to watch.
    polls: bool,
    failures: usize,
    step: Step,
}

impl Cluster {
    /// The objects and their changes, without an end of its own. Its reads are repeated here, and each failure is news.
    pub fn follow<'a>(&self, resource: Resource, namespace: &'a str, select: Select<'a>) -> LocalBoxStream<'a, News> {
        let cluster = self.clone().with_patience(Patience { pauses: Vec::new(), ..Patience::default() });
        let follower = Follower {
            cluster,
            resource,
            namespace,
            select,
            version: None,
            polls: false,
            failures: 0,
            step: Step::Read,
        };
        stream::unfold(follower, |mut follower| async { Some((follower.next().await?, follower)) }).boxed_local()
    }
}

impl Follower<'_> {
    async fn next(&mut self) -> Option<News> {
        loop {
            match mem::replace(&mut self.step, Step::Over) {
                Step::Over => return None,
                Step::Pause(pause, reads) => {
                    tokio::time::sleep(pause).await;
                    self.step = if reads { Step::Read } else { Step::Open };
                }
                Step::Read => match self.read().await {
                    Ok((objects, watch)) => {
                        self.failures = 0;
                        self.step = match watch {
                            Some(watch) => Step::Watching(Box::new(watch)),
                            None if self.polls => Step::Pause(UNWATCHED, true),
                            None => Step::Open,
                        };
                        return Some(News::Listed(objects));
                    }
                    Err(error @ ReadError::Forbidden { .. }) => return Some(News::Denied(error)),
                    Err(error) => return Some(self.lost(error)),
                },
                Step::Open => match self.open(self.version).await {
                    Ok(watch) => self.step = Step::Watching(Box::new(watch)),
                    Err(ReadError::Forbidden { .. }) => {
                        self.polls = true;
                        self.step = Step::Pause(UNWATCHED, true);
                    }
                    Err(ReadError::Expired { .. }) => self.step = Step::Read,
                    Err(error) => return Some(self.lost(error)),
                },
                Step::Watching(mut watch) => match watch.next().await {
                    Ok(Some(change)) => {
                        self.version = change.object.version().or(self.version);
                        self.step = Step::Watching(watch);
                        if change.event != Event::Bookmark {
                            return Some(News::Changed(change));
                        }
                    }
                    Ok(None) => self.step = Step::Pause(REOPEN, self.version.is_none()),
                    Err(ReadError::Expired { .. }) => self.step = Step::Pause(REOPEN, true),
                    Err(error) => return Some(self.lost(error)),
                },
            }
        }
    }

    /// What there is, and for one object by name the watch that was opened before it was read: it is asked for by GET,
    /// whose answer has no number to watch from, and its end in between must not be missed.
    async fn read(&mut self) -> Result<(Vec<Object>, Option<Watch>), ReadError> {
        let Select::Name(name) = self.select else {
            let list = self.cluster.list(self.resource, self.namespace, self.select).await?;
            self.version = list.version;
            return Ok((list.items, None));
        };
        let watch = match self.open(None).await {
            Ok(watch) => Some(watch),
            Err(ReadError::Forbidden { .. }) => {
                self.polls = true;
                None
            }
            Err(error) => return Err(error),
        };
        self.version = None;
        let object = self.cluster.get(self.resource, self.namespace, name).await?;
        Ok((object.into_iter().collect(), watch))
    }

    async fn open(&self, version: Option<u64>) -> Result<Watch, ReadError> {
        self.cluster.watch(self.resource, self.namespace, self.select, version).await
    }

    fn lost(&mut self, error: ReadError) -> News {
        let pause = PAUSES.get(self.failures).or(PAUSES.last()).copied().unwrap_or(UNWATCHED);
        self.failures += 1;
        self.step = Step::Pause(pause, true);
        News::Lost(error, self.failures)
    }
}
