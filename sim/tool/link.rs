//! `ndp bench link`: payload rate and latency of a DIMM-link in RTL, by bit error rate and message size.
//!
//! Two Verilated ends on a cable with skewed lanes. Every beat is compared with the next beat of its flow, and every
//! flit is checked against the protocol. The rate counts only payload, from start to end of the run.

use crate::prelude::*;
use ndp_config::LinkConfig;
use ndp_files::Result;
use ndp_sim::link::flow::Flow;
use ndp_sim::link::network::Network;

/// Least delay of a lane, and the spread of delays over the lanes, in bits. The spread is the receiver's deskew
/// capacity less two words.
const LANE_DELAY: (u32, u32) = (12, (LinkConfig::DESKEW_WORDS - 2) * LinkConfig::LANE_BITS);
/// Highest bit error rate: seven of eight flits are wrong.
const MOST_ERRORS: f64 = 5e-4;
/// Cycles without a delivery after which a run fails.
const PATIENCE: u64 = 60_000;
/// Number of messages that measure the latency; each is sent on its own.
const ALONE: u64 = 16;
const BEAT_BYTES: u32 = 64;

/// Measure payload rate and latency of a DIMM-link in RTL over the bit error rate of its lanes
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
        ndp bench link --ber 0,1e-6,1e-5 --message 512 --bytes 262144\n  \
        ndp bench link --chart docs/link-rates.svg")]
pub struct Args {
    /// Configuration of the link: preset (hermes, tiny, ...) or path of a TOML file
    #[arg(long, default_value = "hermes")]
    config: String,
    /// Bit error rates of the lanes (0 to 5e-4)
    #[arg(long, value_delimiter = ',', default_values_t = [0.0, 1e-9, 1e-8, 1e-7, 1e-6, 3e-6, 1e-5, 3e-5, 1e-4])]
    ber: Vec<f64>,
    /// Sizes of the messages in bytes: multiples of 64 (64..=262144)
    #[arg(long, value_delimiter = ',', default_values_t = [64, 256, 4096], value_parser = clap::value_parser!(u32).range(64..=262_144))]
    message: Vec<u32>,
    /// Bytes to send in each direction for each error rate and message size (64..=2^32)
    #[arg(long, default_value_t = 2_097_152, value_parser = clap::value_parser!(u64).range(64..=1 << 32))]
    bytes: u64,
    /// Seed of the bit errors and of the skew of the lanes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write a chart of the rates, as SVG
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
}

/// # Errors
/// An unusable argument; an end that cannot be simulated.
pub fn run(args: &Shown<Args>) -> anyhow::Result<Report> {
    for ber in &args.ber {
        ensure!((0.0..=MOST_ERRORS).contains(ber), "--ber is {ber}, must be 0 to {MOST_ERRORS}");
    }
    for bytes in &args.message {
        ensure!(bytes.is_multiple_of(BEAT_BYTES), "--message is {bytes}, must be a multiple of {BEAT_BYTES}");
    }
    let files = FileSet::new().configuration("the configuration", &args.config);
    args.form.files(files).optional("--chart", args.chart.as_ref()).check()?;
    let config = DesignConfig::load(&args.config)?;
    let file = Asked::create(args.chart.as_ref())?;
    let ghz = config.core().clock_ghz();
    let progress = Progress::new((args.ber.len() * args.message.len()) as u64, "measurements");
    let mut points = Vec::new();
    for (&message, &ber) in iproduct!(&args.message, &args.ber) {
        let network = Network::pair(&config, args.seed)?;
        match measure(network, (ber, ghz), message, args.bytes) {
            Ok(point) => points.push(point),
            Err(error) => {
                let failure = format!("bit error rate {ber:e}, messages of {message} bytes: {error:#}");
                return Ok(Report::checked("bench link", false, failure));
            }
        }
        progress.add(1);
    }
    drop(progress);
    let lanes = f64::from(config.link().word_bits()) / 8.0;
    let points = Values::from(points);
    let best = points.numbers("gb_per_s").fold(0.0, f64::max);
    let lines = ChartKind::Lines {
        x: ("bit_error_rate", true),
        y: ("gb_per_s", 1.0),
        series: ("message_bytes", "messages of ", " bytes"),
        axes: ["bit error rate, as a power of ten", "GB/s per direction"],
        reference: Some(("all lanes", lanes * ghz)),
    };
    let caption =
        "Short messages leave most of a flit empty. A rate of 0 has no power of ten and is left out.";
    let chart = Chart::new("points", "Payload of a link over its bit error rate", caption, lines);
    let report = Report::checked(
        "bench link",
        true,
        format!("every beat and flit arrived as sent; a direction carries up to {best:.2} GB/s of payload"),
    )
    .reason(format!("the lanes carry {:.2} GB/s, frames, CRC and control included", lanes * ghz))
    .setting(format!(
        "link of {}, both directions at work, {} bytes each, seed {}",
        config.name(),
        grouped(args.bytes),
        args.seed
    ))
    .figures(figures! {
        "bytes" "bytes" {Count} Verbose: "bytes sent in each direction at each rate" = args.bytes;
        "seed" "seed" {Count} Verbose: "seed of errors and skew" = args.seed;
        "lane_bytes_per_cycle" "all lanes" {Real("B/cycle", 1)} Verbose: "bytes that all lanes carry in a cycle, frames and CRC included" = lanes;
    })
    .table("points", "Payload and latency", points)
    .data("config", "name of the configuration", &config.name())
    .data("tools", "versions of the tools", &Tools::new());
    file.write(|| Ok(report.drawn(&chart)?))?;
    Ok(report.chart(chart))
}

fn measure(mut network: Network, (ber, ghz): (f64, f64), message: u32, bytes: u64) -> Result<Values> {
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
    let bytes_per_cycle = beats as f64 * f64::from(BEAT_BYTES) / cycles as f64;
    Ok(figures! {
        "bit_error_rate" "bit error rate" {Real("", 0)} Screen: "errors of a lane for each bit" = ber;
        "message_bytes" "message" {Real("B", 0)} Screen: "bytes of a message" = message;
        "gb_per_s" "payload" {Real("GB/s", 3)} Screen: "payload of a direction while both are active, start and end of the run included"
            = bytes_per_cycle * ghz;
        "latency_cycles" "latency" {Real("cycles", 1)} Screen: "mean of single messages on the link, between the first beat in and the last beat out"
            = latency_cycles;
        "flits_sent_again" "flits sent again" {Count} Screen: "flits that one end sent again" = again;
        "wrong_bits" "wrong bits" {Count} Screen: "bits inverted in both directions"
            = network.cables[0].channels.iter().map(|channel| channel.flipped()).sum::<u64>();
        "crc_errors" "wrong CRC" {Count} Screen: "flits that one end found damaged" = wrong;
        "replays_asked" "replays" {Count} Screen: "replays that one end requested" = asked;
        "cycles" "cycles" {Cycles} Verbose: "core cycles of the run" = cycles;
        "bytes_per_cycle" "payload" {Real("B/cycle", 3)} Verbose: "payload of a direction in a cycle of the core" = bytes_per_cycle;
    })
}
