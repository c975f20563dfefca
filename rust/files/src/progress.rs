//! Progress and remaining time of a run.
//!
//! Work is counted in units of similar duration. The speed is measured over the recent half of the run, and has settled
//! when both quarters of it agree, so that set-up or earlier phases no longer count. After ten seconds standard error
//! shows progress: a bar on a terminal, otherwise a line at once and one per minute, without an estimate until the
//! speed has settled. A thread reads the count; the worker only counts.
//!
//! `Display` takes times as arguments, so tests can replay any run.

use crate::warn;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Least seconds between the first and last counts for a speed.
const MEASURED: f64 = 2.0;
/// Share of the work to measure, or seconds that suffice for any run, so that a slow beginning is not taken for all.
const MEASURED_SHARE: f64 = 0.05;
const MEASURED_ENOUGH: f64 = 300.0;
/// Largest ratio of the speeds of two agreeing quarters.
const AGREEMENT: f64 = 1.5;
/// Least changes of the count in the recent half.
const CHANGES: usize = 3;
/// Stored points of a run.
const POINTS: usize = 1024;
/// Shorter runs show nothing.
const LONG: Duration = Duration::from_secs(10);
/// Without a terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(60);
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// Progress of a run, shown until the value is dropped.
#[derive(Debug)]
pub struct Progress {
    counted: Arc<AtomicU64>,
    bar: ProgressBar,
    end: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// A run of `total` units, named in the plural ("cycles"), counted by [`Progress::add`].
    pub fn new(total: u64, what: &'static str) -> Self {
        let counted = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&counted);
        Self::begin(total, what, counted, move || counter.load(Ordering::Relaxed))
    }

    /// A run counted elsewhere, starting at the current count.
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
        let mut display = Display { what, total, speed: Speed::default(), next: None };
        let (shown, start) = (bar.clone(), Instant::now());
        let show = move || {
            while ended.recv_timeout(BETWEEN_LOOKS) == Err(RecvTimeoutError::Timeout) {
                let (now, done) = (start.elapsed(), count());
                shown.set_position(done.min(total));
                if !terminal {
                    display.line(now, done).inspect(|line| warn(format_args!("{line}")));
                } else if let Some(left) = display.left(now, done) {
                    shown.set_prefix(format!(", about {} left", duration(left)));
                }
            }
        };
        // Without a thread there is work, but no display.
        let thread = std::thread::Builder::new().spawn(show).ok();
        Self { counted, bar, end: thread.map(|thread| (sender, thread)) }
    }

    /// Adds finished units.
    pub fn add(&self, units: u64) {
        self.counted.fetch_add(units, Ordering::Relaxed);
    }

    /// Sets the number of units done.
    pub fn set(&self, units: u64) {
        self.counted.store(units, Ordering::Relaxed);
    }

    /// Shows a text before the bar.
    pub fn show_text(&self, text: &str) {
        self.bar.set_message(format!("{}\n", crate::printable(text)));
    }

    /// Hides the bar while `print` runs.
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

/// Lines to show, by the time of the run.
struct Display {
    what: &'static str,
    total: u64,
    speed: Speed,
    /// Time of the next line, after the first one.
    next: Option<Duration>,
}

impl Display {
    /// Remaining time, if known.
    fn left(&mut self, now: Duration, done: u64) -> Option<Duration> {
        self.speed.see(now.as_secs_f64(), done);
        let left = self.speed.left(now.as_secs_f64(), self.total)?;
        Some(Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX))
    }

    /// The line that is due, if any.
    fn line(&mut self, now: Duration, done: u64) -> Option<String> {
        let left = self.left(now, done);
        let Self { what, total, next, .. } = *self;
        if done >= total || next.is_some_and(|next| now < next) {
            return None;
        }
        let percent = 100.0 * done as f64 / total as f64;
        let line = match left {
            Some(left) if next.is_none() && now.saturating_add(left) < LONG => return None,
            Some(left) => format!("{percent:.0} % of {total} {what}, about {} left", duration(left)),
            None if now >= BETWEEN_LINES => {
                format!("{percent:.0} % of {total} {what} after {}", duration(now))
            }
            None => return None,
        };
        self.next = Some(now + BETWEEN_LINES);
        Some(line)
    }
}

/// Speed of a run, from counts at times in seconds.
#[derive(Default)]
struct Speed {
    /// Times of changed counts; the first count is above 0.
    points: Vec<(f64, u64)>,
}

impl Speed {
    fn see(&mut self, now: f64, done: u64) {
        if done <= self.points.last().map_or(0, |(_, count)| *count) {
            return;
        }
        if self.points.len() == POINTS {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
        self.points.push((now, done));
    }

    /// Count at a time, interpolated between points.
    fn at(&self, time: f64) -> f64 {
        let after = self.points.partition_point(|(at, _)| *at <= time).clamp(1, self.points.len() - 1);
        let [(t0, n0), (t1, n1)] = [self.points[after - 1], self.points[after]];
        n0 as f64 + (n1 - n0) as f64 * (time - t0) / (t1 - t0)
    }

    /// Remaining seconds, once the speed has settled.
    fn left(&self, now: f64, total: u64) -> Option<f64> {
        let (&(first, before), &(last, done)) = (self.points.first()?, self.points.last()?);
        let measured = last - first;
        let silent = now - last;
        // A pause as long as a quarter is another phase.
        if measured < MEASURED || silent > measured / 4.0 {
            return None;
        }
        let [half, quarter] = [2.0, 4.0].map(|part| last - measured / part);
        if self.points.iter().rev().take_while(|(at, _)| *at > half).count() < CHANGES {
            return None;
        }
        let early = self.at(quarter) - self.at(half);
        let late = done as f64 - self.at(quarter);
        if early <= 0.0 || late <= 0.0 || early.max(late) > AGREEMENT * early.min(late) {
            return None;
        }
        let rate = (early + late) / (measured / 2.0);
        let enough = (done - before) as f64 >= MEASURED_SHARE * total as f64 || measured >= MEASURED_ENOUGH;
        enough.then(|| (total.saturating_sub(done) as f64 / rate - silent).max(0.0))
    }
}

/// "40 s", "3 min", "2.5 h".
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

    /// First estimate of the whole run in seconds with its time, and all lines. `count` gives the count at a time, five
    /// times a second for `seconds`.
    fn run(total: u64, seconds: u32, count: impl Fn(f64) -> u64) -> (Option<(f64, f64)>, Vec<String>) {
        let mut display = Display { what: "units", total, speed: Speed::default(), next: None };
        let (mut first, mut lines) = (None, Vec::new());
        for look in 1..5 * seconds {
            let now = Duration::from_millis(200) * look;
            let done = count(now.as_secs_f64()).min(total);
            if let Some(line) = display.line(now, done) {
                if first.is_none() && line.contains("about ") {
                    let left = display.left(now, done).unwrap();
                    first = Some(((now + left).as_secs_f64(), now.as_secs_f64()));
                }
                lines.push(line);
            }
        }
        (first, lines)
    }

    #[track_caller]
    fn within_a_factor_of_two(estimate: Option<(f64, f64)>, seconds: f64) {
        let (whole, at) = estimate.unwrap();
        assert!((seconds / 2.0..=2.0 * seconds).contains(&whole), "{whole} s said after {at} s");
    }

    #[test]
    fn a_steady_run_is_estimated_soon_and_then_each_minute() {
        let (first, lines) = run(1_000_000, 100, |now| (now * 1e4) as u64);
        let (whole, at) = first.unwrap();
        assert!((99.0..101.0).contains(&whole) && (5.0..6.0).contains(&at), "{whole} s said after {at} s");
        assert_eq!(
            lines,
            ["5 % of 1000000 units, about 95 s left", "65 % of 1000000 units, about 35 s left"]
        );
        assert_eq!(run(1000, 8, |now| (now * 125.0) as u64).1, [""; 0]);
        // A day: a first estimate after a twentieth would be too late, after two seconds too early.
        let day = 86_400.0;
        let (first, lines) = run(1 << 40, 400, |now| (now / day * (1u64 << 40) as f64) as u64);
        assert_eq!(lines[3], format!("0 % of {} units after 4 min", 1u64 << 40));
        let (whole, at) = first.unwrap();
        assert!(
            (whole - day).abs() < 0.01 * day && (300.0..=361.0).contains(&at),
            "{whole} s said after {at} s"
        );
    }

    #[test]
    fn a_slow_beginning_is_not_taken_for_the_speed() {
        // A few cycles of preparation, then a product: an estimate after a second would be 154 hours for 44 s.
        let prepares = |begin: f64, end: f64| {
            move |now: f64| {
                let rest = (now - begin).max(0.0) / (end - begin) * 1e9;
                (12.0 + 40.0 * now.min(begin) + rest) as u64
            }
        };
        assert_eq!(run(1_000_000_000, 44, prepares(40.0, 44.0)).1, [""; 0]);
        let (first, _) = run(1_000_000_000, 44, prepares(5.0, 44.0));
        within_a_factor_of_two(first, 44.0);
        let (first, lines) = run(1_000_000_000, 600, prepares(100.0, 600.0));
        within_a_factor_of_two(first, 600.0);
        assert_eq!(lines[0], "0 % of 1000000000 units after 60 s");
    }

    #[test]
    fn units_of_unequal_size_are_estimated_when_there_are_enough() {
        // A token every five seconds, the first after 30.
        let tokens = |now: f64| (1.0 + (now - 30.0) / 5.0).max(0.0) as u64;
        let (first, lines) = run(55, 300, tokens);
        within_a_factor_of_two(first, 300.0);
        assert!(lines[1].contains(" % of 55 units, about "), "{lines:?}");
        // One of six policies takes three times as long per token.
        let turns = |now: f64| {
            let (rounds, rest) = ((now / 8.0) as u64, now % 8.0);
            6 * rounds + (if rest < 3.0 { 0 } else { (rest - 2.0) as u64 })
        };
        let (first, _) = run(6 * 40, 320, turns);
        within_a_factor_of_two(first, 320.0);
        // Later programs resemble earlier ones and are not run again.
        let (first, _) = run(1000, 200, |now| (now.min(10.0) + (now - 10.0).max(0.0) * 5.2) as u64);
        within_a_factor_of_two(first, 200.0);
    }

    #[test]
    fn long_runs_are_kept_in_few_points_and_counts_that_stand_still_say_nothing() {
        let mut speed = Speed::default();
        (1..100_000).for_each(|n| speed.see(f64::from(n), u64::from(n as u32) * 7));
        assert!(speed.points.len() <= POINTS);
        let left = speed.left(99_999.0, 1_400_000).unwrap();
        assert!((left - 100_001.0).abs() < 200.0, "{left}");
        assert_eq!(speed.left(150_000.0, 1_400_000), None);
        assert_eq!(Speed::default().left(1.0, 10), None);
        assert_eq!(
            ["40 s", "3 min", "2.0 h"],
            [40, 170, 7200].map(|time| duration(Duration::from_secs(time)))
        );
    }
}
