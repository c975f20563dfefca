//! Every preset loads, and every derived width is the number that the documents state for it.
//!
//! Expected numbers are written out: a repeated formula would repeat its mistake.

use ndp_config::{DesignConfig, GemvConfig, GemvShape};

fn gemv(preset: &str) -> GemvConfig {
    DesignConfig::preset(preset).unwrap().gemv().clone()
}

fn close(actual: f64, expected: f64) {
    assert!((actual - expected).abs() < 0.005, "{actual} instead of {expected}");
}

#[test]
fn every_preset_loads_under_its_own_name() {
    for name in DesignConfig::PRESETS {
        assert_eq!(DesignConfig::preset(name).unwrap().name(), name);
        assert_eq!(DesignConfig::load(name).unwrap(), DesignConfig::preset(name).unwrap());
    }
}

#[test]
fn hermes_has_the_paper_s_numbers() {
    let c = gemv("hermes");
    // Table II.
    assert_eq!((c.multipliers(), c.lanes(), c.buffer_kib(), c.ranks()), (256, 8, 256, 4));
    assert_eq!((c.serial_steps(), c.acc_bits(), c.acc_segments(), c.digit_bits()), (11, 104, 4, 26));
    assert_eq!(c.window_cycles(), 11);
    assert_eq!((c.units_per_rank(), c.stripe_elems()), (64, 512));
    assert_eq!((c.chunk_bytes(), c.beat_chunks(), c.beats_per_stripe()), (16, 4, 16));
    assert_eq!((c.slice_words(), c.slice_addr_bits()), (64, 6));
    assert_eq!((c.max_batch(), c.batch_bits()), (16, 5));
    assert_eq!((c.max_rows(), c.row_bits()), (16_777_215, 24));
    assert_eq!((c.max_cols(), c.col_bits()), (131_072, 18));
    assert_eq!((c.tree_levels(), c.weight_fifo_beats()), (6, 8));
    close(DesignConfig::preset("hermes").unwrap().dram_weights_per_cycle(), 51.2);
    close(c.peak_macs_per_cycle(), 186.18);
}

#[test]
fn the_roofline_of_hermes_turns_from_memory_to_multipliers_at_batch_four() {
    let c = DesignConfig::preset("hermes").unwrap();
    // Refresh costs 560 of 12480 clocks: 48.9 of 51.2 are left.
    for (batch, expected) in [(1, 48.90), (2, 97.81), (3, 146.71), (4, 186.18), (16, 186.18)] {
        close(c.roofline_macs_per_cycle(batch), expected);
    }
    // 1024 x 4096: 4,194,304 products at 51.2 a cycle.
    let shape = |batch| GemvShape { rows: 1024, cols: 4096, batch };
    assert_eq!(shape(1).roofline_cycles(&c), 81_920);
    // 16,777,216 products at 2048 / 11 a cycle.
    assert_eq!(shape(4).roofline_cycles(&c), 90_112);
    assert_eq!(shape(4).macs(), 16_777_216);
}

#[test]
fn the_devices_of_the_standard_differ_from_hermes_in_the_dram_alone() {
    // Groups, banks, row bits; tRRD_S, tRRD_L, tFAW, tRFC; the share that refresh leaves and the products per cycle.
    for (name, geometry, times, share, roofline) in [
        ("hermes", [2, 8, 17], [4, 6, 26, 560], 0.955_13, 48.90),
        ("hermes-x8", [4, 16, 16], [4, 8, 34, 560], 0.955_13, 48.90),
        ("hermes-x16", [2, 8, 17], [9, 11, 48, 880], 0.929_49, 47.59),
    ] {
        let design = DesignConfig::preset(name).unwrap();
        let dram = design.dram();
        assert_eq!([dram.bank_groups(), dram.banks(), dram.row_bits()], geometry, "{name}");
        assert_eq!([dram.t_rrd_s(), dram.t_rrd_l(), dram.t_faw(), dram.t_rfc()], times, "{name}");
        assert_eq!((dram.burst_bits(), dram.bursts() * 64), (27, 8 << 30), "{name}");
        assert!((dram.refresh_share() - share).abs() < 1e-5, "{name}: {}", dram.refresh_share());
        close(design.roofline_macs_per_cycle(1), roofline);
        assert_eq!(design.gemv(), &gemv("hermes"), "{name}");
    }
}

#[test]
fn the_sweep_changes_what_depends_on_the_multipliers_and_nothing_else() {
    // multipliers, units per rank, stripe, beats per stripe, slice words, tree levels, peak.
    let expected = [
        ("hermes-32", 32, 8, 64, 2, 512, 3, 23.27),
        ("hermes-64", 64, 16, 128, 4, 256, 4, 46.55),
        ("hermes-128", 128, 32, 256, 8, 128, 5, 93.09),
        ("hermes", 256, 64, 512, 16, 64, 6, 186.18),
        ("hermes-512", 512, 128, 1024, 32, 32, 7, 372.36),
    ];
    for (preset, multipliers, units, stripe, beats, words, levels, peak) in expected {
        let c = gemv(preset);
        let found = (c.multipliers(), c.units_per_rank(), c.stripe_elems(), c.beats_per_stripe());
        assert_eq!(found, (multipliers, units, stripe, beats), "{preset}");
        assert_eq!((c.slice_words(), c.tree_levels()), (words, levels), "{preset}");
        close(c.peak_macs_per_cycle(), peak);
        assert_eq!((c.window_cycles(), c.ranks(), c.max_cols(), c.acc_bits()), (11, 4, 131_072, 104));
        close(DesignConfig::preset(preset).unwrap().dram_weights_per_cycle(), 51.2);
    }
}

#[test]
fn tiny_is_small_but_has_every_mechanism() {
    let c = gemv("tiny");
    assert_eq!((c.multipliers(), c.ranks(), c.buffer_kib(), c.max_batch()), (16, 2, 16, 4));
    assert_eq!((c.units_per_rank(), c.stripe_elems(), c.beats_per_stripe()), (8, 64, 2));
    assert_eq!((c.slice_words(), c.slice_addr_bits(), c.max_cols()), (64, 6, 8_192));
    assert_eq!((c.tree_levels(), c.weight_fifo_beats(), c.batch_bits()), (3, 4, 3));
    close(DesignConfig::preset("tiny").unwrap().dram_weights_per_cycle(), 25.6);
    close(c.peak_macs_per_cycle(), 11.64);
}

#[test]
fn heads_are_a_unit_wide_at_least_and_limited_by_vectors() {
    let heads = |c: &GemvConfig| (c.max_heads(), c.head_bits(), c.max_vectors(), c.vectors_bits());
    assert_eq!(heads(&gemv("hermes")), (8, 2, 32, 6));
    assert_eq!(heads(&gemv("tiny")), (8, 2, 8, 4));
    let of = |text: &str| {
        let text = format!("name = \"t\"\n[gemv]\nmultipliers = 8\nranks = 2\nbuffer_kib = 64\n{text}");
        DesignConfig::from_toml(&text).unwrap().gemv().clone()
    };
    // Four units in a rank; two vectors.
    assert_eq!(heads(&of("max_batch = 4")), (4, 2, 8, 4));
    assert_eq!(heads(&of("max_batch = 1")), (2, 1, 2, 2));
}

#[test]
fn the_window_is_the_longer_of_serial_steps_and_aligner_turns() {
    let window = |keys: &str| {
        let config = DesignConfig::from_toml(&format!("name = \"w\"\n[gemv]\n{keys}")).unwrap();
        config.gemv().window_cycles()
    };
    assert_eq!(window("serial_steps = 4"), 11, "8 lanes + 3 carries");
    assert_eq!(window("acc_bits = 99\nacc_segments = 3"), 11, "11 steps");
    assert_eq!(window("acc_bits = 99\nacc_segments = 3\nserial_steps = 4"), 10, "8 lanes + 2 carries");
    assert_eq!(window("lanes = 16"), 19, "16 lanes + 3 carries");
    let parallel = "multiplier = \"shared-parallel\"";
    assert_eq!(window(parallel), 11, "8 lanes + 3 carries");
    assert_eq!(window(&format!("{parallel}\nacc_bits = 99\nacc_segments = 3")), 10, "8 lanes + 2 carries");
}

#[test]
fn an_empty_table_is_the_paper_s_design() {
    let config = DesignConfig::from_toml("name = \"hermes\"").unwrap();
    assert_eq!(config, DesignConfig::preset("hermes").unwrap());
}

#[test]
fn an_unknown_preset_is_refused_with_the_list() {
    let error = DesignConfig::preset("hermse").unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown preset 'hermse', expected one of hermes, hermes-32, hermes-64, hermes-128, hermes-512, \
         hermes-2400, hermes-2666, hermes-2933, hermes-x8, hermes-x16, ndp-best, tiny or a path ending in .toml; did you mean 'hermes'?"
    );
}

#[test]
fn the_link_of_hermes_leaves_97_percent_of_its_lanes_for_payload() {
    let design = DesignConfig::preset("hermes").unwrap();
    let link = design.link();
    // Table II: eight lanes of 25 Gb/s, at 1 GHz 200 bits per cycle.
    assert_eq!((link.lanes(), link.word_bits()), (8, 200));
    // 72 + 8 * 512 + 32 bits are 21 words exactly.
    assert_eq!(
        (link.flit_beats(), link.payload_bits(), link.flit_words(), link.flit_bits()),
        (8, 4096, 21, 4200)
    );
    assert_eq!((link.frame_flits(), link.frame_words(), link.lock_cycles()), (8, 169, 4832));
    assert_eq!((link.replay_flits(), link.receive_flits(), link.bridge_ports()), (16, 16, 4));
    assert_eq!((link.timeout_cycles(), link.fault_cycles()), (1024, 65_536));
    close(link.payload_bytes_per_cycle(), 24.237);
    close(link.efficiency(), 0.9695);
    let design = DesignConfig::preset("tiny").unwrap();
    let link = design.link();
    assert_eq!(
        (link.word_bits(), link.flit_words(), link.frame_words(), link.lock_cycles()),
        (100, 12, 49, 1472)
    );
}
