//! DIMM-links of every format that the configuration allows: all numbers of lanes and of beats in a flit.
//!
//! Where flits are short, the next header soon overwrites the last one. The cycle depends on how the frames of both
//! directions lie to each other, so the channel's latency goes through all cycles of a flit. The cycle model runs
//! beside each link. The payload may also look like markers, which a receiver searches.

use common::rtl::{self, Mutant, Mutation, design_config};
use common::{Outcome, some};
use ndp_config::{DesignConfig, LinkConfig};
use ndp_sim::link::flow::Flow;
use ndp_sim::link::network::{END, LATENCY, Network};
use std::error::Error;
use std::fmt::Display;

/// One design for each format, with different buffers and times.
const FORMATS: [&str; 6] = ["link-8x2", "link-8x4", "hermes", "tiny", "link-4x4", "link-4x8"];
/// Cycles without a delivery, among healthy links.
const PATIENCE: u64 = 60_000;

fn link(design: &str) -> Result<LinkConfig, Box<dyn Error>> {
    Ok(design_config(design)?.link().clone())
}

fn stream(source: u32, dest: u32, config: &LinkConfig) -> Flow {
    Flow { source, dest, epoch: 0, message_beats: config.flit_beats(), marked_lanes: 0 }
}

/// Two DIMMs whose link is up, with the cycle model beside them if `predict`. Words take `latency` cycles.
fn pair(design: &str, config: &LinkConfig, latency: u32, predict: bool) -> Result<Network, Box<dyn Error>> {
    let end = rtl::design(design, END, &MUTANTS)?;
    let mut network = Network::open([&end; 2], 2, config, latency.into())?;
    if predict {
        network.predict(config);
    }
    let delays = vec![latency * LinkConfig::LANE_BITS; config.lanes() as usize];
    network.cables[0].channels.iter_mut().for_each(|channel| channel.set_delays(&delays));
    let up = network.run_until(20_000, |n| n.nodes.iter().all(|node| node.status().up))?;
    assert!(up, "no link after {} cycles", network.cycle());
    Ok(network)
}

/// Flits of any length in both directions, with `errors` wrong bits per flit.
fn deliver(network: &mut Network, config: &LinkConfig, errors: f64, flits: u64) -> ndp_files::Result<()> {
    network.cables[0].set_ber(errors / f64::from(config.flit_bits()));
    for (source, dest) in [(0, 1), (1, 0)] {
        let beats = flits / 2 * u64::from(config.flit_beats());
        network.send(Flow { message_beats: 0, ..stream(source, dest, config) }, beats);
    }
    network.drain(PATIENCE)?;
    network.cables[0].set_ber(0.0);
    network.run(500)?;
    network.counters(0)?;
    network.counters(1)?;
    Ok(())
}

fn sweep(design: &str, errors: f64, flits: u64, predict: bool) -> Outcome {
    let config = link(design)?;
    let mut flipped = 0;
    for latency in LATENCY..=LATENCY + config.flit_words() {
        let context = |e: &dyn Display| format!("{design}, latency {latency}, {errors} errors per flit: {e}");
        let mut network = pair(design, &config, latency, predict).map_err(|e| context(&e))?;
        deliver(&mut network, &config, errors, flits).map_err(|e| context(&e))?;
        assert!(network.nodes.iter().all(|node| !node.status().fault), "{design}, latency {latency}");
        flipped += network.cables[0].channels.iter().map(|channel| channel.flipped()).sum::<u64>();
    }
    assert!(flipped > 0 || errors == 0.0);
    Ok(())
}

#[test]
fn the_designs_have_every_format_that_the_configuration_allows() -> Outcome {
    let mut formats = Vec::new();
    for design in FORMATS {
        let config = link(design)?;
        formats.push((config.lanes(), config.flit_beats()));
    }
    let is_legal = |lanes: u32, beats: u32| {
        let text = format!("name = \"a\"\n[link]\nlanes = {lanes}\nflit_beats = {beats}\n");
        DesignConfig::from_toml(&text).is_ok()
    };
    let mut legal: Vec<_> = (0..64).flat_map(|lanes| (0..64).map(move |beats| (lanes, beats))).collect();
    legal.retain(|(lanes, beats)| is_legal(*lanes, *beats));
    formats.sort_unstable();
    assert_eq!(formats, legal);
    Ok(())
}

#[test]
fn links_of_every_format_lose_nothing_at_any_latency_and_keep_to_the_cycle_model() -> Outcome {
    some(&FORMATS).iter().try_for_each(|design| sweep(design, 0.3, 200, true))
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn links_of_every_format_do_so_at_every_error_rate() -> Outcome {
    for errors in [0.0, 0.01, 0.1, 0.3, 1.0] {
        FORMATS.into_iter().try_for_each(|design| sweep(design, errors, 1_000, true))?;
    }
    FORMATS.into_iter().try_for_each(|design| sweep(design, 0.3, 10_000, false))
}

/// The header of a flit of six words is overwritten before it counts, at one latency in seven.
#[test]
fn an_acknowledgement_counts_only_if_its_flit_is_intact() -> Outcome {
    sweep("link-8x2", 0.35, 8_000, false)
}

const MUTANTS: [Mutant; 2] = [
    // The acknowledgement is taken from the header that came last, intact or not.
    ("link-8x2", Mutation::new("mutant-unchecked", "said_q[7:0]", |s| s.signal("header_q").slice(20, 8))),
    // Flits are repeated whenever the time has passed.
    ("link-8x2", Mutation::new("mutant-repeat", "expires | (repeated_q & ~clear)", |s| s.lit(0))),
];

#[test]
fn a_link_that_takes_headers_unchecked_is_caught() -> Outcome {
    let config = link("link-8x2")?;
    // With errors flits are lost. Without any the acknowledgement of the next flit counts too early.
    for (errors, flits, predict) in [(0.35, 8_000, false), (0.0, 200, true)] {
        let mut found = None;
        for latency in LATENCY..=LATENCY + config.flit_words() {
            let mut network = pair("mutant-unchecked", &config, latency, predict)?;
            match deliver(&mut network, &config, errors, flits) {
                Ok(()) => {}
                Err(error) => {
                    found = Some((error, broken(&network)));
                    break;
                }
            }
        }
        let (error, broken) = found.ok_or_else(|| format!("nothing found with {errors} errors per flit"))?;
        assert_eq!(error.to_string().contains("; by the cycle model "), predict, "{error}");
        println!("mutant-unchecked, {errors} errors per flit: {error}; property: {broken:?}");
        assert!(broken.is_some_and(|property| property.contains("says_what_was_intact")), "{error}");
    }
    Ok(())
}

fn broken(network: &Network) -> Option<String> {
    network.nodes.iter().find_map(|node| node.model.failed_property())
}

/// Lanes that have lost their markers search them in a stream that may contain them everywhere: the same flits,
/// repeated until they are acknowledged. With noise instead, only the cut shows, and the cycle model keeps to it.
#[test]
fn markers_in_the_payload_do_not_hide_the_frame() -> Outcome {
    for design in some(&["link-4x8", "tiny", "link-8x2"]) {
        let config = link(design)?;
        for (directions, marked) in [(1, false), (2, false), (1, true), (2, true)] {
            // After the shorter cut lanes still try the right place of a word's first bit.
            for (half_frames, phase) in [(9, 0), (9, 77), (10, 0), (10, 77)] {
                let mut network = pair(design, &config, LATENCY, !marked)?;
                network.run(phase)?;
                let cut = half_frames * u64::from(config.frame_words()) / 2;
                let what =
                    format!("{design}, {directions} directions, markers {marked}, a cut of {cut} cycles");
                let cycles = recover(&mut network, &config, (directions, cut), marked);
                let cycles = cycles.map_err(|e| format!("{what} after {phase} cycles: {e}"))?;
                println!("{what}: delivers {cycles} cycles later");
            }
        }
    }
    Ok(())
}

/// Cuts directions of a link for some cycles, each with a stream that may have markers at the same places of every
/// flit. Returns the cycles from the cut's end until both deliver.
fn recover(
    network: &mut Network,
    config: &LinkConfig,
    (directions, cut): (usize, u64),
    marked: bool,
) -> Result<u64, Box<dyn Error>> {
    for (source, dest) in [(0, 1), (1, 0)] {
        let marked_lanes = if marked { config.lanes() } else { 0 };
        network.send(Flow { marked_lanes, ..stream(source, dest, config) }, u64::MAX / 16);
    }
    network.run(2_000)?;
    network.cables[0].channels.iter_mut().take(directions).for_each(|channel| channel.cut(cut));
    network.run(cut)?;
    let (before, start) = ([0, 1].map(|n| network.inboxes[n].beats), network.cycle());
    // More than may have waited after the link.
    let some = 2 * u64::from(config.receive_flits() * config.flit_beats());
    let back = |n: &Network| (0..2).all(|i| n.inboxes[i].beats > before[i] + some);
    let found = network.run_until(u64::from(config.fault_cycles()) + 1_000, back)?;
    let (cycles, status) = (network.cycle() - start, [0, 1].map(|n| network.nodes[n].status()));
    if !found || status.iter().any(|status| status.fault) {
        return Err(format!("not back after {cycles} cycles, {status:?}").into());
    }
    Ok(cycles)
}

#[test]
fn a_link_that_repeats_without_end_is_caught() -> Outcome {
    let config = link("link-8x2")?;
    for (marked, lost) in [(false, false), (true, true)] {
        let mut network = pair("mutant-repeat", &config, LATENCY, false)?;
        let found = recover(&mut network, &config, (1, 9 * u64::from(config.frame_words()) / 2), marked);
        let broken = broken(&network);
        println!("mutant-repeat, markers {marked}: {found:?}; property: {broken:?}");
        assert_eq!(found.is_err(), lost, "{found:?}");
        assert!(broken.is_some_and(|property| property.contains("once_unasked")));
    }
    Ok(())
}
