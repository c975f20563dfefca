//! Cores side by side on the host's threads.
//!
//! A core shares nothing with others, so it does not matter which thread steps it, or when. A core is lent to one
//! thread for one job; results come in the order of the jobs. Cores on links, even those without a job, run in
//! [`crate::cluster::lockstep`].

use super::links::Links;
use crate::core::poll_immediate;
use crate::gemv::GemvUnit;
use ndp_files::Result;
use std::sync::{Mutex, PoisonError};

/// Size of jobs of about the same length.
pub(super) fn alike<J>(_: &J) -> usize {
    0
}

/// Runs at most one job per core, by its number, on at most `threads` threads, including the caller's; largest `size`
/// first.
///
/// # Errors
/// Errors of [`side_by_side`]; on links errors of [`crate::cluster::lockstep::Lockstep::run`].
pub(super) fn together<J: Send, T: Send>(
    (cores, links): (&mut [GemvUnit], Option<&mut Links>),
    threads: usize,
    jobs: Vec<(usize, J)>,
    size: impl Fn(&J) -> usize,
    run: impl AsyncFn(&mut GemvUnit, J) -> Result<T> + Sync,
) -> Result<Vec<(usize, T)>> {
    let Some(links) = links else {
        return side_by_side(cores, threads, jobs, size, |core, job| {
            poll_immediate(core.core().cycle(), run(core, job))
        });
    };
    let order: Vec<usize> = jobs.iter().map(|(core, _)| *core).collect();
    let mut by_core: Vec<Option<J>> = (0..cores.len()).map(|_| None).collect();
    jobs.into_iter().for_each(|(core, job)| by_core[core] = Some(job));
    let mut done = links.lockstep().run(cores, by_core, threads, &run)?;
    Ok(order.into_iter().filter_map(|core| Some((core, done.get_mut(core)?.take()?))).collect())
}

/// Like [`together`] without links. Largest `size` first, so that the threads end at nearly the same time.
///
/// # Errors
/// The first failure in the order of the jobs; all jobs have run.
fn side_by_side<J: Send, T: Send>(
    cores: &mut [GemvUnit],
    threads: usize,
    jobs: Vec<(usize, J)>,
    size: impl Fn(&J) -> usize,
    run: impl Fn(&mut GemvUnit, J) -> Result<T> + Sync,
) -> Result<Vec<(usize, T)>> {
    let mut lent: Vec<Option<&mut GemvUnit>> = cores.iter_mut().map(Some).collect();
    let tasks = jobs.into_iter().enumerate().filter_map(|(place, (core, job))| {
        let unit = lent.get_mut(core)?.take()?;
        Some((place, core, unit, job))
    });
    let mut tasks: Vec<_> = tasks.collect();
    tasks.sort_by_key(|(.., job)| std::cmp::Reverse(size(job)));
    let tasks: Vec<_> = tasks.into_iter().map(|task| Mutex::new(Some(task))).collect();
    let done = ndp_files::map_on_threads(threads, tasks.len(), |number| {
        // No holder panics.
        let task = tasks[number].lock().unwrap_or_else(PoisonError::into_inner).take();
        task.map(|(place, core, unit, job)| (place, core, run(unit, job)))
    });
    let mut done: Vec<_> = done.into_iter().flatten().collect();
    done.sort_by_key(|(place, ..)| *place);
    done.into_iter().map(|(_, core, result)| Ok((core, result?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemv::GemvOptions;
    use ndp_config::DesignConfig;

    fn cores(count: usize) -> Vec<GemvUnit> {
        let config = DesignConfig::preset("tiny").unwrap();
        (0..count).map(|_| GemvUnit::open(&config, &GemvOptions::default()).unwrap().0).collect()
    }

    #[test]
    fn results_come_in_the_order_of_the_jobs_on_any_number_of_threads() {
        let mut cores = cores(3);
        for threads in [0, 1, 2, 8] {
            let jobs = vec![(2, 20), (0, 7), (1, 5)];
            let results = side_by_side(&mut cores, threads, jobs, alike, |core, job| {
                // If jobs run side by side, the first one ends last.
                std::thread::sleep(std::time::Duration::from_millis(job));
                Ok((job, core.simulated().0))
            });
            assert_eq!(results.unwrap(), [(2, (20, 0)), (0, (7, 0)), (1, (5, 0))]);
        }
    }

    #[test]
    fn the_largest_job_is_the_first() {
        let mut cores = cores(3);
        let order = Mutex::new(Vec::new());
        let jobs = vec![(0, 5), (1, 9), (2, 7)];
        let size = |job: &usize| *job;
        let results = side_by_side(&mut cores, 1, jobs, size, |_, job| {
            order.lock().unwrap().push(job);
            Ok(job)
        });
        assert_eq!(results.unwrap(), [(0, 5), (1, 9), (2, 7)]);
        assert_eq!(order.into_inner().unwrap(), [9, 7, 5]);
    }

    #[test]
    fn the_first_error_in_the_order_of_the_jobs_is_returned() {
        let mut cores = cores(3);
        let fails = |_: &mut GemvUnit, what: u64| -> Result<()> {
            if what == 0 {
                return Ok(());
            }
            Err(ndp_files::fault!("cycle {what}"))
        };
        let error = side_by_side(&mut cores, 2, vec![(0, 0), (2, 9), (1, 3)], alike, fails).unwrap_err();
        assert_eq!(error.to_string(), "cycle 9");
    }
}
