//! `ndp link`: payload rate and latency of a DIMM-link in RTL over the bit error rate of its lanes, for several sizes of messages.
//!
//! Two Verilated ends on a cable with skewed lanes. Every beat that arrives is compared with the one that is next in its flow and every flit on
//! the lanes with the protocol; the rate counts payload alone, start and end of the run included.

use crate::tools::{Tools, grouped};
use crate::verdict::Verdict;
use ndp_config::{CoreConfig, DesignConfig, LinkConfig};
use ndp_files::{FileSet, OutputFile, Progress};
use ndp_report::{LineChart, Series};
use ndp_sim::link::flow::Flow;
use ndp_sim::link::network::{Network, NetworkError};
use serde::Serialize;
use std::path::PathBuf;

/// Least delay of a lane, and the spread over the lanes, in bits; the spread is what the receiver holds, less two words.
const LANE_DELAY: (u32, u32) = (12, (LinkConfig::DESKEW_WORDS - 2) * LinkConfig::LANE_BITS);
/// Highest error rate: seven of eight flits are wrong then.
const MOST_ERRORS: f64 = 5e-4;
/// Cycles without a delivery after which a run is given up.
const PATIENCE: u64 = 60_000;
/// Messages whose latency is measured, each alone.
const ALONE: u64 = 16;
/// Bytes of a beat.
const BEAT_BYTES: u32 = 64;

/// Measure payload rate and latency of a link in RTL over the bit error rate of its lanes
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
        ndp link --ber 0,1e-6,1e-5 --message 512 --bytes 262144\n  \
        ndp link --chart docs/link-rates.svg")]
pub struct Args {
    /// Link of this configuration: preset (hermes, tiny, ...) or path of a TOML file
    #[arg(long, default_value = "hermes")]
    config: String,
    /// Bit error rates of the lanes, 0 to 5e-4
    #[arg(long, value_delimiter = ',', default_values_t = [0.0, 1e-9, 1e-8, 1e-7, 1e-6, 3e-6, 1e-5, 3e-5, 1e-4])]
    ber: Vec<f64>,
    /// Bytes of a message, multiples of 64
    #[arg(long, value_delimiter = ',', default_values_t = [64, 256, 4096], value_parser = clap::value_parser!(u32).range(64..=262_144))]
    message: Vec<u32>,
    /// Bytes to send in each direction at each rate
    #[arg(long, default_value_t = 2_097_152, value_parser = clap::value_parser!(u64).range(64..=1 << 32))]
    bytes: u64,
    /// Seed of errors and skew
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write a chart of the rates (SVG)
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// One rate and size.
#[derive(Debug, Serialize)]
struct Point {
    bit_error_rate: f64,
    message_bytes: u32,
    /// Payload of a direction in a cycle of the core.
    bytes_per_cycle: f64,
    /// Of a message that is alone on the link: from its first beat on the way in to its last one out, on average.
    latency_cycles: f64,
    cycles: u64,
    /// Of both directions.
    wrong_bits: u64,
    /// Of one end.
    flits_sent_again: u64,
    crc_errors: u64,
    replays_asked: u64,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    command: &'static str,
    config: &'a str,
    bytes: u64,
    seed: u64,
    lane_bytes_per_cycle: f64,
    points: &'a [Point],
    tools: Tools,
}

/// Runs the job.
pub fn run(args: &Args) -> anyhow::Result<Verdict> {
    for ber in &args.ber {
        ensure!((0.0..=MOST_ERRORS).contains(ber), "--ber is {ber}, must be 0 to {MOST_ERRORS}");
    }
    for bytes in &args.message {
        ensure!(bytes.is_multiple_of(BEAT_BYTES), "--message is {bytes}, must be a multiple of {BEAT_BYTES}");
    }
    let files = FileSet::new().configuration("the configuration", &args.config);
    files.optional("--chart", args.chart.as_ref()).check()?;
    let config = DesignConfig::load(&args.config)?;
    let chart = args.chart.as_deref().map(OutputFile::create).transpose()?;
    let progress = Progress::new((args.ber.len() * args.message.len()) as u64, "measurements");
    let mut points = Vec::new();
    for &message in &args.message {
        for &ber in &args.ber {
            let network = Network::pair(&config, args.seed)?;
            match measure(network, ber, message, args.bytes) {
                Ok(point) => points.push(point),
                Err(error) => {
                    drop(progress);
                    note!("error: bit error rate {ber:e}, messages of {message} bytes: {error}");
                    return Ok(Verdict::Differed);
                }
            }
            progress.add(1);
        }
    }
    drop(progress);
    let lanes = f64::from(config.link().word_bits()) / 8.0;
    if let Some(file) = chart {
        let picture = draw(&points, &args.message, lanes, config.core().clock_ghz())?;
        file.finish(|out| out.write_all(picture.as_bytes()))?;
    }
    if args.json {
        let report = Report {
            command: "link",
            config: config.name(),
            bytes: args.bytes,
            seed: args.seed,
            lane_bytes_per_cycle: lanes,
            points: &points,
            tools: Tools::new(),
        };
        say!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(&points, config.core());
    }
    Ok(Verdict::Agreed)
}

fn measure(mut network: Network, ber: f64, message: u32, bytes: u64) -> Result<Point, NetworkError> {
    for channel in &mut network.cables[0].channels {
        channel.skew(LANE_DELAY.0, LANE_DELAY.1);
    }
    network.run_until(20_000, |n| n.nodes.iter().all(|node| node.status().up))?;
    let message_beats = message / BEAT_BYTES;
    let flow = |source, dest| Flow { source, dest, epoch: 0, message_beats, marked_lanes: 0 };
    network.cables[0].set_ber(ber);
    let start = network.cycle();
    for _ in 0..ALONE {
        network.send(flow(0, 1), message_beats.into());
        network.drain(PATIENCE)?;
    }
    let latency_cycles = (network.cycle() - start) as f64 / ALONE as f64;
    let beats = bytes.div_ceil(message.into()) * u64::from(message_beats);
    let start = network.cycle();
    network.send(flow(0, 1), beats);
    network.send(flow(1, 0), beats);
    network.drain(PATIENCE)?;
    let cycles = network.cycle() - start;
    let [_, again, _, wrong, _, asked, ..] = network.counters(0)?;
    Ok(Point {
        bit_error_rate: ber,
        message_bytes: message,
        bytes_per_cycle: beats as f64 * f64::from(BEAT_BYTES) / cycles as f64,
        latency_cycles,
        cycles,
        wrong_bits: network.cables[0].channels.iter().map(|channel| channel.flipped()).sum(),
        flits_sent_again: again,
        crc_errors: wrong,
        replays_asked: asked,
    })
}

/// Rates over the exponent of the error rate; a rate of 0 has none and is left out.
fn draw(points: &[Point], messages: &[u32], lanes: f64, ghz: f64) -> anyhow::Result<String> {
    let chart = LineChart::new(
        "Payload of a link over its bit error rate",
        "bit error rate, as a power of ten",
        "GB/s per direction",
    );
    let chart = messages.iter().fold(chart.from_zero(), |chart, &message| {
        let of = points.iter().filter(|p| p.message_bytes == message && p.bit_error_rate > 0.0);
        let places = of.map(|p| (p.bit_error_rate.log10(), p.bytes_per_cycle * ghz)).collect();
        chart.series(Series { name: format!("messages of {message} bytes"), points: places })
    });
    Ok(chart.reference("all lanes", lanes * ghz).draw()?)
}

fn print(points: &[Point], core: &CoreConfig) {
    say!(
        "{:>8} {:>9} {:>8} {:>9} {:>11} {:>11} {:>10} {:>10} {:>8}",
        "ber",
        "message",
        "GB/s",
        "latency",
        "cycles",
        "wrong bits",
        "sent again",
        "wrong CRC",
        "replays"
    );
    for p in points {
        say!(
            "{:>8.0e} {:>9} {:>8.3} {:>9.1} {:>11} {:>11} {:>10} {:>10} {:>8}",
            p.bit_error_rate,
            grouped(p.message_bytes.into()),
            p.bytes_per_cycle * core.clock_ghz(),
            p.latency_cycles,
            grouped(p.cycles),
            grouped(p.wrong_bits),
            grouped(p.flits_sent_again),
            grouped(p.crc_errors),
            grouped(p.replays_asked)
        );
    }
    say!("");
    say!(
        "Bytes and cycles of one direction, both at work; latency of messages alone; cycles of {} ns. Every beat and flit was checked.",
        core.clock_ps() as f64 / 1e3
    );
}
