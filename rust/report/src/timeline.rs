//! Timelines: trace events in JSON for ui.perfetto.dev and chrome://tracing.
//!
//! Complete events (`X`) in microseconds, one per line. Events of a track must not overlap.
//!
//! Perfetto truncates to whole nanoseconds, then drops overlapping events. So each instant is rounded to nanoseconds
//! once, and the exact begin is an argument. Perfetto also identifies thread 0 with the thread that has its process's
//! number, so thread numbers begin above the process numbers.

use serde_json::{Value, json};
use std::io::{self, Write};

/// Process and track.
pub type Track = (u32, u32);

/// Bound on the tracks of a process.
const TRACKS: u32 = 1000;

#[derive(Debug)]
struct Event {
    track: Track,
    name: String,
    begin_ps: u64,
    end_ps: u64,
    args: Value,
}

/// Value of a process's counter, starting at a time.
#[derive(Debug)]
struct Counter {
    process: u32,
    name: String,
    at_ps: u64,
    value: f64,
}

#[derive(Debug, Default)]
pub struct Timeline {
    processes: Vec<(u32, String)>,
    tracks: Vec<(Track, String)>,
    events: Vec<Event>,
    counters: Vec<Counter>,
}

impl Timeline {
    /// Names process `number`, 1 or more. Processes are shown in this order.
    pub fn process(&mut self, number: u32, name: impl Into<String>) {
        self.processes.push((number, name.into()));
    }

    /// Names a track. A process's tracks are shown in order of their numbers.
    pub fn track(&mut self, track: Track, name: impl Into<String>) {
        self.tracks.push((track, name.into()));
    }

    /// Times are in picoseconds; `args` is a JSON object.
    pub fn event(&mut self, track: Track, name: impl Into<String>, (begin, end): (u64, u64), args: Value) {
        let (name, begin_ps, end_ps) = (name.into(), begin, end.max(begin));
        self.events.push(Event { track, name, begin_ps, end_ps, args });
    }

    /// Sets a process's counter, starting at a time in picoseconds. The last of several at one time counts.
    pub fn counter(&mut self, process: u32, name: impl Into<String>, at_ps: u64, value: f64) {
        self.counters.push(Counter { process, name: name.into(), at_ps, value });
    }

    /// Writes the timeline; fails as `out`.
    pub fn write(self, out: &mut dyn Write) -> io::Result<()> {
        let Self { processes, tracks, mut events, mut counters } = self;
        let metadata = |track: Track, name: &str, args: Value| json!({ "ph": "M", "pid": track.0, "tid": thread(track), "name": name, "args": args });
        let mut lines: Vec<Value> = Vec::new();
        for (pid, name) in processes {
            lines.push(metadata((pid, 0), "process_name", json!({ "name": name })));
            lines.push(metadata((pid, 0), "process_sort_index", json!({ "sort_index": pid })));
        }
        for (track, name) in tracks {
            lines.push(metadata(track, "thread_name", json!({ "name": name })));
            lines.push(metadata(track, "thread_sort_index", json!({ "sort_index": track.1 })));
        }
        events.sort_by_key(|event| (event.track, event.begin_ps));
        let events = events.into_iter().map(|Event { track, name, begin_ps, end_ps, mut args }| {
            args["begin ns"] = json!(begin_ps as f64 / 1e3);
            let (begin, end) = (ns(begin_ps), ns(end_ps));
            json!({
                "ph": "X", "pid": track.0, "tid": thread(track), "name": name,
                "ts": begin_us(begin), "dur": (end - begin) as f64 / 1e3, "args": args,
            })
        });
        counters.sort_by(|a, b| (a.process, &a.name, a.at_ps).cmp(&(b.process, &b.name, b.at_ps)));
        let counters = counters.into_iter().map(|Counter { process, name, at_ps, value }| {
            json!({ "ph": "C", "pid": process, "name": name, "ts": begin_us(ns(at_ps)), "args": { "value": value } })
        });
        writeln!(out, "{{\"displayTimeUnit\": \"ns\", \"traceEvents\": [")?;
        for (index, line) in lines.into_iter().chain(events).chain(counters).enumerate() {
            let separator = if index == 0 { "" } else { ",\n" };
            write!(out, "{separator}{line}")?;
        }
        writeln!(out, "\n]}}")
    }
}

fn ns(ps: u64) -> u64 {
    (ps + 500) / 1000
}

/// Microseconds, plus a picosecond: rounding of doubles cannot make truncation lose a nanosecond.
fn begin_us(ns: u64) -> f64 {
    (ns as f64 + 1e-3) / 1e3
}

/// Differs from all processes and other tracks.
fn thread((process, track): Track) -> u32 {
    TRACKS * process + track
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_track_is_a_thread_of_its_own_and_times_are_whole_nanoseconds() {
        let mut timeline = Timeline::default();
        for process in [1, 2] {
            timeline.process(process, format!("p{process}"));
            timeline.track((process, 0), "t");
            timeline.event((process, 0), "late", (2600, 2400), json!({}));
            timeline.event((process, 0), "early", (0, 1499), json!({ "a": 1 }));
        }
        timeline.counter(2, "power", 5_000, 1.5);
        timeline.counter(2, "power", 0, 0.25);
        let mut text = Vec::new();
        timeline.write(&mut text).unwrap();
        let json: Value = serde_json::from_slice(&text).unwrap();
        let events = json["traceEvents"].as_array().unwrap();
        let counted: Vec<_> = events.iter().filter(|event| event["ph"] == "C").collect();
        let values: Vec<_> = counted.iter().map(|event| (&event["ts"], &event["args"]["value"])).collect();
        assert_eq!(values, [(&json!(0.000001), &json!(0.25)), (&json!(0.005001), &json!(1.5))]);
        let shown: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
        let names: Vec<_> = shown.iter().map(|event| event["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["early", "late", "early", "late"]);
        assert_eq!([&shown[0]["tid"], &shown[2]["tid"]], [&json!(1000), &json!(2000)]);
        assert_eq!([&shown[0]["dur"], &shown[1]["dur"]], [&json!(0.001), &json!(0.0)]);
        assert_eq!([&shown[1]["ts"], &shown[1]["args"]["begin ns"]], [&json!(begin_us(3)), &json!(2.6)]);
    }
}
