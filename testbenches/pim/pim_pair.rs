//! Two pseudo channels on shared command buses: does the RTL answer as the device models do in every clock, for any
//! input?

use common::Outcome;
use common::pim_streams::Stream;
use common::rtl::{Mutant, Mutation, hbm_config, hbm_design};
use ndp_config::HbmConfig;
use ndp_dram::Rule;
use ndp_dram::hbm::PseudoChannel;
use ndp_sim::ffi::{InputPort, Model, OpenOptions, OutputPort, Rtl};
use ndp_sim::hbm::ChannelOutputs;
use std::error::Error;

const PAIR: &str = "hbm2-pair";
const BLOCK: &str = "pim_pair";

struct Ports {
    inputs: [InputPort; 4],
    status: [OutputPort; 2],
    read: [OutputPort; 2],
    reports: [OutputPort; 3],
}

struct Sides {
    model: Model,
    ports: [Ports; 2],
    devices: Vec<PseudoChannel>,
    seen: [usize; 2],
}

impl Sides {
    fn open(rtl: &Rtl, config: &HbmConfig) -> Result<Self, Box<dyn Error>> {
        let mut model = Model::open(rtl, &OpenOptions::default())?;
        model.reset(3);
        let ports = |p: usize| -> Result<Ports, Box<dyn Error>> {
            let input = |name: &str, width| model.input_of_width(&format!("{name}{p}_i"), width);
            let output = |name: &str, width| model.output_of_width(&format!("{name}{p}_o"), width);
            Ok(Ports {
                inputs: [
                    input("row", 32)?,
                    input("column", 32)?,
                    input("data_valid", 1)?,
                    input("data", 128)?,
                ],
                status: [output("row_status", 7)?, output("column_status", 7)?],
                read: [output("data_valid", 1)?, output("data", 128)?],
                reports: [
                    output("refresh_late", 1)?,
                    output("write_missing", 1)?,
                    output("write_unexpected", 1)?,
                ],
            })
        };
        let ports = [ports(0)?, ports(1)?];
        let mut devices = PseudoChannel::all(config)?;
        devices.iter_mut().for_each(|device| device.keep_violations(usize::MAX));
        Ok(Self { model, ports, devices, seen: [0; 2] })
    }

    /// One clock: of each pseudo channel its words and its data bus.
    fn clock(&mut self, given: [([u32; 2], Option<[u64; 2]>); 2]) -> Result<[ChannelOutputs; 2], String> {
        let clock = self.devices[0].cycle();
        for (ports, (words, write)) in self.ports.iter().zip(given) {
            let [row, column, valid, data] = ports.inputs;
            self.model.set(row, words[0].into());
            self.model.set(column, words[1].into());
            self.model.set(valid, write.is_some().into());
            let [low, high] = write.unwrap_or_default();
            self.model.set_u128(data, u128::from(high) << 64 | u128::from(low));
        }
        self.model.eval();
        let found = self.ports.each_ref().map(|ports| {
            let driven = self.model.get_u128(ports.read[1]);
            let is_driven = self.model.get(ports.read[0]) != 0;
            ChannelOutputs {
                read: is_driven.then_some([driven as u64, (driven >> 64) as u64]),
                // A status has seven bits.
                status: ports.status.map(|port| self.model.get(port) as u8),
                reports: ports.reports.map(|port| self.model.get(port) != 0),
            }
        });
        self.model.tick();
        for (p, (words, write)) in given.into_iter().enumerate() {
            let out = self.devices[p].clock(words[0], words[1], write);
            let news = &self.devices[p].violations()[self.seen[p]..];
            let reports = [Rule::Refi, Rule::WriteDataMissing, Rule::WriteDataUnexpected]
                .map(|rule| news.iter().any(|violation| violation.rule == rule));
            self.seen[p] += news.len();
            let status = [out.row_status.code(), out.column_status.code()];
            let expected = ChannelOutputs { read: out.read, status, reports };
            if found[p] != expected {
                return Err(format!(
                    "clock {clock}, pseudo channel {p}: {:?} in RTL, {expected:?}",
                    found[p]
                ));
            }
        }
        Ok(found)
    }
}

/// Independent streams of both; how often each was refused a bus.
fn streams(rtl: &Rtl, config: &HbmConfig, seed: u64, clocks: u64) -> Result<[u64; 2], Box<dyn Error>> {
    let mut sides = Sides::open(rtl, config)?;
    let mut streams = [0, 1].map(|p| Stream::new(config, 2 * seed + p));
    for clock in 0..clocks {
        let given = [0, 1].map(|p| streams[p].draw(&sides.devices[p]));
        let out = sides.clock(given).map_err(|error| format!("seed {seed}, {error}"))?;
        for (p, stream) in streams.iter_mut().enumerate() {
            stream.answered(clock, given[p].0, &out[p]);
        }
    }
    for stream in &streams {
        assert!(stream.done > clocks / 20, "{} of {clocks}", stream.done);
    }
    Ok(streams.map(|stream| stream.seen.get(&55).copied().unwrap_or(0)))
}

#[test]
fn random_streams_on_shared_buses() -> Outcome {
    let refused = streams(&hbm_design(PAIR, BLOCK, &MUTANTS)?, &hbm_config(PAIR)?, 3, 60_000)?;
    println!("{refused:?} words found their bus taken");
    // The first one's only after activations of the second one.
    assert!(refused[0] > 50 && refused[1] > 100 * refused[0], "{refused:?}");
    Ok(())
}

const MUTANTS: [Mutant; 4] = [
    // Two column commands in one clock.
    (PAIR, Mutation::new("mutant-columns", "drive both_columns", |s| s.lit(0))),
    // Two row commands in one clock.
    (PAIR, Mutation::new("mutant-rows", "drive both_rows", |s| s.lit(0))),
    // An activation has the bus for one clock.
    (PAIR, Mutation::new("mutant-second", "drive held0", |s| s.lit(0))),
    // One that is refused has it for two.
    (
        PAIR,
        Mutation::new("mutant-refused", "drive activates0", |s| {
            s.signal("row0_i").low(4).eq_lit(1) | s.old()
        }),
    ),
];

#[test]
fn mutants_are_caught() -> Outcome {
    let config = hbm_config(PAIR)?;
    for (_, mutation) in MUTANTS {
        let found = streams(&hbm_design(mutation.name, BLOCK, &MUTANTS)?, &config, 3, 60_000);
        println!("{}: {}", mutation.name, found.expect_err("the mutant must be noticed"));
    }
    Ok(())
}
