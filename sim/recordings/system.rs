//! The timeline of a whole system: a GPU, the bus, the host's memory channels, DIMMs with their cores, and links.
//! A system without a GPU has no bus, and one DIMM has no links.
//!
//! Processes: critical path, GPU, bus (a track per direction, one for neurons copied to the GPU), channels, links (a
//! track per DIMM and direction, one for migrating neurons), and each DIMM (programs, front end, parts of its core).
//! Devices have a counter of their power. Instructions come from the simulated core, moved to the time of the system;
//! times of GPU, bus and links follow from bandwidths. Events name token, layer and operation; programs also their
//! number and first core cycle, which waves and command traces count.

use super::timeline::fields_of;
use crate::core::{PARTS, part_of};
use crate::gemv::ProgramFigures;
use crate::system::{Event, Operation, Power, Resource, Segment};
use ndp_isa::Code;
use ndp_report::Timeline;
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// Processes; DIMMs are numbered after them.
const PATH: u32 = 1;
const GPU: u32 = 2;
const BUS: u32 = 3;
const LINKS: u32 = 4;
const CHANNELS: u32 = 5;
const FIRST_DIMM: u32 = 6;
/// After all DIMMs; only if the host takes any time.
const HOST: u32 = 1000;
const SSD: u32 = 1001;
/// Tracks of the bus and the links for the scheduler's moves.
const UPLOADS: u32 = 2;
const MIGRATIONS: u32 = 0;

/// Neurons that moved while a token was generated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moves {
    pub position: usize,
    /// Neurons copied to the GPU, their bytes, and their time on the bus.
    pub uploads: u64,
    pub upload_bytes: u64,
    pub upload_ns: u64,
    pub migrations: u64,
    /// Bytes of these.
    pub migration_bytes: u64,
    /// Time on the busiest link.
    pub migration_ns: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct SystemTimeline<'a> {
    pub name: &'a str,
    /// Period of the cores' clock.
    pub core_ps: u64,
    pub dimms: u32,
    pub events: &'a [Event],
    pub path: &'a [Segment],
    /// Per token, drawn from its first projection, in which moves are hidden.
    pub moves: &'a [Moves],
    /// A power counter for each device.
    pub power: &'a [Power],
}

/// # Errors
/// A failed write.
pub fn write_system_timeline(system: &SystemTimeline<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut timeline = Timeline::default();
    let has_gpu = system.events.iter().any(|event| event.place == Resource::Gpu);
    timeline.process(CHANNELS, "memory channels");
    if has_gpu {
        timeline.process(GPU, "GPU");
        timeline.track((GPU, 0), "products");
        timeline.process(BUS, "bus");
        for (track, name) in [(0, "from the GPU"), (1, "to the GPU"), (UPLOADS, "neurons to the GPU")] {
            timeline.track((BUS, track), name);
        }
    }
    if system.dimms > 1 {
        timeline.process(LINKS, "links");
        timeline.track((LINKS, MIGRATIONS), "neurons that migrate");
    }
    let events = system.events.iter().map(|event| event.place);
    if events.chain(system.power.iter().map(|power| power.place)).any(|place| place == Resource::Host) {
        timeline.process(HOST, "host");
        timeline.track((HOST, 0), "predictor");
    }
    if system.events.iter().any(|event| event.place == Resource::Ssd) {
        timeline.process(SSD, "SSD");
        timeline.track((SSD, 0), "reads");
    }
    timeline.process(PATH, "critical path");
    timeline.track((PATH, 0), "what the token waits for");
    let channels = system.events.iter().filter_map(|event| match event.place {
        Resource::Channel(channel) => Some(channel + 1),
        _ => None,
    });
    for channel in 0..channels.max().unwrap_or(0) {
        timeline.track((CHANNELS, channel), format!("channel {channel}"));
    }
    for dimm in 0..system.dimms {
        if system.dimms > 1 {
            timeline.track((LINKS, 2 * dimm + 1), format!("to DIMM {dimm}"));
            timeline.track((LINKS, 2 * dimm + 2), format!("from DIMM {dimm}"));
        }
        let process = FIRST_DIMM + dimm;
        timeline.process(process, format!("DIMM {dimm} ({})", system.name));
        timeline.track((process, 0), "programs");
        timeline.track((process, 1), "front end");
        for (track, part) in (2..).zip(PARTS) {
            timeline.track((process, track), part);
        }
    }
    for event in system.events {
        add(event, system.core_ps, &mut timeline);
    }
    for Segment { event, begin_ns, end_ns, shares } in system.path {
        let Event { position, operation, what, place, .. } = &system.events[*event];
        let mut args: Map<String, Value> =
            shares.iter().map(|(cause, ns)| (format!("{} ns", cause.name()), ns.into())).collect();
        args.insert("token".into(), json!(position));
        args.insert("operation".into(), json!(operation.name()));
        timeline.event((PATH, 0), format!("{place}: {what}"), (begin_ns * 1000, end_ns * 1000), args.into());
    }
    for moves in system.moves {
        let projection =
            |event: &&Event| event.position == moves.position && event.operation == Operation::Projection;
        let Some(first) = system.events.iter().find(projection) else { continue };
        let mut moved = |track, what: &str, (neurons, bytes, ns): (u64, u64, u64)| {
            if neurons > 0 {
                let args = json!({ "token": moves.position, "neurons": neurons, "bytes": bytes });
                let span = (first.begin_ns * 1000, (first.begin_ns + ns) * 1000);
                timeline.event(track, format!("{neurons} neurons {what}"), span, args);
            }
        };
        moved((BUS, UPLOADS), "to the GPU", (moves.uploads, moves.upload_bytes, moves.upload_ns));
        let migrations = (moves.migrations, moves.migration_bytes, moves.migration_ns);
        moved((LINKS, MIGRATIONS), "from DIMM to DIMM", migrations);
    }
    for Power { place, from_ns, watts } in system.power {
        timeline.counter(track_of(*place).0, "power, W", from_ns * 1000, *watts);
    }
    timeline.write(out)
}

fn track_of(place: Resource) -> (u32, u32) {
    match place {
        Resource::Gpu => (GPU, 0),
        Resource::BusDown => (BUS, 0),
        Resource::BusUp => (BUS, 1),
        Resource::Channel(channel) => (CHANNELS, channel),
        Resource::LinkIn(dimm) => (LINKS, 2 * dimm + 1),
        Resource::LinkOut(dimm) => (LINKS, 2 * dimm + 2),
        Resource::Dimm(dimm) => (FIRST_DIMM + dimm, 0),
        Resource::Host => (HOST, 0),
        Resource::Ssd => (SSD, 0),
    }
}

fn add(event: &Event, core_ps: u64, timeline: &mut Timeline) {
    let Event { position, layer, operation, what, place, begin_ns, end_ns, bytes, neurons, program, .. } =
        event;
    let mut args = json!({ "token": position, "operation": operation.name() });
    if let Some(layer) = layer {
        args["layer"] = json!(layer);
    }
    if *bytes > 0 {
        args["bytes"] = json!(bytes);
    }
    if !neurons.is_empty() {
        args["neurons"] = json!(neurons.len());
    }
    if let Some(ProgramFigures { number, first_cycle, cycles, instructions, .. }) = program {
        args["program"] = json!(number);
        args["first core cycle"] = json!(first_cycle);
        args["cycles"] = json!(cycles);
        args["instructions"] = json!(instructions);
    }
    let name = match layer {
        Some(layer) => format!("{layer} {}: {what}", operation.name()),
        None => (*what).to_owned(),
    };
    timeline.event(track_of(*place), name, (begin_ns * 1000, end_ns * 1000), args.clone());
    if let (Resource::Dimm(dimm), Some(program)) = (place, program) {
        add_instructions(FIRST_DIMM + dimm, (*begin_ns, core_ps), program, &args, timeline);
    }
}

fn add_instructions(
    process: u32,
    (begin_ns, core_ps): (u64, u64),
    program: &ProgramFigures,
    of: &Value,
    timeline: &mut Timeline,
) {
    let ps = |cycle: u64| begin_ns * 1000 + cycle.saturating_sub(program.first_cycle) * core_ps;
    // Without the words that fill the last burst.
    for (sequence, record) in program.records.iter().take(program.instructions as usize).enumerate() {
        let text = Code::disassemble(record.word).to_string();
        let mut args = Value::from(fields_of(record, sequence));
        for key in ["token", "layer", "operation", "program"] {
            args[key] = of[key].clone();
        }
        let left = record.started.or(record.refused).unwrap_or(record.taken);
        timeline.event((process, 1), text.clone(), (ps(record.taken), ps(left)), args.clone());
        if let (Some(part), Some(started), Some(ended)) = (part_of(record.word), record.started, record.ended)
        {
            args["cycles"] = json!(ended.saturating_sub(started));
            args["core cycle"] = json!(started);
            timeline.event((process, part as u32 + 2), text, (ps(started), ps(ended)), args);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::InstructionRecord;
    use crate::system::{Cause, Shares};

    fn event(place: Resource, program: Option<ProgramFigures>) -> Event {
        Event {
            position: 7,
            layer: Some(2),
            operation: Operation::Projection,
            what: "part",
            place,
            asked_ns: 100,
            begin_ns: 100,
            end_ns: 160,
            seen_ns: 160,
            shares: Shares::default(),
            bytes: 0,
            access: None,
            neurons: vec![3, 4],
            program,
        }
    }

    #[test]
    fn instructions_are_shown_in_the_time_of_the_system() {
        let record = InstructionRecord {
            word: 0x20,
            taken: 1005,
            started: Some(1010),
            ended: Some(1040),
            refused: None,
        };
        let filler = InstructionRecord { word: 0, ..record };
        let records = vec![record, filler];
        let program = ProgramFigures {
            number: 9,
            first_cycle: 1000,
            cycles: 60,
            instructions: 1,
            records,
            ..ProgramFigures::default()
        };
        let events = [event(Resource::Dimm(1), Some(program)), event(Resource::Gpu, None)];
        let moves = [Moves { position: 7, uploads: 3, upload_ns: 5, ..Moves::default() }];
        let path = [Segment { event: 1, begin_ns: 100, end_ns: 130, shares: Shares::of(Cause::Compute, 30) }];
        let system = SystemTimeline {
            name: "tiny",
            core_ps: 1000,
            dimms: 2,
            events: &events,
            path: &path,
            moves: &moves,
            power: &[Power { place: Resource::Dimm(1), from_ns: 100, watts: 2.5 }],
        };
        let mut text = Vec::new();
        write_system_timeline(&system, &mut text).unwrap();
        let json: Value = serde_json::from_slice(&text).unwrap();
        let shown: Vec<&Value> =
            json["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X").collect();
        let power: Vec<_> =
            json["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "C").collect();
        assert_eq!(
            (power.len(), &power[0]["pid"], &power[0]["args"]["value"]),
            (1, &json!(FIRST_DIMM + 1), &json!(2.5))
        );
        assert_eq!(shown.len(), 6);
        let waited = shown.iter().find(|event| event["pid"] == PATH).unwrap();
        assert_eq!((&waited["name"], &waited["args"]["compute ns"]), (&json!("GPU: part"), &json!(30)));
        let zero = shown.iter().find(|event| event["args"]["core cycle"] == 1010).unwrap();
        // 10 cycles into a program that began at 100 ns, and 30 cycles long.
        assert_eq!((&zero["args"]["begin ns"], &zero["dur"]), (&json!(110.0), &json!(0.03)));
        assert_eq!((&zero["args"]["token"], &zero["args"]["program"]), (&json!(7), &json!(9)));
        assert!(shown.iter().any(|event| event["name"] == "3 neurons to the GPU"));
        assert!(shown.iter().any(|event| event["name"] == "2 projection: part" && event["pid"] == GPU));
    }
}
