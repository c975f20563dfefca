//! How long a run will take, before it does.
//!
//! The work is counted in units that take about the same time each. A second after the first of them the speed is known, and if the
//! whole run takes more than ten, that is said on standard error: as a bar on a terminal, else as a line, and another one each minute.
//! What is prepared before the first unit does not count for the speed. A thread looks at the count, so who works only has to count.

use crate::warn;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// When the speed is believed.
const MEASURED: Duration = Duration::from_secs(1);
/// Runs that are shorter are over before anybody asks.
const LONG: Duration = Duration::from_secs(10);
/// Between two lines where there is no terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(60);
/// Between two looks at the count.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// The progress of a run; it is shown until the value is dropped.
#[derive(Debug)]
pub struct Progress {
    counted: Arc<AtomicU64>,
    bar: ProgressBar,
    end: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Begins a run of `total` units, named in the plural ("cycles"), which [`Progress::add`] counts.
    pub fn new(total: u64, what: &'static str) -> Self {
        let counted = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&counted);
        Self::begin(total, what, counted, move || counter.load(Ordering::Relaxed))
    }

    /// The same with a count that another part of the program keeps; what it is now is the beginning.
    pub fn watch(total: u64, what: &'static str, count: impl Fn() -> u64 + Send + 'static) -> Self {
        let first = count();
        Self::begin(total, what, Arc::default(), move || count().saturating_sub(first))
    }

    fn begin(
        total: u64,
        what: &'static str,
        counted: Arc<AtomicU64>,
        count: impl Fn() -> u64 + Send + 'static,
    ) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        if terminal {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            let template = format!(
                "{{msg}}{{bar:30}} {{percent:>3}} % of {{human_len}} {what}, {{elapsed}} gone{{prefix}}"
            );
            if let Ok(style) = ProgressStyle::with_template(&template) {
                bar.set_style(style);
            }
        }
        let (sender, ended) = channel();
        let mut display = Display {
            what,
            total,
            start: Instant::now(),
            first: None,
            bar: bar.clone(),
            terminal,
            next: None,
        };
        let show = move || {
            while ended.recv_timeout(BETWEEN_LOOKS) == Err(RecvTimeoutError::Timeout) {
                display.show(count());
            }
        };
        // Without a thread there is no display, which is no reason not to work.
        let thread = std::thread::Builder::new().spawn(show).ok();
        Self { counted, bar, end: thread.map(|thread| (sender, thread)) }
    }

    /// More units are done.
    pub fn add(&self, units: u64) {
        self.counted.fetch_add(units, Ordering::Relaxed);
    }

    /// So many units are done in all.
    pub fn set(&self, units: u64) {
        self.counted.store(units, Ordering::Relaxed);
    }

    /// Shows a text before the bar.
    pub fn show_text(&self, text: &str) {
        self.bar.set_message(format!("{}\n", crate::printable(text)));
    }

    /// Takes the bar away while something is printed.
    pub fn suspend(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.end.take() {
            drop(sender);
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}

/// What the thread shows.
struct Display {
    what: &'static str,
    total: u64,
    start: Instant,
    /// When units were seen to be done for the first time, and how many.
    first: Option<(Instant, u64)>,
    bar: ProgressBar,
    terminal: bool,
    /// When the next line is due, if there has been one.
    next: Option<Duration>,
}

impl Display {
    fn show(&mut self, done: u64) {
        self.bar.set_position(done.min(self.total));
        if done == 0 {
            return;
        }
        let (first, before) = *self.first.get_or_insert_with(|| (Instant::now(), done));
        let Some(left) = estimate(first.elapsed(), done - before, self.total.saturating_sub(done)) else {
            return;
        };
        let gone = self.start.elapsed();
        let whole = gone.saturating_add(left);
        if self.terminal {
            self.bar.set_prefix(format!(", about {} left", duration(left)));
        } else if self.next.is_none_or(|next| gone >= next) && whole >= LONG && done < self.total {
            if self.next.is_none() {
                warn(format_args!("about {} for {} {}", duration(whole), self.total, self.what));
            } else {
                let percent = 100.0 * done as f64 / self.total.max(1) as f64;
                warn(format_args!(
                    "{percent:.0} % of {} {}, about {} left",
                    self.total,
                    self.what,
                    duration(left)
                ));
            }
            self.next = Some(gone + BETWEEN_LINES);
        }
    }
}

/// Time of the units that are left, if `done` of them took `measured`; none before that can be said.
fn estimate(measured: Duration, done: u64, left: u64) -> Option<Duration> {
    let time = measured.as_secs_f64() * left as f64 / done as f64;
    (measured >= MEASURED && done > 0).then(|| Duration::try_from_secs_f64(time).unwrap_or(Duration::MAX))
}

/// A time as one says it: "40 s", "3 min", "2.5 h".
pub fn duration(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 100.0 => format!("{seconds:.0} s"),
        seconds if seconds < 6000.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_is_proportional_and_waits_for_a_measurement() {
        let seconds = Duration::from_secs;
        assert_eq!(estimate(seconds(2), 10, 90), Some(seconds(18)));
        assert_eq!(estimate(seconds(2), 0, 100), None);
        assert_eq!(estimate(Duration::from_millis(999), 10, 90), None);
        assert_eq!(estimate(seconds(3), 120, 0), Some(seconds(0)));
        assert_eq!(["40 s", "3 min", "2.0 h"], [40, 170, 7200].map(|time| duration(seconds(time))));
    }
}
