//! Which designs are built: the catalogue behind `Model::open`.
//!
//! The NDP core of each configuration in `NDP_DESIGNS` (a comma-separated list of presets and paths that end
//! in `.toml`, relative to the workspace; `tiny,hermes` if unset), small units with other parameters for the
//! testbenches, the unit blocks of the paper's configuration, links, blocks with planted errors, and the self-test blocks.
//! A design is known as `<configuration>/<block>`.
//!
//! The small blocks also get a variant whose signals can be dumped. For a core that takes longer to compile than
//! the unit itself, so only the configurations in `NDP_WAVES` (names, comma-separated; `tiny` if unset) get one. So it is with the
//! channel of `cosim pim` and its controller.
//! With `NDP_MODELS=programs` there is only what `cosim` needs but for `link` and `pim-trace`, with `NDP_MODELS=demo` only what
//! `make demo` does. Elaboration itself is `ndp_hdl`'s.

use super::selftest;
use ndp_config::{DesignConfig, HbmConfig};
use ndp_verilate::{Entry, Failure};
use std::path::Path;

/// Configurations whose core is built when `NDP_DESIGNS` is not set.
const DEFAULT_CONFIGS: &str = "tiny,hermes";
/// Configurations whose core also gets a variant with waves when `NDP_WAVES` is not set.
const DEFAULT_WAVES: &str = "tiny";
/// GEMV units that are also built alone: the small preset's, and some that differ from the presets in ranks, lanes, serial
/// steps and accumulator, so that these are shown to be parameters.
const GEMV_CONFIGS: [&str; 4] = [
    "tiny",
    "testbenches/configs/four-ranks.toml",
    "testbenches/configs/sixteen-lanes.toml",
    "testbenches/configs/short-steps.toml",
];
/// Blocks that are also built alone, always with the paper's configuration.
const UNIT_BLOCKS: [&str; 5] =
    ["multiplier_unit", "fp16_rounder", "activation_lane", "activation_sums", "rank_port"];
const UNIT_CONFIG: &str = "hermes";
/// Other ranks: one whose times are no multiples of a slot, and those of the standard's devices.
const RANK_CONFIGS: [&str; 3] = ["testbenches/configs/odd-timings.toml", "hermes-x8", "hermes-x16"];
/// A small core with four bank groups.
const GROUPS_CONFIG: &str = "testbenches/configs/tiny-x8.toml";

/// Rank ports with an error planted in their Verilog, as `<name>/rank_port`: what is replaced, wherever it occurs, and by what.
/// Each has to be caught by the device model.
const PLANTED: [(&str, &str, &str); 6] = [
    // Five activates within tFAW.
    ("planted-faw", "act_count_q[2]", "1'h0"),
    // Reads and writes right after the activate.
    ("planted-rcd", "~column_bar0_q[0]", "1'h1"),
    // Refresh without a wait for the precharge of all banks.
    ("planted-refresh", "closed_q & ~(|wait_q)", "closed_q"),
    // A read after a write in bank group 1 a slot too early.
    ("planted-turn", "{(&{column, entry0_i[31], entry0_i[0]}), (", "{1'h0, ("),
    // Banks are closed right after reset.
    ("planted-settle", "&{drain_q, settled_q, quiet_i}", "&{drain_q, quiet_i}"),
    // The uppermost bit of a row is not compared.
    ("planted-row", "state0_0_i[20:4] == entry0_i[26:10]", "state0_0_i[19:4] == entry0_i[25:10]"),
];

/// The same with four bank groups, of `hermes-x8`. The last one breaks no rule: its rate gives it away.
const PLANTED_GROUPS: [(&str, &str, &str); 3] = [
    // An activate in bank group 2 counts as one in group 0.
    ("planted-group-act", "act_bar2_q <= acts[2];", "act_bar2_q <= acts[0];"),
    // So does a read or write.
    ("planted-group-column", "(entry0_i[8] == 1'h1) & ~entry0_i[0]", "(entry0_i[8] == 1'h0) & ~entry0_i[0]"),
    // Bank groups 0 and 2 count as one for reads and writes: only bit 0 of their number is looked at.
    ("planted-group-bit", "(entry0_i[8] == 1'h1) & ~entry0_i[0]", "~entry0_i[0]"),
];

/// Configurations whose link is also built alone: one end, and a bridge.
const LINK_CONFIGS: [&str; 2] = ["hermes", "tiny"];
const LINK_BLOCKS: [&str; 2] = ["link_controller", "link_bridge"];
/// With these two, every number of lanes with every number of beats in a flit: one end only.
const LINK_FORMATS: [&str; 4] = [
    "testbenches/configs/link-8x2.toml",
    "testbenches/configs/link-8x4.toml",
    "testbenches/configs/link-4x4.toml",
    "testbenches/configs/link-4x8.toml",
];
/// The first of these with a planted error, in the form of [`PLANTED`]: each has to be caught by the same testbench.
const PLANTED_FORMATS: [(&str, &str, &str); 2] = [
    // An acknowledgement is that of the header that came last, intact or not.
    ("planted-unchecked", "assign peer_ack_o = said_q[7:0];", "assign peer_ack_o = header_q[27:20];"),
    // Flits are repeated whenever the time has passed.
    ("planted-repeat", "repeated_q <= expires | (repeated_q & ~clear);", "repeated_q <= 1'h0;"),
];
/// Links of the bridges between several cores in `cosim`: for up to four of them, and for more.
const HOSTED_BRIDGES: [u32; 2] = [4, 8];
/// What is built, by the value of `NDP_MODELS`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Extent {
    /// What `make demo` simulates.
    Demo,
    /// All of what `cosim` can simulate, but for `link` and `pim-trace`.
    Programs,
    /// What testbenches simulate, too.
    All,
}
const EXTENTS: [(&str, Extent); 3] =
    [("demo", Extent::Demo), ("programs", Extent::Programs), ("all", Extent::All)];

impl Extent {
    fn from_environment() -> Result<Self, Failure> {
        let name = std::env::var("NDP_MODELS").unwrap_or_default();
        if name.is_empty() {
            return Ok(Self::All);
        }
        let found = EXTENTS.iter().find(|(known, _)| *known == name);
        found
            .map(|(_, extent)| *extent)
            .ok_or_else(|| vec![format!("NDP_MODELS={name}: expected demo, programs or all")])
    }
}
/// Link controllers of the small preset with a planted error, in the same form. Each has to be caught by the checkers of the
/// link's harness.
const PLANTED_LINKS: [(&str, &str, &str); 4] = [
    // Every flit counts as intact.
    ("planted-crc", "assign zero = ~(|crc_crc);", "assign zero = 1'h1;"),
    // A flit is accepted whatever its number.
    ("planted-order", "in_turn_q <= ~(|gap);", "in_turn_q <= 1'h1;"),
    // Flits are sent without credit.
    ("planted-credit", "(|ahead) & ~ahead[7];", "1'h1;"),
    // The place of an acknowledged flit is one too early free.
    ("planted-replay", "assign held = tail_q - acked_q;", "assign held = tail_q - acked_q - 8'h1;"),
];

/// Memories that compute, whose channel is built: the small preset, which is also traced, a small one without slicing, and the paper's.
const HBM_CONFIGS: [&str; 3] = ["librapim-tiny", "testbenches/configs/aim-tiny.toml", "librapim"];
const HBM_BLOCK: &str = "pim_channel";
/// The memory of `cosim pim`, whose channel and controller are built with banks that can be cut and with others that cannot.
const HBM_HOSTED: &str = "librapim-small";
/// Memories whose controller is built.
const HBM_CONTROLLERS: [&str; 4] =
    ["librapim-tiny", "testbenches/configs/aim-tiny.toml", "librapim", "newton-aim"];
const HBM_CONTROLLER: &str = "pim_controller";
/// Controllers of the small memory with a planted error, in the same form. Each has to be caught by the device model.
const PLANTED_CONTROLLERS: [(&str, &str, &str); 6] = [
    // MACs do not wait for what is loaded into the buffer.
    ("planted-load", "~(|slot_left_q)", "1'h1"),
    // Accesses of the first two banks do not wait for their rows.
    ("planted-record", "~(((|bank0_column_flags)", "~(1'h0 & ((|bank0_column_flags)"),
    // Data to write come a clock late.
    ("planted-late", "assign driving = line_q[3] | line_q[4];", "assign driving = line_q[4];"),
    // Any row will do.
    ("planted-row-hit", "right0_0 = (", "right0_0 = 1'h1 | ("),
    // A slot is filled anew before it was taken.
    ("planted-promise", "assign free = ~early | soon_i;", "assign free = 1'h1 | (early & soon_i);"),
    // MACs do not wait for what is read for them.
    ("planted-there", "assign filled = ~current_q[19] |", "assign filled = 1'h1 |"),
];

/// Channels of the small memory with a planted error, in the same form. Each has to be caught by the device model.
const PLANTED_CHANNELS: [(&str, &str, &str); 10] = [
    // Any number of rows in a window.
    ("planted-window", "act_i & (|window3_q)", "act_i & 1'h0"),
    // A precharge right after the activation, of partition 1.
    ("planted-ras", "(|ras1_q) & touches1", "1'h0"),
    // The first row of partition 1 counts as the last one of partition 0.
    ("planted-boundary", "row_i[5:3] < boundary_q", "row_i[5:3] <= boundary_q"),
    // The multipliers take a row that was opened for the host.
    ("planted-owner", "{mac_i, open1_next, ~pim1_next}", "{mac_i, open1_next, 1'h0}"),
    // A refused row command is carried out all the same.
    ("planted-trace", "assign row_go = any_row & ~(|row_status);", "assign row_go = any_row;"),
    // A write right after a read.
    ("planted-turn-around", "ins & (|rtw_q)", "ins & 1'h0"),
    // The precharge of RDA begins at tRTP although tRAS is not over.
    ("planted-auto", "(bound < own_bound ? own_bound : bound)", "own_bound"),
    // Near sums lose their sign on the way into the accumulator.
    ("planted-sign", "{{48{near_total0_q[55]}}, near_total0_q}", "{48'h0, near_total0_q}"),
    // Infinity times zero is no NaN.
    ("planted-nan", "special_q & ~nonzero}", "1'h0}"),
    // The second half of a column is lost on its way into the buffer.
    ("planted-half", "{passes & last_half0_q,", "{1'h0,"),
];

/// The host's port of the small preset with arbiters that forget turns.
const PLANTED_PORTS: [(&str, &str, &str); 2] = [
    ("planted-turn-order", "turn_older0_1_q | turn1", "turn_older0_1_q | 1'h0"),
    ("planted-answer-order", "answer_older0_1_q | answer1", "answer_older0_1_q | 1'h0"),
];

/// Cores of the small preset with an error planted in their transfers. Each has to be caught by the harness of migrations.
const PLANTED_CORES: [(&str, &str, &str); 3] = [
    // The halves of what one rank sends change places.
    (
        "planted-swap",
        ".beat0_data_i(rsp0_data_i)",
        ".beat0_data_i({rsp0_data_i[255:0], rsp0_data_i[511:256]})",
    ),
    // The uppermost bit of a slot is not compared.
    ("planted-slot", "rx_label_i[16:1] == slot_q", "rx_label_i[15:1] == slot_q[14:0]"),
    // What a message has beyond the range that was made for it is written too.
    ("planted-room", "assign room = (|left_q);", "assign room = 1'h1;"),
];

/// That of link ends that are built for their format.
const FORMAT_OPT_LEVEL: u32 = 1;
/// Optimisation of designs with a planted error, which run until it is found.
const PLANTED_OPT_LEVEL: u32 = 0;

/// Elaborates the catalogue, or the part of it that `NDP_MODELS` names; without `waves` no design gets a variant whose signals
/// can be dumped.
pub fn designs(root: &Path, waves: bool) -> Result<Vec<Entry>, Failure> {
    let extent = Extent::from_environment()?;
    let mut entries = programs(root, waves, extent)?;
    if extent == Extent::All {
        entries.extend(testbenches(root, waves)?);
    }
    Ok(entries)
}

/// What `cosim` simulates: cores and bridges, and channels and controllers of its memory that computes. The demo has four
/// cores, and leaves the commands of that memory to the model of its controller.
fn programs(root: &Path, waves: bool, extent: Extent) -> Result<Vec<Entry>, Failure> {
    let mut entries: Vec<Entry> = Vec::new();
    let list = std::env::var("NDP_DESIGNS").unwrap_or_else(|_| DEFAULT_CONFIGS.to_owned());
    let traced = std::env::var("NDP_WAVES").unwrap_or_else(|_| DEFAULT_WAVES.to_owned());
    for item in items(&list) {
        let config = load(root, item)?;
        if entries.iter().any(|e| e.config == config.name()) {
            return Err(vec![format!("NDP_DESIGNS={list}: the name `{}` occurs twice", config.name())]);
        }
        let waves = waves && items(&traced).any(|name| name == config.name());
        entries.push(Entry::elaborate(&config, "ndp_core", waves)?);
        let bridges = if extent == Extent::Demo { &HOSTED_BRIDGES[..1] } else { &HOSTED_BRIDGES[..] };
        for &ports in bridges.iter().filter(|_| config.core().link()) {
            let bridge = config.with_bridge(ports).map_err(|e| vec![format!("{}: {e}", config.name())])?;
            entries.push(Entry::elaborate(&bridge, "link_bridge", false)?);
        }
    }
    let hosted = load_hbm(root, HBM_HOSTED)?;
    for config in [hosted.clone(), hosted.unsliced()] {
        let waves = waves && items(&traced).any(|name| name == config.name());
        entries.push(Entry::elaborate_hbm(&config, HBM_BLOCK, waves)?);
        if extent > Extent::Demo {
            entries.push(Entry::elaborate_hbm(&config, HBM_CONTROLLER, waves)?);
        }
    }
    // A misspelt name would otherwise only be noticed when the waves are wanted.
    let unknown = items(&traced).find(|name| entries.iter().all(|entry| entry.config != *name));
    if let (Some(name), Ok(_)) = (unknown, std::env::var("NDP_WAVES")) {
        return Err(vec![format!(
            "NDP_WAVES={traced}: `{name}` is not among NDP_DESIGNS={list} or {HBM_HOSTED}"
        )]);
    }
    Ok(entries)
}

/// What only testbenches simulate: blocks by themselves, small units, planted errors.
fn testbenches(root: &Path, waves: bool) -> Result<Vec<Entry>, Failure> {
    let mut entries = Vec::new();
    for block in selftest::BLOCKS {
        let design =
            selftest::build(block).map_err(|e| vec![format!("{}/{block}: {e}", selftest::CONFIG)])?;
        entries.push(Entry::new(selftest::CONFIG, block, String::new(), &design, waves));
    }
    for item in GEMV_CONFIGS {
        let config = load(root, item)?;
        entries.push(Entry::elaborate(&config, "gemv_unit", false)?);
    }
    let config = load(root, UNIT_CONFIG)?;
    for block in UNIT_BLOCKS {
        entries.push(Entry::elaborate(&config, block, waves)?);
    }
    for item in RANK_CONFIGS {
        entries.push(Entry::elaborate(&load(root, item)?, "rank_port", false)?);
    }
    entries.push(Entry::elaborate(&load(root, GROUPS_CONFIG)?, "ndp_core", false)?);
    let tiny = load(root, LINK_CONFIGS[1])?;
    entries.push(Entry::elaborate(&tiny, "host_port", false)?);
    for item in LINK_CONFIGS {
        let config = load(root, item)?;
        for block in LINK_BLOCKS {
            entries.push(Entry::elaborate(&config, block, false)?);
        }
    }
    for item in LINK_FORMATS {
        let mut entry = Entry::elaborate(&load(root, item)?, LINK_BLOCKS[0], false)?;
        entry.opt_level = FORMAT_OPT_LEVEL;
        entries.push(entry);
    }
    for (item, waves) in HBM_CONFIGS.into_iter().zip([waves, false, false]) {
        entries.push(Entry::elaborate_hbm(&load_hbm(root, item)?, HBM_BLOCK, waves)?);
    }
    for item in HBM_CONTROLLERS {
        entries.push(Entry::elaborate_hbm(&load_hbm(root, item)?, HBM_CONTROLLER, false)?);
    }
    let ranks = PLANTED.map(|planted| (&config, "rank_port", planted));
    let four_groups = load(root, RANK_CONFIGS[1])?;
    let groups = PLANTED_GROUPS.map(|planted| (&four_groups, "rank_port", planted));
    let links = PLANTED_LINKS.map(|planted| (&tiny, "link_controller", planted));
    let ports = PLANTED_PORTS.map(|planted| (&tiny, "host_port", planted));
    let short = load(root, LINK_FORMATS[0])?;
    let formats = PLANTED_FORMATS.map(|planted| (&short, LINK_BLOCKS[0], planted));
    let cores = PLANTED_CORES.map(|planted| (&tiny, "ndp_core", planted));
    let blocks = ranks.into_iter().chain(groups).chain(links).chain(formats).chain(ports).chain(cores);
    let blocks = blocks
        .map(|(config, block, planted)| Entry::elaborate(config, block, false).map(|entry| (entry, planted)));
    let memory = load_hbm(root, HBM_CONFIGS[0])?;
    let channels = PLANTED_CHANNELS
        .map(|planted| Entry::elaborate_hbm(&memory, HBM_BLOCK, false).map(|entry| (entry, planted)));
    let controllers = PLANTED_CONTROLLERS
        .map(|planted| Entry::elaborate_hbm(&memory, HBM_CONTROLLER, false).map(|entry| (entry, planted)));
    for planted in blocks.chain(channels).chain(controllers) {
        let (entry, mutation) = planted?;
        let mut entry = entry.mutated(mutation)?;
        entry.opt_level = PLANTED_OPT_LEVEL;
        entries.push(entry);
    }
    Ok(entries)
}

/// The items of a comma-separated list.
fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn load(root: &Path, preset_or_path: &str) -> Result<DesignConfig, Failure> {
    DesignConfig::load(&argument(root, preset_or_path))
        .map_err(|e| vec![format!("NDP_DESIGNS: {preset_or_path}: {e}")])
}

fn load_hbm(root: &Path, preset_or_path: &str) -> Result<HbmConfig, Failure> {
    HbmConfig::load(&argument(root, preset_or_path)).map_err(|e| vec![format!("{preset_or_path}: {e}")])
}

/// The name of a preset, or the path of a file from the root.
fn argument(root: &Path, preset_or_path: &str) -> String {
    if !preset_or_path.ends_with(".toml") {
        return preset_or_path.to_owned();
    }
    let path = root.join(preset_or_path);
    println!("cargo::rerun-if-changed={}", path.display());
    path.display().to_string()
}
