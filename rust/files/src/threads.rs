//! Threads: the requested number, or fewer if the system refuses some.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;

/// Runs `work` on `threads` threads, the caller's included, and returns when all have ended. If the system refuses some
/// (`ulimit -u`, no memory for a stack) there are fewer, so all have to take jobs from one place.
pub fn on_threads(threads: usize, work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 1..threads {
            if Builder::new().spawn_scoped(scope, &work).is_err() {
                break;
            }
        }
        work();
    });
}

/// Calls `job` with each number below `count` on at most `threads` threads with the caller's; results are in order.
///
/// ```
/// assert_eq!(ndp_files::map_on_threads(4, 3, |number| number * number), [0, 1, 4]);
/// ```
pub fn map_on_threads<T: Send>(threads: usize, count: usize, job: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(count)));
    on_threads(threads.min(count), || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            let result = job(number);
            results.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}
