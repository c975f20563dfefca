//! A pool of workers for jobs that return further jobs: the output of one run of Verilator is compiled while others
//! run.

use crate::Failure;
use std::collections::BinaryHeap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The waiting job of the highest cost is started first.
pub struct Job<'a> {
    cost: u64,
    work: Work<'a>,
}
type Work<'a> = Box<dyn FnOnce() -> Result<Vec<Job<'a>>, Failure> + Send + 'a>;

impl<'a> Job<'a> {
    pub fn new(cost: u64, work: impl FnOnce() -> Result<Vec<Self>, Failure> + Send + 'a) -> Self {
        Self { cost, work: Box::new(work) }
    }

    /// One job per item (at least one) with its cost; the last one to end also does `then`.
    pub fn all<T: Send + 'a>(
        items: Vec<(u64, T)>,
        work: impl Fn(&T) -> Result<(), Failure> + Send + Sync + 'a,
        then: impl Fn() -> Result<(), Failure> + Send + Sync + 'a,
    ) -> Vec<Self> {
        let left = AtomicUsize::new(items.len());
        let shared = Arc::new((left, work, then));
        let job = |(cost, item): (u64, T)| {
            let shared = Arc::clone(&shared);
            Self::new(cost, move || {
                let (left, work, then) = &*shared;
                work(&item)?;
                if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    then()?;
                }
                Ok(Vec::new())
            })
        };
        items.into_iter().map(job).collect()
    }
}

impl Ord for Job<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.cost.cmp(&other.cost)
    }
}
impl PartialOrd for Job<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Job<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cost == other.cost
    }
}
impl Eq for Job<'_> {}

struct State<'a> {
    waiting: BinaryHeap<Job<'a>>,
    running: usize,
    failure: Option<Failure>,
}

/// Does all jobs, and those they return. After a failure no job is started.
///
/// # Errors
/// The first failure.
pub fn run(workers: usize, jobs: Vec<Job<'_>>) -> Result<(), Failure> {
    let state = Mutex::new(State { waiting: jobs.into(), running: 0, failure: None });
    let changed = Condvar::new();
    ndp_files::on_threads(workers, || serve(&state, &changed));
    let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    state.failure.map_or(Ok(()), Err)
}

/// Ends when nothing waits and no running job could return more.
fn serve(state: &Mutex<State<'_>>, changed: &Condvar) {
    loop {
        let mut now = open(state);
        let job = loop {
            if let Some(job) = now.waiting.pop() {
                break job;
            }
            if now.running == 0 {
                return;
            }
            now = changed.wait(now).unwrap_or_else(PoisonError::into_inner);
        };
        now.running += 1;
        drop(now);
        // A panic must not leave the others waiting; its message is on stderr already.
        let outcome = catch_unwind(AssertUnwindSafe(job.work))
            .unwrap_or_else(|_| Err(vec!["a job of the build panicked".to_owned()]));
        let mut now = open(state);
        now.running -= 1;
        match outcome {
            Ok(next) if now.failure.is_none() => now.waiting.extend(next),
            Ok(_) => {}
            Err(failure) => {
                now.waiting.clear();
                now.failure.get_or_insert(failure);
            }
        }
        changed.notify_all();
    }
}

fn open<'s, 'a>(state: &'s Mutex<State<'a>>) -> MutexGuard<'s, State<'a>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
