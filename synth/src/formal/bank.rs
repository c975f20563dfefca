//! A sliced bank under the rules of its channel: whatever commands come, its two paths share no resource.
//!
//! The channel may also leave a legal command out. There are no cells: a path reads any value.

use super::configured;
use ndp_config::HbmConfig;
use ndp_hdl::blocks::pim::pim_bank::pim_bank;
use ndp_hdl::blocks::pim::pim_bank_state::View;
use ndp_hdl::blocks::pim::pim_channel_timing::pim_channel_timing;
use ndp_hdl::blocks::pim::pim_decoder::pim_decoder;
use ndp_hdl::blocks::pim::pim_io::pim_io;
use ndp_hdl_language::{Bits, Direction, HdlError, Module, ModuleBuilder, Wire, any_of, cat};
use std::collections::BTreeMap;
use std::rc::Rc;

/// One bank of four subarrays of a row, with the shortest times that a channel can have.
const MEMORY: &str = "name = \"bank\"
[device]
channels = 1
bank_groups = 1
banks_per_group = 1
row_bits = 2
subarray_rows = 1
weight_subarrays = 2
all_bank_activate = true
buffer_slots = 1
acc_bits = 97
[timing]
t_cl = 7
t_cwl = 2
t_rcd = 2
t_rp = 2
t_ras = 4
t_rc = 6
t_ccd_s = 2
t_ccd_l = 2
t_rrd_s = 2
t_rrd_l = 2
t_faw = 4
t_wr = 1
t_wtr_s = 1
t_wtr_l = 1
t_rtp = 2
t_rfc = 16
t_refi = 128
t_slice = 2
t_mac = 6
";

/// A sliced bank with decoder, rules and data bus of its channel.
pub(super) fn paths() -> Result<Rc<Module>, HdlError> {
    let config = configured(HbmConfig::from_toml(MEMORY))?;
    let m = ModuleBuilder::new("pim_bank_paths", "A sliced bank, whose paths are watched.");
    let decoder_module = pim_decoder(&config)?;
    let decoder = m
        .instance("decoder", &decoder_module)
        .input("row_i", m.input("row_i", 32, "row command bus"))
        .input("column_i", m.input("column_i", 32, "column command bus"));
    let mut decoded: BTreeMap<&str, Bits> = BTreeMap::new();
    for port in decoder_module.ports().iter().filter(|port| port.direction == Direction::Output) {
        let name = port.name.trim_end_matches("_o");
        decoded.insert(name, m.output(&port.name, decoder.output(&port.name), &port.doc));
    }
    let [row_go, column_go] = ["row_go", "column_go"].map(|name| m.forward(name, 1));
    decoded.extend([("row_go", row_go.q()), ("column_go", column_go.q())]);
    let decoded = decoded;
    let done = |name: &str| decoded[name] & column_go.q();
    let read = any_of([done("rd"), done("rdg"), done("res"), done("sum")]);

    // A bank also takes commands for all banks or for its group; there is one bank.
    let io = pim_io(&config)?;
    let mut of_bank = decoded.clone();
    of_bank.insert("pact", decoded["pact"] | decoded["pacta"]);
    of_bank.insert("rd", decoded["rd"] | decoded["rdg"]);
    of_bank.insert("auto", any_of([decoded["rd"], decoded["wr"]]) & decoded["flag"]);
    let mut of_io = decoded.clone();
    of_io.extend([("read", read), ("rdg", done("rdg")), ("res", done("res")), ("gbw", done("gbw"))]);
    of_io.extend([("write", done("wr") | done("gbw")), ("bank", decoded["column_bank"])]);
    let writes: Vec<Wire> = [("write", 2), ("write_path", 1), ("write_column", 5)]
        .map(|(name, width)| m.forward(name, width))
        .into();
    for (name, wire) in ["write", "write_path", "write_column"].into_iter().zip(&writes) {
        of_bank.insert(name, wire.q());
    }
    // Unnamed signals take any value: operands, cells, data.
    let connected = |name: &str, module: &Rc<Module>, signals: &BTreeMap<&str, Bits>| {
        let mut instance = m.instance(name, module);
        for port in module.ports() {
            let input = port.direction == Direction::Input && !module.is_clock_or_reset(&port.name);
            if input {
                let value = match signals.get(port.name.trim_end_matches("_i")) {
                    Some(value) => *value,
                    None => m.input(format!("{name}_{}", port.name), port.width, &port.doc),
                };
                instance = instance.input(&port.name, value);
            }
        }
        instance
    };
    let rules = connected("timing", &pim_channel_timing(&config, View::Channel)?, &decoded);
    let bank = connected("bank", &pim_bank(&config)?, &of_bank);
    let path = bank.output("path_o");
    of_io.insert("path", path);
    let io = connected("io", &io, &of_io);
    for (name, wire) in ["write_o", "write_path_o", "write_column_o"].into_iter().zip(&writes) {
        wire.drive(io.output(name));
    }
    for port in
        ["data_o", "data_valid_o", "missing_o", "unexpected_o", "fill_o", "fill_slot_o", "fill_data_o"]
    {
        m.unused(io.output(port), "for others of the channel");
    }
    for port in ["data_o", "result_o", "sum_o", "select0_o", "select1_o", "we0_o", "we1_o"] {
        m.unused(bank.output(port), "for others of the channel");
    }

    // No flag objects.
    let nobody = |flags: &str, undefined: &str| {
        let objects = [bank.output(flags).any(), rules.output(flags).any(), decoded[undefined]];
        !any_of(objects)
    };
    let [row_may, column_may] =
        ["row_may_i", "column_may_i"].map(|name| m.input(name, 1, "the channel has no objection of its own"));
    let outside = decoded["slice"] & decoded["outside"];
    row_go.drive(cat([row_may, nobody("row_flags_o", "row_undefined"), !outside]).all());
    column_go.drive(cat([column_may, nobody("column_flags_o", "column_undefined")]).all());

    // A row being written stays until the data have arrived: tCWL and two clocks.
    for p in 0..2 {
        let here = if p == 0 { !&path } else { path };
        let pending = m.ghost(format!("pending{p}_q"), config.t_cwl() + 2).reset(0);
        pending.next(cat([pending.q().low(config.t_cwl() + 1), done("wr") & here]));
        let row = m.output(format!("row{p}_o"), bank.output(&format!("row{p}_o")), "row of a path");
        let before = m.ghost(format!("row_before{p}_q"), row.width());
        before.next(row);
        let old = pending.q().high(config.t_cwl() + 1).any();
        m.assert(format!("written_row{p}"), !old | row.eq(before.q()), "a row stays until it is written");
    }
    m.finish()
}
