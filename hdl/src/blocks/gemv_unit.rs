//! The GEMV unit (Hermes, section IV-A2): rank groups, activation loader, combiner, and the commands that start them.
//!
//! `y[b][r] = sum_k w[r, k] * x[b][k]`, exact and rounded once. Every stream has valid/ready, every ready and valid
//! comes from registers. Commands are not queued beyond one: the next DOT is taken while the one before is still running,
//! as soon as every part has a free slot. Keeping a LOAD away from words that a running DOT still reads is the
//! host's business.

use super::activation_loader::activation_loader;
use super::combiner::combiner;
use super::command_decoder::{Layout, command_decoder, rank_bits};
use super::rank_group::rank_group;
use crate::layer::{Bits, HdlError, Module, ModuleBuilder, any_of, cat, lit};
use ndp_config::{BEAT_BITS, GemvConfig};
use std::rc::Rc;

/// A one-entry slot between a command and the part that executes it.
struct Slot {
    full: Bits,
    start: Bits,
}

fn slot(m: &ModuleBuilder, name: &str, fill: &Bits, idle: &Bits) -> Slot {
    let full = m.reg(format!("{name}_slot_q"), 1).reset(0);
    let start = m.wire(format!("{name}_start"), full.q() & idle);
    full.next(any_of(&[fill.clone(), full.q() & !&start]));
    Slot { full: full.q(), start }
}

/// The unit of `config`.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the layer.
pub fn gemv_unit(config: &GemvConfig) -> Result<Rc<Module>, HdlError> {
    let ranks = config.ranks();
    let (row_bits, col_bits, batch_bits) = (config.row_bits(), config.col_bits(), config.batch_bits());
    let addr_bits = config.slice_addr_bits();
    let m = ModuleBuilder::new(
        format!(
            "gemv_unit_n{}_l{}_s{}_w{}",
            config.multipliers(),
            config.lanes(),
            config.serial_steps(),
            config.acc_bits()
        ),
        "Exact FP16 matrix-vector products, weights from the ranks, activations from the buffer.",
    );
    let load_valid = m.input("load_valid_i", 1, "LOAD: activation vectors follow on the x stream");
    let load_cols = m.input("load_cols_i", col_bits, "LOAD: elements of a vector");
    let load_batch = m.input("load_batch_i", batch_bits, "LOAD: vectors");
    let load_base = m.input("load_base_i", addr_bits, "LOAD: first word of the slices to write");
    let x_valid = m.input("x_valid_i", 1, "x: a beat is offered");
    let x_data = m.input("x_data_i", BEAT_BITS, "x: 32 FP16 values; each vector begins with a new beat");
    let dot_valid = m.input("dot_valid_i", 1, "DOT: a product is asked for");
    let dot_rows = m.input("dot_rows_i", row_bits, "DOT: rows of the matrix");
    let dot_cols = m.input("dot_cols_i", col_bits, "DOT: elements of a row");
    let dot_batch = m.input("dot_batch_i", batch_bits, "DOT: vectors");
    let dot_base = m.input("dot_base_i", addr_bits, "DOT: first word of the activations in the slices");
    let weights: Vec<(Bits, Bits)> = (0..ranks)
        .map(|g| {
            let valid =
                m.input(format!("w{g}_valid_i"), 1, format!("weights of rank {g}: a beat is offered"));
            (
                valid,
                m.input(
                    format!("w{g}_data_i"),
                    BEAT_BITS,
                    format!("weights of rank {g}: 32 FP16 values, in the order of the stripes"),
                ),
            )
        })
        .collect();
    let result_ready = m.input("result_ready_i", 1, "result: taken");

    // LOAD: accepted into a register, then decoded and started.
    let capture = |name: &str, value: &Bits, enable: &Bits| {
        let reg = m.reg(name, value.width()).enable(enable);
        reg.next(value);
        reg.q()
    };
    let decoder = command_decoder(config)?;
    let load_pending = m.reg("load_pending_q", 1).reset(0);
    let loader_free = m.forward("loader_free", 1);
    let load_ready = m.wire("load_ready", !load_pending.q() & loader_free.q());
    let load_taken = m.wire("load_taken", &load_valid & &load_ready);
    load_pending.next(&load_taken);
    let load_cols = capture("load_cols_q", &load_cols, &load_taken);
    let load_batch = capture("load_batch_q", &load_batch, &load_taken);
    let load_base = capture("load_base_q", &load_base, &load_taken);
    let load_decoder =
        m.instance("load_decoder", &decoder).input("cols_i", &load_cols).input("batch_i", &load_batch);
    let load_legal = load_decoder.output("legal_o");
    let loader = m
        .instance("loader", &activation_loader(config)?)
        .input("start_i", load_pending.q() & &load_legal)
        .input("batch_i", &load_batch)
        .input("base_i", &load_base)
        .input("x_valid_i", &x_valid)
        .input("x_data_i", &x_data);
    let loader = Layout::of_decoder(&load_decoder, config).connect(loader);
    loader_free.drive(loader.output("idle_o"));
    let write_ranks = loader.output("write_o");
    let (write_position, write_rest) = (loader.output("write_position_o"), loader.output("write_rest_o"));
    let (write_addr, write_data) = (loader.output("write_addr_o"), loader.output("write_data_o"));

    // DOT: accepted when every slot is free and no LOAD is on its way, decoded, then put into all slots at once.
    let dot_pending = m.reg("dot_pending_q", 1).reset(0);
    let slots_full = m.forward("slots_full", 1);
    let dot_ready = m.wire("dot_ready", cat([load_ready.clone(), !dot_pending.q(), !slots_full.q()]).all());
    let dot_taken = m.wire("dot_taken", &dot_valid & &dot_ready);
    dot_pending.next(&dot_taken);
    let dot_rows = capture("dot_rows_q", &dot_rows, &dot_taken);
    let dot_cols = capture("dot_cols_q", &dot_cols, &dot_taken);
    let dot_batch = capture("dot_batch_q", &dot_batch, &dot_taken);
    let dot_base = capture("dot_base_q", &dot_base, &dot_taken);
    let dot_decoder =
        m.instance("dot_decoder", &decoder).input("cols_i", &dot_cols).input("batch_i", &dot_batch);
    let dot_legal = m.wire("dot_legal", dot_decoder.output("legal_o") & dot_rows.any());
    let issue = m.wire("issue", dot_pending.q() & &dot_legal);
    let decoded = Layout::of_decoder(&dot_decoder, config);
    let layout = decoded.registered(&m, &issue);

    let group = rank_group(config)?;
    let mut slots = Vec::new();
    let mut combine = m.instance("combiner", &combiner(config)?);
    for (g, (valid, data)) in (0..ranks).zip(&weights) {
        let idle = m.forward(format!("group{g}_free"), 1);
        let slot = slot(&m, &format!("group{g}"), &issue, &idle);
        let instance = m
            .instance(format!("group{g}"), &group)
            .input("rank_i", lit(g.into(), rank_bits(config)))
            .input("start_i", &slot.start)
            .input("rows_i", &dot_rows)
            .input("batch_i", &dot_batch)
            .input("base_i", &dot_base)
            .input("weight_valid_i", valid)
            .input("weight_data_i", data)
            .input("x_we_i", write_ranks.bit(g))
            .input("x_position_i", &write_position)
            .input("x_rest_i", &write_rest)
            .input("x_addr_i", &write_addr)
            .input("x_data_i", &write_data)
            .input("sum_pop_i", combine.output(&format!("sum{g}_pop_o")))
            .input("sum_release_i", combine.output(&format!("sum{g}_release_o")));
        let instance = layout.connect(instance);
        idle.drive(instance.output("idle_o"));
        m.output(
            format!("w{g}_ready_o"),
            instance.output("weight_ready_o"),
            format!("weights of rank {g}: the beat is taken"),
        );
        combine = combine
            .input(format!("sum{g}_valid_i"), instance.output("sum_valid_o"))
            .input(format!("sum{g}_digit_i"), instance.output("sum_digit_o"))
            .input(format!("sum{g}_flags_i"), instance.output("sum_flags_o"));
        slots.push(slot.full);
    }
    let idle = m.forward("combiner_free", 1);
    let slot = slot(&m, "combiner", &issue, &idle);
    slots.push(slot.full);
    slots_full.drive(any_of(&slots));
    let combine = combine
        .input("start_i", &slot.start)
        .input("rows_i", &dot_rows)
        .input("waves_i", &layout.waves)
        .input("tail_i", &layout.tail)
        .input("batch_i", &dot_batch)
        .input("result_ready_i", &result_ready);
    idle.drive(combine.output("idle_o"));

    let refused = m.reg("refused_q", 1).reset(0);
    let bad_load = load_pending.q() & !&load_legal;
    let bad_dot = dot_pending.q() & !&dot_legal;
    refused.next(any_of(&[refused.q(), bad_load, bad_dot]));

    m.output("load_ready_o", &load_ready, "LOAD: taken; the loader has nothing left to write");
    m.output("x_ready_o", loader.output("x_ready_o"), "x: the beat is taken");
    m.output("dot_ready_o", &dot_ready, "DOT: taken; earlier LOADs are complete");
    m.output("result_valid_o", combine.output("result_valid_o"), "result: offered");
    m.output("result_data_o", combine.output("result_data_o"), "result: FP16");
    m.output("result_row_o", combine.output("result_row_o"), "result: its row");
    m.output("result_batch_o", combine.output("result_batch_o"), "result: its vector");
    m.output("result_last_o", combine.output("result_last_o"), "result: the DOT's last");
    let busy = [!load_ready, dot_pending.q(), slots_full.q(), combine.output("busy_o")];
    m.output("busy_o", any_of(&busy), "a command is being executed or a result waits");
    m.output(
        "refused_o",
        &refused,
        "a command had a size of zero or beyond the configuration and was dropped; until reset",
    );
    m.finish()
}
