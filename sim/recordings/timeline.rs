//! The timeline of a core.
//!
//! Processes: the core (front end and parts), the host (a track for each concurrent request), and each rank (data bus,
//! refreshes, open rows of each bank). Each rank has counters of its power between samples.

use super::commands::Rows;
use crate::core::{InstructionRecord, PARTS, Recording, part_of};
use ndp_config::DramConfig;
use ndp_dram::Command;
use ndp_energy::{DramCosts, DramPart, Energy};
use ndp_isa::{Code, Opcode, fields};
use ndp_report::Timeline;
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// Largest gap between two bursts of one direction that are shown as one.
const MERGED_GAP_CLOCKS: u64 = 8;
const BURST_BYTES: u64 = 64;
/// Processes; ranks are numbered from here.
const CORE: u32 = 1;
const HOST: u32 = 2;
const FIRST_RANK: u32 = 3;

/// Counters whose sum is the rank's power. A command counts in the sample of its cycle.
const POWERS: [(&str, &[DramPart]); 5] = [
    ("activate, W", &[DramPart::Activate]),
    ("read, W", &[DramPart::Read, DramPart::ReadBus]),
    ("write, W", &[DramPart::Write, DramPart::WriteBus]),
    ("refresh, W", &[DramPart::Refresh]),
    ("background, W", &[DramPart::ActiveStandby, DramPart::PrechargedStandby]),
];

/// `costs` turn commands and clocks of a rank into power.
///
/// # Errors
/// A failed write.
pub fn write_timeline(recording: &Recording, costs: &DramCosts, out: &mut dyn Write) -> io::Result<()> {
    let mut timeline = Timeline::default();
    add_core(recording, &mut timeline);
    add_host(recording, &mut timeline);
    for rank in 0..recording.commands.len() {
        add_rank(recording, rank, &mut timeline);
        add_power(recording, rank, costs, &mut timeline);
    }
    timeline.write(out)
}

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
    timeline.process(CORE, format!("core ({})", recording.config.name()));
    timeline.track((CORE, 0), "front end");
    for (thread, part) in (1..).zip(PARTS) {
        timeline.track((CORE, thread), part);
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

/// Requests overlap: each takes the first free track.
fn add_host(recording: &Recording, timeline: &mut Timeline) {
    timeline.process(HOST, "host");
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
        timeline.track((HOST, lane), format!("requests {lane}"));
    }
}

fn add_rank(recording: &Recording, rank: usize, timeline: &mut Timeline) {
    let process = FIRST_RANK + rank as u32;
    let dram = recording.config.dram();
    timeline.process(process, format!("rank {rank}"));
    timeline.track((process, 0), "data bus");
    timeline.track((process, 1), "refresh");
    for bank in 0..dram.banks() {
        let (group, number) = (bank / DramConfig::BANKS_PER_GROUP, bank % DramConfig::BANKS_PER_GROUP);
        timeline.track((process, 2 + bank), format!("bank group {group} bank {number}"));
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

fn add_power(recording: &Recording, rank: usize, costs: &DramCosts, timeline: &mut Timeline) {
    for pair in recording.samples.windows(2) {
        let [(from, before), (until, now)] = pair else { continue };
        let ps = (until - from) * recording.config.dram().clock_ps();
        if ps == 0 {
            continue;
        }
        let energy = costs.of(&now[rank].since(&before[rank]).dram_use());
        for (name, parts) in POWERS {
            let sum: Energy = parts.iter().map(|part| energy.get(*part)).sum();
            let at_ps = recording.dram_ps(*from);
            timeline.counter(FIRST_RANK + rank as u32, name, at_ps, sum.watts(ps));
        }
    }
}
