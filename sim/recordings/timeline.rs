//! The timeline: trace events in the JSON form that ui.perfetto.dev and chrome://tracing read.
//!
//! Processes: the core with a track for the front end and one per part, the host with as many tracks as it had requests
//! on their way at once, and each rank with a track for its data bus, one for refreshes, and one per bank for the rows
//! that it had open.
//! Complete events (`X`) with times in microseconds; those of a track never overlap. One event per line.
//!
//! Perfetto keeps whole nanoseconds, cut off, and drops events that overlap after that. So all instants are rounded to
//! nanoseconds here, each once, and the exact begin is among the arguments of the event. It also takes thread 0, and the one with the
//! number of its process, for the same main thread; so the numbers of tracks begin above those of processes.

use super::commands::Rows;
use crate::core::{InstructionRecord, PARTS, Recording, part_of};
use ndp_config::DramConfig;
use ndp_dram::Command;
use ndp_isa::{Code, Opcode, fields};
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// Clocks without data up to which two bursts of one direction are shown as one.
const MERGED_GAP_CLOCKS: u64 = 8;
/// Bytes of a burst.
const BURST_BYTES: u64 = 64;
/// Processes: the core, the host, and the ranks from here on.
const CORE: u32 = 1;
const HOST: u32 = 2;
const FIRST_RANK: u32 = 3;
/// More than a process has tracks.
const TRACKS: u32 = 1000;

/// One event or, in the metadata, the name of a track.
pub(super) struct Event {
    track: (u32, u32),
    name: String,
    begin_ps: u64,
    end_ps: u64,
    args: Value,
}

/// What is drawn: processes, their tracks, and events on them.
#[derive(Default)]
pub(super) struct Timeline {
    pub processes: Vec<(u32, String)>,
    pub tracks: Vec<((u32, u32), String)>,
    events: Vec<Event>,
}

impl Timeline {
    pub fn event(
        &mut self,
        track: (u32, u32),
        name: impl Into<String>,
        (begin, end): (u64, u64),
        args: Value,
    ) {
        let (name, begin_ps, end_ps) = (name.into(), begin, end.max(begin));
        self.events.push(Event { track, name, begin_ps, end_ps, args });
    }
}

/// Writes the timeline.
///
/// # Errors
/// What `out` says.
pub fn write_timeline(recording: &Recording, out: &mut dyn Write) -> io::Result<()> {
    let mut timeline = Timeline::default();
    add_core(recording, &mut timeline);
    add_host(recording, &mut timeline);
    for rank in 0..recording.commands.len() {
        add_rank(recording, rank, &mut timeline);
    }
    write(timeline, out)
}

/// The fields of an instruction, by their names in programs.
pub(super) fn fields_of(instruction: &InstructionRecord, sequence: usize) -> Map<String, Value> {
    let mut args = Map::new();
    args.insert("sequence".into(), sequence.into());
    match (Code::disassemble(instruction.word), Opcode::from_code(fields::OPCODE.get(instruction.word) as u8))
    {
        (Code::Instruction(decoded), Some(opcode)) => {
            for field in opcode.fields() {
                if let Some(value) = decoded.value(*field) {
                    args.insert(field.name.into(), value.into());
                }
            }
        }
        (code, _) => {
            args.insert("word".into(), code.to_string().into());
        }
    }
    args
}

fn add_core(recording: &Recording, timeline: &mut Timeline) {
    timeline.processes.push((CORE, format!("core ({})", recording.config.name())));
    timeline.tracks.push(((CORE, 0), "front end".into()));
    for (thread, part) in (1..).zip(PARTS) {
        timeline.tracks.push(((CORE, thread), part.into()));
    }
    for (sequence, instruction) in recording.instructions.iter().enumerate() {
        let InstructionRecord { word, taken, started, ended, refused } = *instruction;
        let text = Code::disassemble(word).to_string();
        let leaves = started.or(refused);
        let left = leaves.unwrap_or(recording.end);
        let mut args = fields_of(instruction, sequence);
        args.insert("cycles".into(), left.saturating_sub(taken).into());
        if refused.is_some() {
            args.insert("malformed".into(), true.into());
        }
        let span = (recording.core_ps(taken), recording.core_ps(left));
        timeline.event((CORE, 0), text.clone(), span, args.into());
        let (Some(part), Some(started)) = (part_of(word), started) else { continue };
        let end = ended.unwrap_or(recording.end);
        let mut args = fields_of(instruction, sequence);
        args.insert("cycles".into(), end.saturating_sub(started).into());
        if ended.is_none() {
            args.insert("complete".into(), false.into());
        }
        let span = (recording.core_ps(started), recording.core_ps(end));
        timeline.event((CORE, part as u32 + 1), text, span, args.into());
    }
}

/// Requests overlap: each takes the first track that is free.
fn add_host(recording: &Recording, timeline: &mut Timeline) {
    timeline.processes.push((HOST, "host".into()));
    let mut free_from: Vec<u64> = Vec::new();
    for request in &recording.requests {
        let end = request.answered.unwrap_or(recording.end);
        let lane = free_from.iter().position(|free| *free <= request.taken).unwrap_or(free_from.len());
        if lane == free_from.len() {
            free_from.push(0);
        }
        free_from[lane] = end;
        let what = if request.write { "write" } else { "read" };
        let name = format!("{what} {}", recording.place_of(request.address));
        let span = (recording.core_ps(request.taken), recording.core_ps(end));
        let args = json!({ "address": request.address, "cycles": end.saturating_sub(request.taken) });
        timeline.event((HOST, lane as u32), name, span, args);
    }
    for lane in 0..free_from.len().max(1) as u32 {
        timeline.tracks.push(((HOST, lane), format!("requests {lane}")));
    }
}

fn add_rank(recording: &Recording, rank: usize, timeline: &mut Timeline) {
    let process = FIRST_RANK + rank as u32;
    let dram = recording.config.dram();
    timeline.processes.push((process, format!("rank {rank}")));
    timeline.tracks.push(((process, 0), "data bus".into()));
    timeline.tracks.push(((process, 1), "refresh".into()));
    for bank in 0..dram.banks() {
        let (group, number) = (bank / DramConfig::BANKS_PER_GROUP, bank % DramConfig::BANKS_PER_GROUP);
        timeline.tracks.push(((process, 2 + bank), format!("bank group {group} bank {number}")));
    }
    let mut rows = Rows::new(dram);
    let mut data: Vec<(u64, bool)> = Vec::new();
    let mut last = 0;
    for (clock, command) in &recording.commands[rank] {
        rows.command(dram, *clock, command);
        last = *clock;
        match command {
            Command::Read { .. } => data.push((clock + u64::from(dram.t_cl()), true)),
            Command::Write { .. } => data.push((clock + u64::from(dram.t_cwl()), false)),
            Command::Refresh => {
                let (from, until) = (*clock, clock + u64::from(dram.t_rfc()));
                let span = (recording.dram_ps(from), recording.dram_ps(until));
                timeline.event((process, 1), "REF", span, json!({ "clocks": until - from }));
            }
            _ => {}
        }
    }
    data.sort_unstable();
    let mut data = data.into_iter().peekable();
    while let Some((from, reads)) = data.next() {
        let (mut until, mut bursts) = (from + u64::from(DramConfig::T_BL), 1);
        while let Some((next, _)) =
            data.next_if(|(next, r)| *r == reads && *next <= until + MERGED_GAP_CLOCKS)
        {
            until = next + u64::from(DramConfig::T_BL);
            bursts += 1;
        }
        let share = (bursts * u64::from(DramConfig::T_BL)) as f64 / (until - from) as f64;
        let args = json!({ "bursts": bursts, "bytes": bursts * BURST_BYTES, "bus share": share });
        let span = (recording.dram_ps(from), recording.dram_ps(until));
        timeline.event((process, 0), if reads { "read" } else { "write" }, span, args);
    }
    for row in rows.finish(last) {
        let span = (recording.dram_ps(row.from), recording.dram_ps(row.until));
        let args = json!({ "row": row.row, "accesses": row.accesses });
        timeline.event((process, 2 + row.bank as u32), format!("row {:#x}", row.row), span, args);
    }
}

/// Whole nanoseconds.
fn ns(ps: u64) -> u64 {
    (ps + 500) / 1000
}

/// In microseconds, with a picosecond more: what is cut off after a conversion to nanoseconds is less than that, and never a whole
/// one because of a double's rounding.
fn begin_us(ns: u64) -> f64 {
    (ns as f64 + 1e-3) / 1e3
}

/// Number of a track's thread, other than that of any process or other track.
fn thread((process, track): (u32, u32)) -> u32 {
    TRACKS * process + track
}

pub(super) fn write(timeline: Timeline, out: &mut dyn Write) -> io::Result<()> {
    let Timeline { processes, tracks, mut events } = timeline;
    let metadata = |track: (u32, u32), name: &str, args: Value| {
        let ids = (track.0, thread(track));
        json!({ "ph": "M", "pid": ids.0, "tid": ids.1, "name": name, "args": args })
    };
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
    writeln!(out, "{{\"displayTimeUnit\": \"ns\", \"traceEvents\": [")?;
    for (index, line) in lines.into_iter().chain(events).enumerate() {
        let separator = if index == 0 { "" } else { ",\n" };
        write!(out, "{separator}{line}")?;
    }
    writeln!(out, "\n]}}")
}
