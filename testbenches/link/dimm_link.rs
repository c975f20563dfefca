//! DIMM-links: is everything delivered once, in order and unchanged, whatever the lanes do? How fast?
//!
//! Two DIMMs on a link and several around a bridge, over channels with bit errors, bursts, skew, stalls, cuts and dead
//! lanes. Every beat that arrives is compared with the next one of its flow, every flit on the lanes with the protocol.
//! Errors injected after the link and in its Verilog have to be found.

use common::rtl::{self, Mutant, Mutation};
use common::star::Star;
use common::{Outcome, whole};
use ndp_config::{DesignConfig, LinkConfig};
use ndp_files::said;
use ndp_hdl_language::lit;
use ndp_numerics::SplitMix64;
use ndp_sim::ffi::{Model, OpenOptions};
use ndp_sim::link::flow::Flow;
use ndp_sim::link::network::{DeliveryFault, END, Network};
use std::error::Error;
use std::io::Write;

/// GB/s of the eight lanes of a link, 25 Gb/s each.
const LINK_GBPS: f64 = 25.0;
/// Largest skew of lanes: the receiver's capacity, less two words.
const SKEW_BITS: u32 = (LinkConfig::DESKEW_WORDS - 2) * LinkConfig::LANE_BITS;
/// Cycles without a delivery, among healthy links.
const PATIENCE: u64 = 60_000;
const DESIGNS: [&str; 2] = ["hermes", "tiny"];

fn link(preset: &str) -> Result<LinkConfig, Box<dyn Error>> {
    Ok(DesignConfig::preset(preset)?.link().clone())
}

fn stream(source: u32, dest: u32) -> Flow {
    Flow { source, dest, epoch: 0, message_beats: 64, marked_lanes: 0 }
}

fn messages(source: u32, dest: u32) -> Flow {
    Flow { message_beats: 0, ..stream(source, dest) }
}

fn pair(design: &str, seed: u64) -> Result<Network, Box<dyn Error>> {
    let mut network = Network::pair(&DesignConfig::preset(design)?, seed)?;
    for channel in &mut network.cables[0].channels {
        channel.skew(12, SKEW_BITS);
    }
    bring_up(&mut network)?;
    Ok(network)
}

fn star(design: &str, seed: u64) -> Result<Network, Box<dyn Error>> {
    let mut network = Network::star(&DesignConfig::preset(design)?, seed)?;
    for channel in network.cables.iter_mut().flat_map(|cable| &mut cable.channels) {
        channel.skew(12, SKEW_BITS);
    }
    bring_up(&mut network)?;
    Ok(network)
}

fn bring_up(network: &mut Network) -> Outcome {
    let up = network.run_until(20_000, |n| n.nodes.iter().all(|node| node.status().up))?;
    assert!(up, "no link after {} cycles", network.cycle());
    Ok(())
}

fn report(line: &str) -> Outcome {
    writeln!(std::io::stderr(), "dimm_link: {line}")?;
    Ok(())
}

/// Payload in bytes per cycle and direction, over `cycles` cycles of a link that is always busy.
fn rate(network: &mut Network, cycles: u64) -> ndp_files::Result<f64> {
    let before: u64 = network.inboxes.iter().map(|inbox| inbox.beats).sum();
    network.run(cycles)?;
    let after: u64 = network.inboxes.iter().map(|inbox| inbox.beats).sum();
    Ok((after - before) as f64 * 64.0 / 2.0 / cycles as f64)
}

#[test]
fn without_errors_the_payload_is_95_percent_of_the_lanes() -> Outcome {
    for design in DESIGNS {
        let config = link(design)?;
        let mut network = pair(design, 1)?;
        network.send(stream(0, 1), u64::MAX / 4);
        network.send(stream(1, 0), u64::MAX / 4);
        network.run(2_000)?;
        // Whole frames, so that the markers' share is exact.
        let measured = rate(&mut network, 200 * u64::from(config.frame_words()))?;
        report(&format!(
            "{design}: {measured:.3} B per cycle and direction of {:.1}, {:.2} %",
            f64::from(config.word_bits()) / 8.0,
            measured * 800.0 / f64::from(config.word_bits())
        ))?;
        let ideal = config.payload_bytes_per_cycle();
        // Delivery is not in step with frames: a flit more or less.
        let flit = f64::from(config.payload_bits()) / 8.0 / (200.0 * f64::from(config.frame_words()));
        assert!((measured - ideal).abs() <= flit, "{measured} instead of {ideal}");
        if design == "hermes" {
            assert!(measured >= 0.95 * LINK_GBPS, "{measured}");
        }
        let counters = network.counters(0)?;
        assert_eq!((counters[1], counters[3], counters[5], counters[6]), (0, 0, 0, 0), "{counters:?}");
    }
    Ok(())
}

/// Flits of a design in both directions at a bit error rate; returns the payload in bytes per cycle and direction.
fn deliver(design: &str, ber: f64, flits: u64, seed: u64) -> Result<(f64, [u64; 16], u64), Box<dyn Error>> {
    let mut network = pair(design, seed)?;
    let beats = flits / 2 * u64::from(link(design)?.flit_beats());
    network.cables[0].set_ber(ber);
    let start = network.cycle();
    network.send(stream(0, 1), beats);
    network.send(stream(1, 0), beats);
    network.drain(PATIENCE).map_err(|e| format!("{design}, error rate {ber:e}, seed {seed}: {e}"))?;
    let bytes = beats as f64 * 64.0 / (network.cycle() - start) as f64;
    assert!(network.flits() >= flits / 2 * 2, "{}", network.flits());
    assert!(network.nodes.iter().all(|node| !node.status().fault));
    let flipped = network.cables[0].channels.iter().map(|channel| channel.flipped()).sum();
    Ok((bytes, network.counters(0)?, flipped))
}

fn curve(design: &str, flits: u64, seed: u64) -> Outcome {
    report(&format!(
        "{design}: {flits} flits at each rate; GB/s per direction, of one end: sent again, wrong CRC, replays asked and timed"
    ))?;
    for ber in [0.0, 1e-12, 1e-9, 1e-7, 1e-6, 1e-5, 3e-5, 1e-4] {
        let (bytes, counters, flipped) = deliver(design, ber, flits, seed)?;
        let [_, again, _, wrong, _, asked, timed, ..] = counters;
        report(&format!(
            "{ber:7.0e} {bytes:7.3} {again:7} {wrong:7} {asked:6} {timed:4}; {flipped} bits wrong"
        ))?;
        assert!(flipped > 0 || ber < 1e-8);
        assert!(flipped == 0 || ber < 1e-6 || (again > 0 && wrong > 0));
    }
    Ok(())
}

#[test]
fn nothing_is_lost_repeated_or_reordered_at_any_error_rate() -> Outcome {
    curve("hermes", 12_500, 2)?;
    if whole() { curve("tiny", 12_500, 3) } else { Ok(()) }
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn nothing_is_lost_repeated_or_reordered_in_a_million_flits() -> Outcome {
    curve("hermes", 125_000, 4)?;
    curve("tiny", 125_000, 5)
}

/// At this rate seven of eight flits are wrong.
#[test]
fn progress_is_made_as_long_as_some_flits_arrive() -> Outcome {
    let (bytes, counters, _) = deliver("hermes", 5e-4, 200, 6)?;
    report(&format!(
        "hermes: {bytes:.3} GB/s per direction at 5e-4, {} of {} flits sent again",
        counters[1], counters[0]
    ))
}

#[test]
fn stalls_on_every_handshake_change_nothing() -> Outcome {
    for (seed, (source, sink)) in (10..).zip([(0, 0), (100, 0), (0, 100), (250, 0), (0, 250), (200, 200)]) {
        for (design, ber) in [("tiny", 0.0), ("tiny", 2e-5), ("hermes", 1e-5)] {
            let mut network = pair(design, seed)?;
            network.nodes.iter_mut().for_each(|node| node.stalls = [source, sink]);
            network.cables[0].set_ber(ber);
            network.send(messages(0, 1), 1_500);
            network.send(messages(1, 0), 1_500);
            let outcome = network.drain(PATIENCE);
            outcome.map_err(|e| format!("{design}, stalls {source} and {sink}, seed {seed}: {e}"))?;
        }
    }
    Ok(())
}

#[test]
fn a_receiver_that_takes_nothing_stops_its_sender_and_is_no_fault() -> Outcome {
    for design in DESIGNS {
        let config = link(design)?;
        let mut network = pair(design, 20)?;
        network.nodes[1].stalls[1] = 256;
        network.cables[0].set_ber(1e-6);
        network.send(stream(0, 1), 4_000);
        network.send(stream(1, 0), 1_000);
        // Longer than the time to a fault.
        network.run(2 * u64::from(config.fault_cycles()))?;
        assert!(network.nodes.iter().all(|node| !node.status().fault));
        assert_eq!(network.inboxes[1].beats, 0);
        assert_eq!(network.missing_between(1, 0), 0, "the other direction goes on");
        let counters = network.counters(0)?;
        assert_eq!(counters[0], u64::from(config.receive_flits()), "flits beyond the credit");
        assert!(counters[8] > 0 && counters[9] > 0, "{counters:?}");
        network.nodes[1].stalls[1] = 0;
        network.drain(PATIENCE)?;
    }
    Ok(())
}

#[test]
fn bursts_of_errors_lose_nothing() -> Outcome {
    for (seed, design) in (30..).zip(DESIGNS) {
        let mut network = pair(design, seed)?;
        let mut random = SplitMix64::new(seed);
        network.send(messages(0, 1), 6_000);
        network.send(messages(1, 0), 6_000);
        while network.missing() > 0 {
            let cycles = 1 + random.next_u64() % 60;
            let mask = random.next_u64() as u32 & 0xFF;
            let direction = (random.next_u64() % 2) as usize;
            network.cables[0].channels[direction].burst(cycles, mask);
            network.run(200 + random.next_u64() % 600).map_err(|e| format!("{design}: {e}"))?;
        }
        let counters = network.counters(0)?;
        assert!(counters[1] > 50 && counters[3] > 50, "{counters:?}");
    }
    Ok(())
}

#[test]
fn every_boundary_of_words_and_every_skew_is_found() -> Outcome {
    for design in DESIGNS {
        let config = link(design)?;
        // Each lane in turn is late by each number of bits; the others are not, or all are.
        for (seed, late) in (0..=SKEW_BITS).step_by(7).enumerate() {
            let mut network = Network::pair(&DesignConfig::preset(design)?, seed as u64)?;
            let lane = seed as u32 % config.lanes();
            let delays: Vec<u32> = (0..config.lanes())
                .map(|l| 300 + seed as u32 % 25 + if l == lane { late } else { 0 })
                .collect();
            network.cables[0].channels[0].set_delays(&delays);
            let up = network.run_until(u64::from(2 * config.lock_cycles()), |n| n.nodes[1].status().up)?;
            assert!(up, "{design}: lane {lane} later by {late} bits");
            network.send(stream(0, 1), 100);
            network.drain(PATIENCE)?;
        }
        // The receiver reports skew beyond its capacity as a fault.
        let mut network = Network::pair(&DesignConfig::preset(design)?, 99)?;
        let delays: Vec<u32> =
            (0..config.lanes()).map(|l| 300 + if l == 1 { SKEW_BITS + 26 } else { 0 }).collect();
        network.cables[0].channels[0].set_delays(&delays);
        let limit = u64::from(config.fault_cycles()) + 100;
        assert!(network.run_until(limit, |n| n.nodes[1].status().fault)?);
        let status = network.nodes[1].status();
        assert!(!status.aligned && status.locked.count_ones() == config.lanes(), "{status:?}");
    }
    Ok(())
}

#[test]
fn lanes_that_stall_are_found_again() -> Outcome {
    for (seed, design) in (40..).zip(DESIGNS) {
        let mut network = Network::pair(&DesignConfig::preset(design)?, seed)?;
        bring_up(&mut network)?;
        let mut random = SplitMix64::new(seed);
        network.send(messages(0, 1), 20_000);
        network.send(messages(1, 0), 20_000);
        // A lane at a time: later ones are brought into step if they are not too far apart.
        for lane in 0..link(design)?.lanes() {
            network.cables[0].channels[lane as usize % 2].stall(lane, 1 + random.next_u64() % 3);
            network.run(10_000).map_err(|e| format!("{design}, lane {lane}: {e}"))?;
        }
        network.drain(PATIENCE)?;
        let counters = network.counters(0)?;
        assert!(counters[12] > 0, "{counters:?}");
        assert!(network.nodes.iter().all(|node| !node.status().fault));
    }
    Ok(())
}

#[test]
fn a_cut_of_10_us_is_survived_without_a_fault() -> Outcome {
    for design in DESIGNS {
        let mut network = pair(design, 50)?;
        network.send(messages(0, 1), 15_000);
        network.send(messages(1, 0), 15_000);
        network.run(3_000)?;
        network.cables[0].cut(10_000);
        network.run(10_000)?;
        let cut_ends = network.cycle();
        let before = network.inboxes[1].beats;
        assert!(network.run_until(20_000, |n| n.inboxes[1].beats > before)?, "{design}: not back");
        report(&format!(
            "{design}: delivers again {} cycles after a cut of 10 us",
            network.cycle() - cut_ends
        ))?;
        network.drain(PATIENCE)?;
        assert!(network.nodes.iter().all(|node| !node.status().fault));
    }
    Ok(())
}

#[test]
fn a_long_cut_is_a_fault_and_retraining_goes_on_without_loss() -> Outcome {
    for design in DESIGNS {
        let config = link(design)?;
        let fault_cycles = u64::from(config.fault_cycles());
        let mut network = pair(design, 60)?;
        network.send(messages(0, 1), 4_000);
        network.send(messages(1, 0), 4_000);
        network.run(1_000)?;
        network.cables[0].cut(fault_cycles + 20_000);
        let start = network.cycle();
        let both = |n: &Network| n.nodes.iter().all(|node| node.status().fault);
        assert!(network.run_until(fault_cycles + 1_000, both)?, "{design}: no fault");
        report(&format!("{design}: fault {} cycles after the beginning of a cut", network.cycle() - start))?;
        assert!(network.nodes.iter().all(|node| node.status().cause & 1 == 1));
        // The fault stays after the cut until a link is told to retrain; until then nothing is sent, and nothing taken
        // once the buffer is full.
        network.run(40_000)?;
        assert!(both(&network));
        let (before, unsent) = (network.inboxes[1].beats, network.nodes[0].unsent());
        network.run(5_000)?;
        assert_eq!((network.inboxes[1].beats, network.nodes[0].unsent()), (before, unsent));
        assert!(network.nodes[0].status().peer_fault);
        network.nodes.iter_mut().for_each(|node| node.set_retrain(true));
        network.run(1)?;
        network.nodes.iter_mut().for_each(|node| node.set_retrain(false));
        assert!(!network.nodes[0].status().fault);
        network.drain(PATIENCE)?;
        assert!(network.nodes.iter().all(|node| !node.status().fault && !node.status().peer_fault));
    }
    Ok(())
}

#[test]
fn a_dead_lane_is_a_fault_that_names_the_lane() -> Outcome {
    for design in DESIGNS {
        let config = link(design)?;
        let fault_cycles = u64::from(config.fault_cycles());
        for lane in [0, config.lanes() - 1] {
            let mut network = pair(design, 70)?;
            network.send(messages(0, 1), 3_000);
            network.send(messages(1, 0), 3_000);
            network.run(1_000)?;
            // One direction only: the side that receives nothing reports it to the other, which receives the report and
            // gets no acknowledgement.
            network.cables[0].channels[0].set_dead(lane, true);
            let both = |n: &Network| n.nodes.iter().all(|node| node.status().fault);
            assert!(network.run_until(fault_cycles + 5_000, both)?, "{design}: no fault");
            network.run(500)?;
            let [sender, receiver] = [0, 1].map(|n| network.nodes[n].status());
            assert_eq!(receiver.locked, ((1 << config.lanes()) - 1) & !(1 << lane), "{receiver:?}");
            assert!(
                receiver.cause & 1 == 1 && sender.cause == 2 && sender.peer_fault,
                "{sender:?} {receiver:?}"
            );
            network.cables[0].channels[0].set_dead(lane, false);
            for _ in 0..2 {
                network.nodes.iter_mut().for_each(|node| node.set_retrain(true));
                network.run(1)?;
                network.nodes.iter_mut().for_each(|node| node.set_retrain(false));
            }
            network.drain(PATIENCE)?;
        }
    }
    Ok(())
}

#[test]
fn a_reset_of_one_side_in_mid_operation_starts_the_link_anew() -> Outcome {
    for (seed, design) in (80..).zip(["hermes", "tiny", "tiny", "tiny"]) {
        let mut network = pair(design, seed)?;
        let mut random = SplitMix64::new(seed);
        network.cables[0].set_ber(1e-6);
        // The side that was reset begins a new flow; the other continues its own.
        let mut flows = [messages(0, 1), messages(1, 0)];
        for round in 1..=8_u32 {
            let node = (random.next_u64() % 2) as usize;
            let context =
                |e: ndp_files::Error| format!("{design}, seed {seed}, reset {round}, DIMM {node}: {e}");
            flows.iter().for_each(|flow| network.send(*flow, 700));
            network.run(random.next_u64() % 4_000).map_err(context)?;
            network.reset_node(node, 1 + random.next_u64() % 40).map_err(context)?;
            flows[node].epoch = round;
            flows.iter().for_each(|flow| network.send(*flow, 300));
            network.run(30_000).map_err(context)?;
            for (side, flow) in flows.iter().enumerate() {
                let status = network.nodes[side].status();
                assert!(status.up && !status.fault, "{design}, reset {round}: {status:?}");
                assert!(network.nodes[side].sources.iter().any(|(cursor, _)| cursor.flow == *flow));
                let missing = network.missing_between(flow.source, flow.dest);
                assert_eq!(missing, 0, "{design}, reset {round} of DIMM {node}, flow of {side}");
            }
            // Beats in the buffers of the side that was reset may be missing, once; nothing may be missing after this.
            network.inboxes.iter_mut().for_each(|inbox| inbox.lenient.fill(false));
        }
    }
    Ok(())
}

#[test]
fn dimms_around_a_bridge_reach_one_another() -> Outcome {
    for (seed, (design, ber)) in
        (90..).zip([("tiny", 0.0), ("tiny", 1e-5), ("hermes", 0.0), ("hermes", 1e-5)])
    {
        let mut network = star(design, seed)?;
        let count = network.nodes.len() as u32;
        network.cables.iter_mut().for_each(|cable| cable.set_ber(ber));
        for stalls in [[0, 0], [60, 60], [0, 200]] {
            network.nodes.iter_mut().for_each(|node| node.stalls = stalls);
            for source in 0..count {
                for dest in (0..count).filter(|dest| *dest != source) {
                    network.send(messages(source, dest), 500);
                }
            }
            network.drain(PATIENCE).map_err(|e| format!("{design}, error rate {ber:e}: {e}"))?;
        }
        assert_eq!(network.misrouted, 0);
    }
    Ok(())
}

#[test]
fn through_a_bridge_a_link_keeps_its_rate_and_outputs_are_shared_fairly() -> Outcome {
    let config = link("hermes")?;
    let mut network = star("hermes", 100)?;
    // A ring of four: each link is full in both directions.
    for source in 0..4 {
        network.send(stream(source, (source + 1) % 4), u64::MAX / 16);
    }
    network.run(2_000)?;
    let measured = rate(&mut network, 200 * u64::from(config.frame_words()))? / 2.0;
    report(&format!("hermes: {measured:.3} B per cycle on each of four links of a bridge, all at once"))?;
    assert!(measured >= 0.95 * LINK_GBPS, "{measured}");

    let mut network = star("hermes", 101)?;
    for source in 1..4 {
        network.send(stream(source, 0), u64::MAX / 16);
    }
    network.run(5_000)?;
    let received = |n: &Network| -> Vec<u64> {
        n.inboxes[0].cursors[1..].iter().map(|c| c.as_ref().map_or(0, |c| c.next)).collect()
    };
    let before = received(&network);
    network.run(60_000)?;
    let shares: Vec<u64> = received(&network).iter().zip(before).map(|(a, b)| a - b).collect();
    report(&format!("hermes: beats from three DIMMs to one: {shares:?}"))?;
    let (least, most) =
        (shares.iter().min().copied().unwrap_or(0), shares.iter().max().copied().unwrap_or(0));
    assert!(least > 0 && most - least <= 2 * u64::from(config.flit_beats()), "{shares:?}");
    Ok(())
}

#[test]
fn a_bridge_drops_what_it_cannot_deliver_and_serves_the_others() -> Outcome {
    for design in DESIGNS {
        let config = link(design)?;
        let mut network = star(design, 110)?;
        // There is no DIMM 9. Its flits are counted, and later ones arrive.
        network.nodes[0].send(Flow { message_beats: config.flit_beats(), ..stream(0, 9) }, 160);
        network.run(5_000)?;
        assert_eq!(network.misrouted, 160 / u64::from(config.flit_beats()));
        network.nodes[0].sources.clear();
        network.send(messages(0, 1), 500);
        network.drain(PATIENCE)?;

        // DIMM 2's lanes break. Beats for it are lost, after the time to a fault; other beats are not.
        network.cables[2].channels.iter_mut().for_each(|channel| channel.set_dead(0, true));
        network.send(messages(0, 2), 3_000);
        network.send(messages(1, 0), 10);
        assert!(network.run_until(u64::from(config.fault_cycles()) + 5_000, |n| n.bridge_faults() == 4)?);
        network.send(messages(0, 1), 500);
        network.send(messages(1, 0), 500);
        network.run(80_000)?;
        assert_eq!((network.missing_between(0, 1), network.missing_between(1, 0)), (0, 0), "{design}");
        assert!(network.missing_between(0, 2) > 0, "{design}");
        assert_eq!(network.bridge_faults(), 4);
        assert_eq!(network.nodes[0].unsent(), 0, "the source is not held up");
    }
    Ok(())
}

/// During a fault, a bridge's link drops flits whole: those that begin in it, and no others. Only the transmitter.
#[test]
fn a_flit_is_dropped_whole_or_not_at_all_when_a_fault_comes_or_goes() -> Outcome {
    let config = link("tiny")?;
    let rtl = rtl::design("tiny", "link_transmitter", &MUTANTS)?;
    let mut model = Model::open(&rtl, &OpenOptions::default())?;
    let (valid, last) = (model.input("tx_valid_i")?, model.input("tx_last_i")?);
    let (fault, discard) = (model.input("fault_i")?, model.input("discard_i")?);
    let (ready, holds, discards) =
        (model.output("tx_ready_o")?, model.output("holds_o")?, model.output("discards_o")?);
    let mut random = SplitMix64::new(160);
    let mut below = |limit: u64| random.next_u64() % limit;
    let mut changes = [0; 2];
    for round in 0..400 {
        model.reset(2);
        let discards_then = round % 4 != 0;
        model.set(discard, discards_then.into());
        let (mut beat, mut drops, mut held, mut faulty) = (0, false, 0, false);
        for _ in 0..200 {
            let (offers, ends) = (below(4) != 0, below(4) == 0);
            faulty ^= below(6) == 0;
            for (port, value) in [(valid, offers), (last, ends), (fault, faulty)] {
                model.set(port, value.into());
            }
            model.eval();
            let drops_new = faulty && discards_then;
            let ready_now = beat != 0 || drops_new || held < config.replay_flits();
            let takes = offers && ready_now;
            if takes && beat == 0 {
                drops = drops_new;
            } else if takes && drops != drops_new {
                changes[usize::from(drops)] += 1;
            }
            let completes = takes && (ends || beat + 1 == config.flit_beats());
            let found = [ready, holds, discards].map(|port| model.get(port) == 1);
            assert_eq!(found, [ready_now, beat != 0 || held > 0, completes && drops], "round {round}");
            held += u32::from(completes && !drops);
            beat = if completes { 0 } else { beat + u32::from(takes) };
            model.tick();
        }
    }
    assert!(changes.iter().all(|count| *count > 100), "{changes:?}");
    Ok(())
}

#[test]
fn a_reset_of_the_bridge_ends_in_working_links() -> Outcome {
    for design in DESIGNS {
        let mut network = star(design, 120)?;
        network.send(messages(0, 1), 2_000);
        network.send(messages(1, 2), 2_000);
        network.run(3_000)?;
        network.set_bridge_reset(true);
        network.run(5)?;
        network.set_bridge_reset(true);
        network.set_bridge_reset(false);
        // Flits in the bridge are gone with it, once per flow.
        network.inboxes.iter_mut().for_each(|inbox| inbox.lenient.fill(true));
        network.run(60_000)?;
        assert_eq!(network.missing(), 0, "{design}");
    }
    Ok(())
}

#[test]
fn latency_and_time_to_a_link_are_as_stated() -> Outcome {
    for design in DESIGNS {
        let config = link(design)?;
        let mut network = Network::pair(&DesignConfig::preset(design)?, 130)?;
        let mut worst: u64 = 0;
        let delays: Vec<u32> = (0..config.lanes()).map(|l| 300 + 24 - l).collect();
        network.cables[0].channels.iter_mut().for_each(|channel| channel.set_delays(&delays));
        bring_up(&mut network)?;
        let up = network.cycle();
        assert!(up <= 2 * u64::from(config.lock_cycles()), "{up}");
        let mut sum = 0;
        for wait in 0..100 {
            network.run(200 + wait)?;
            let start = network.cycle();
            let beats = network.inboxes[1].beats;
            network.send(Flow { message_beats: 1, ..stream(0, 1) }, 1);
            network.run_until(2_000, |n| n.inboxes[1].beats > beats)?;
            worst = worst.max(network.cycle() - start);
            sum += network.cycle() - start;
        }
        report(&format!(
            "{design}: link up after {up} cycles; a beat over an idle link takes {:.1} cycles, {worst} at most, 12 of them the lanes'",
            sum as f64 / 100.0
        ))?;
        // A flit may wait for a slot, is sent and received as a whole, and passes the stages on the way.
        let limit = 2 * u64::from(config.flit_words()) + 12 + 30;
        assert!(worst <= limit, "{worst} > {limit}");
        network.run(500)?;
        let counters = network.counters(0)?;
        report(&format!(
            "{design}: acknowledged after {:.1} cycles, {} at most",
            counters[14] as f64 / counters[13] as f64,
            counters[15]
        ))?;
        assert_eq!((counters[0], counters[13]), (100, 100));
    }
    Ok(())
}

#[test]
fn runs_repeat_to_the_cycle() -> Outcome {
    let run = || -> Result<(u64, [u64; 16]), Box<dyn Error>> {
        let mut network = pair("tiny", 140)?;
        network.cables[0].set_ber(1e-5);
        network.send(messages(0, 1), 1_000);
        network.drain(PATIENCE)?;
        Ok((network.cycle(), network.counters(0)?))
    };
    assert_eq!(run()?, run()?);
    Ok(())
}

#[test]
fn a_changed_lost_repeated_or_moved_flit_is_caught() -> Outcome {
    for fault in [DeliveryFault::Corrupt, DeliveryFault::Drop, DeliveryFault::Duplicate, DeliveryFault::Swap]
    {
        let mut network = pair("tiny", 150)?;
        network.send(messages(0, 1), 200);
        network.run(2_000)?;
        network.fault = Some(fault);
        network.send(messages(0, 1), 200);
        let found = network.drain(PATIENCE);
        assert!(said(&found).contains(" instead of beat "), "{fault:?}: {found:?}");
    }
    Ok(())
}

const MUTANTS: [Mutant; 4] = [
    // Every flit counts as intact.
    ("tiny", Mutation::new("mutant-crc", "~(|crc_crc)", |s| s.lit(1))),
    // A flit is accepted whatever its number.
    ("tiny", Mutation::new("mutant-order", "~(|gap)", |s| s.lit(1))),
    // Flits are sent without credit.
    ("tiny", Mutation::new("mutant-credit", "(|ahead) & ~ahead[7]", |s| s.lit(1))),
    // The place of an acknowledged flit is one too early free.
    ("tiny", Mutation::new("mutant-replay", "tail_q - acked_q", |s| s.old() - lit(1, 8))),
];

#[test]
fn errors_in_the_hardware_are_caught() -> Outcome {
    let config = link("tiny")?;
    let cases =
        [("mutant-crc", false), ("mutant-order", false), ("mutant-credit", true), ("mutant-replay", true)];
    for (design, on_the_lanes) in cases {
        let end = rtl::design(design, END, &MUTANTS)?;
        let mut network = Network::open([&end; 2], 2, &config, 160)?;
        bring_up(&mut network)?;
        network.cables[0].set_ber(2e-5);
        network.nodes[1].stalls[1] = 180;
        network.send(stream(0, 1), 20_000);
        network.send(stream(1, 0), 20_000);
        let found = network.drain(PATIENCE);
        let error = said(&found);
        let (protocol, delivery) = (error.contains(" sent "), error.contains(" instead of beat "));
        assert!(if on_the_lanes { protocol } else { protocol || delivery }, "{design}: {error}");
        println!("{design}: {error}");
    }
    Ok(())
}
