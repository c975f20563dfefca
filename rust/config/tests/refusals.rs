//! Files and shapes that must be refused, each with the value found and the limit it breaks.

use ndp_config::{DesignConfig, GemvConfig, GemvShape, HbmConfig, LlmShape, Ssd, SystemConfig};

fn refused(keys: &str) -> String {
    let text = format!("name = \"x\"\n[gemv]\n{keys}\n");
    DesignConfig::from_toml(&text).expect_err(keys).to_string()
}

fn accepted(keys: &str) {
    DesignConfig::from_toml(&format!("name = \"x\"\n[gemv]\n{keys}\n"))
        .unwrap_or_else(|e| panic!("{keys}: {e}"));
}

#[test]
fn values_outside_their_range_are_refused_with_the_range() {
    let limits = [
        ("multipliers", 4, 1024),
        ("lanes", 8, 16),
        ("serial_steps", 2, 11),
        ("acc_bits", 97, 120),
        ("acc_segments", 3, 6),
        ("ranks", 1, 4),
        ("buffer_kib", 1, 1024),
        ("max_batch", 1, 16),
        ("weight_fifo_beats", 4, 64),
    ];
    for (key, min, max) in limits {
        for value in [0, min - 1, max + 1, u32::MAX] {
            let expected = format!("gemv.{key} = {value} must be in {min}..={max}");
            assert_eq!(refused(&format!("{key} = {value}")), expected);
        }
    }
}

#[test]
fn values_at_their_limits_are_accepted() {
    let tables = [
        "multipliers = 1024\nbuffer_kib = 1024",
        "multipliers = 4\nranks = 1",
        "lanes = 8",
        "lanes = 16",
        "serial_steps = 2",
        "serial_steps = 11",
        "acc_bits = 120\nacc_segments = 6",
        "acc_bits = 99\nacc_segments = 3",
        "ranks = 1",
        "ranks = 4",
        "buffer_kib = 1024",
        "buffer_kib = 1\nmultipliers = 4\nranks = 1",
        "max_batch = 1",
        "max_batch = 16",
        "weight_fifo_beats = 4",
        "weight_fifo_beats = 64",
    ];
    for table in tables {
        accepted(table);
    }
}

#[test]
fn bank_groups_are_two_or_four_and_leave_the_burst_address_its_bits() {
    let refused = |dram: &str| {
        let text = format!("name = \"x\"\n[dram]\n{dram}\n");
        DesignConfig::from_toml(&text).expect_err(dram).to_string()
    };
    for value in [0, 1, 5, 8] {
        let expected = format!("dram.bank_groups = {value} must be in 2..=4");
        assert_eq!(refused(&format!("bank_groups = {value}")), expected);
    }
    assert_eq!(refused("bank_groups = 3"), "dram.bank_groups = 3 must be a power of two");
    assert_eq!(refused("bank_groups = 4"), "dram.row_bits = 17 must be in 8..=16");
    assert_eq!(refused("row_bits = 18"), "dram.row_bits = 18 must be in 8..=17");
    let text = "name = \"x\"\n[dram]\nbank_groups = 4\nrow_bits = 16\n";
    assert_eq!(DesignConfig::from_toml(text).unwrap().dimm_burst_bits(), 29);
}

#[test]
fn values_that_are_no_power_of_two_are_refused() {
    for (key, value) in [
        ("multipliers", 96),
        ("lanes", 12),
        ("ranks", 3),
        ("buffer_kib", 100),
        ("max_batch", 6),
        ("weight_fifo_beats", 12),
    ] {
        let expected = format!("gemv.{key} = {value} must be a power of two");
        assert_eq!(refused(&format!("{key} = {value}")), expected);
    }
}

#[test]
fn an_accumulator_that_its_segments_do_not_divide_is_refused() {
    let expected = "gemv.acc_bits = 104 must be a multiple of gemv.acc_segments = 3";
    assert_eq!(refused("acc_segments = 3"), expected);
    let expected = "gemv.acc_bits = 103 must be a multiple of gemv.acc_segments = 4";
    assert_eq!(refused("acc_bits = 103"), expected);
}

#[test]
fn an_accumulator_that_the_longest_row_overflows_is_refused() {
    let expected = "gemv.acc_bits = 99 must be at least 100: gemv.buffer_kib = 1024 holds rows of 524288 elements, whose sum must not overflow";
    assert_eq!(refused("buffer_kib = 1024\nacc_bits = 99\nacc_segments = 3"), expected);
    accepted("buffer_kib = 1024\nacc_bits = 100");
    accepted("buffer_kib = 512\nacc_bits = 99\nacc_segments = 3");
}

#[test]
fn no_sum_of_the_products_that_an_accumulator_is_for_overflows_it() {
    // The largest product in units of 2^-48: 65504^2, 65504 being 2047 * 2^5.
    let largest = (2047_u128 << 5).pow(2) << 48;
    for products in [1, 2, 3, 4096, 4097, 1 << 16, 131_072, 524_288] {
        let most = |bits: u32| 1_u128 << (bits - 1);
        let (bits, sum) = (GemvConfig::acc_bits_for(products), largest * u128::from(products));
        assert!(sum < most(bits), "{products} products in {bits} bits");
        // One bit less holds no power of two of them.
        assert!(!products.is_power_of_two() || sum > most(bits - 1), "{products} products in {bits} bits");
    }
    assert_eq!(GemvConfig::MIN_ACC_BITS, 97);
}

#[test]
fn a_rank_with_fewer_units_than_a_beat_has_chunks_is_refused() {
    let expected = "multipliers / ranks = 2 must be at least the 4 chunks of one 512-bit beat";
    assert_eq!(refused("multipliers = 8"), expected);
    accepted("multipliers = 16");
    let expected = "multipliers / ranks = 1 must be at least the 2 chunks of one 512-bit beat";
    assert_eq!(refused("multipliers = 4\nlanes = 16"), expected);
    accepted("multipliers = 8\nlanes = 16");
}

#[test]
fn lanes_of_the_activation_unit_are_at_least_one_a_rank_and_at_most_one_a_multiplier_unit() {
    for value in [0, 2, 512, u32::MAX] {
        let expected = format!("gemv.activation_lanes = {value} must be in 4..=256");
        assert_eq!(refused(&format!("activation_lanes = {value}")), expected);
    }
    let expected = "gemv.activation_lanes = 32 must be in 2..=16";
    assert_eq!(refused("activation_lanes = 32\nmultipliers = 16\nranks = 2"), expected);
    assert_eq!(refused("activation_lanes = 48"), "gemv.activation_lanes = 48 must be a power of two");
    let of = |keys: &str| DesignConfig::from_toml(&format!("name = \"x\"\n[gemv]\n{keys}\n")).unwrap();
    let sharing = |keys: &str| {
        let gemv = of(keys).gemv().clone();
        (gemv.activation_lanes_per_rank(), gemv.slices_per_lane())
    };
    assert_eq!(sharing(""), (64, 1));
    assert_eq!(sharing("activation_lanes = 64"), (16, 4));
    assert_eq!(sharing("activation_lanes = 4"), (1, 64));
    // Default: one per multiplier unit.
    assert_eq!(sharing("multipliers = 64"), (16, 1));
    assert_eq!(of(""), of("activation_lanes = 256"));
}

#[test]
fn multipliers_are_serial_or_one_for_all_lanes() {
    for (value, is) in [("\"booth\"", "booth"), ("\"Bit-Serial\"", "Bit-Serial")] {
        let expected = format!(
            "unknown variant `{is}`, expected one of `bit-serial`, `digit-serial`, `shared-parallel`"
        );
        let error = refused(&format!("multiplier = {value}"));
        assert!(error.contains(&expected) && error.contains("multiplier = "), "{error}");
    }
    let error = refused("multiplier = 128");
    assert!(error.contains("multiplier = 128") && error.contains("wanted string"), "{error}");
    accepted("multiplier = \"shared-parallel\"");
    let of = |keys: &str| DesignConfig::from_toml(&format!("name = \"x\"\n[gemv]\n{keys}\n")).unwrap();
    assert_eq!(of(""), of("multiplier = \"bit-serial\""));
    assert_eq!(of("").gemv().product_windows(), 1);
    assert_eq!(of("multiplier = \"digit-serial\"").gemv().product_windows(), 1);
    assert_eq!(of("multiplier = \"shared-parallel\"").gemv().product_windows(), 0);
}

#[test]
fn exponential_units_are_one_per_lane_or_shared() {
    let error = refused("exponential = \"per-rank\"");
    let expected = "unknown variant `per-rank`, expected `per-lane` or `shared`";
    assert!(error.contains(expected) && error.contains("exponential = "), "{error}");
    let of = |keys: &str| DesignConfig::from_toml(&format!("name = \"x\"\n[gemv]\n{keys}\n")).unwrap();
    assert_eq!(of(""), of("exponential = \"per-lane\""));
    assert!(!of("").gemv().shares_exponential());
    assert!(of("exponential = \"shared\"").gemv().shares_exponential());
}

#[test]
fn formats_of_weights_are_two_and_need_stripes_of_two_beats() {
    assert!(
        refused("weight_formats = \"int4\"").contains("unknown variant `int4`, expected `fp16` or `all`")
    );
    accepted("weight_formats = \"all\"\nmultipliers = 8\nranks = 1");
    let expected = "beats of a stripe (multipliers / ranks * lanes / 32) = 1 must be at least 2 for gemv.weight_formats = \"all\"";
    assert_eq!(refused("weight_formats = \"all\"\nmultipliers = 16"), expected);
    accepted("weight_formats = \"fp16\"\nmultipliers = 16");
    let names = |formats: &str| {
        let text = format!("name = \"x\"\n[gemv]\nweight_formats = \"{formats}\"\n");
        let config = DesignConfig::from_toml(&text).unwrap();
        config.gemv().weight_formats().iter().map(|format| format.name()).collect::<Vec<_>>()
    };
    let of = |keys: &str| DesignConfig::from_toml(&format!("name = \"x\"\n[gemv]\n{keys}\n")).unwrap();
    // Default: all possible ones.
    assert_eq!(of(""), of("weight_formats = \"all\""));
    assert_eq!(of("multipliers = 16"), of("multipliers = 16\nweight_formats = \"fp16\""));
    assert_eq!((names("fp16"), names("all")), (vec!["fp16"], vec!["fp16", "int8", "int4"]));
}

#[test]
fn a_buffer_too_small_for_two_vectors_per_slice_is_refused() {
    let what = "slice bytes (buffer_kib * 1024 / multipliers)";
    let expected = format!("{what} = 64 must hold at least 8 chunks of 16 bytes");
    assert_eq!(refused("buffer_kib = 16"), expected);
    let expected = format!("{what} = 16 must hold at least 2 chunks of 16 bytes");
    assert_eq!(refused("buffer_kib = 4\nmax_batch = 1"), expected);
    accepted("buffer_kib = 32");
    accepted("buffer_kib = 8\nmax_batch = 1");
}

#[test]
fn names_that_are_no_file_names_are_refused() {
    let long = "a".repeat(65);
    for name in ["", "Hermes", "4ranks", "-x", "a b", "a/b", "a_b", "\u{e4}", &long] {
        let error = DesignConfig::from_toml(&format!("name = \"{name}\"")).unwrap_err();
        let expected = format!(
            "name = \"{name}\" must start with a lower-case letter and hold only a-z, 0-9 and '-', at most 64 characters"
        );
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn no_name_of_a_file_has_control_characters_or_leads_out_of_a_folder() {
    let llm = "layers = 2\nhidden = 512\nheads = 16\nkv_heads = 4\nffn = 1792\nmlp_matrices = 3\nvocabulary = 256\n\
               tied_embeddings = false\nbiased = false";
    let system = SystemConfig::preset_text("hermes").unwrap().replace("name = \"hermes\"", "");
    let ssd = Ssd::preset_text("flash-m1").unwrap().replace("name = \"flash-m1\"", "");
    type Read = fn(&str) -> ndp_config::Result<()>;
    let read: [(&str, &str, Read); 5] = [
        ("design", "", |text| DesignConfig::from_toml(text).map(|_| ())),
        ("memory", "", |text| HbmConfig::from_toml(text).map(|_| ())),
        ("system", &system, |text| SystemConfig::from_toml(text).map(|_| ())),
        ("SSD", &ssd, |text| Ssd::from_toml(text).map(|_| ())),
        ("model", llm, |text| LlmShape::from_toml(text).map(|_| ())),
    ];
    for (what, rest, read) in read {
        read(&format!("name = \"x1\"\n{rest}")).unwrap_or_else(|error| panic!("{what}: {error}"));
        for name in [
            "",
            r"x\n`define EVIL",
            r"x\u001b[2J",
            r"x\u0085",
            "../x",
            "..",
            "=x",
            "x;y",
            "x[exit]",
            "x\u{202e}",
        ] {
            let error = read(&format!("name = \"{name}\"\n{rest}")).unwrap_err();
            let shown = error.to_string();
            assert!(shown.contains("name = \""), "{what} {name}: {shown}");
            assert!(!shown.chars().any(|c| c.is_control() || c == '\u{202e}'), "{what}: {shown:?}");
        }
    }
}

/// The error of a whole file, which has to name all `parts`.
fn refused_text(text: &str, parts: &[&str]) {
    let error = DesignConfig::from_toml(text).unwrap_err();
    for part in ["not a valid configuration: "].iter().chain(parts) {
        assert!(error.to_string().contains(part), "'{part}' is missing in: {error}");
    }
}

#[test]
fn unknown_keys_are_refused_with_their_line_and_the_known_ones() {
    refused_text(
        "name = \"x\"\n[gemv]\nlane = 8\n",
        &["unknown field `lane`", "line 3", "did you mean 'lanes'?"],
    );
    refused_text("name = \"x\"\ngmv = 1\n", &["unknown field `gmv`", "line 2", "did you mean 'gemv'?"]);
}

#[test]
fn text_that_is_not_toml_is_refused_with_its_line() {
    refused_text("name = \"x\"\n[gemv\nlanes = 8\n", &["line 2"]);
    refused_text("name = \"x\"\n[gemv]\nlanes = \n", &["line 3"]);
    refused_text("name = \"x\"\n[gemv]\nlanes = 8\nlanes = 8\n", &["line 4", "duplicate key"]);
}

#[test]
fn values_of_another_type_are_refused_with_their_line() {
    refused_text("name = \"x\"\n[gemv]\nlanes = \"8\"\n", &["line 3", "expected u32"]);
    refused_text("name = \"x\"\n[gemv]\nlanes = -8\n", &["line 3", "-8"]);
    refused_text("name = \"x\"\n[gemv]\nlanes = 8.0\n", &["line 3", "expected u32"]);
    refused_text("name = \"x\"\n[gemv]\nlanes = 4294967296\n", &["line 3", "4294967296"]);
    refused_text("[gemv]\nlanes = 8\n", &["missing field `name`"]);
}

#[test]
fn a_missing_file_is_refused_with_its_path() {
    let error = DesignConfig::load("no/such/design.toml").unwrap_err();
    let message = format!("{error:#}");
    assert!(
        message.starts_with("cannot read configuration 'no/such/design.toml': No such file"),
        "{message}"
    );
}

#[test]
fn a_file_loads_by_path_and_its_errors_carry_the_path() {
    let folder = std::env::temp_dir().join(format!("ndp-config-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("mine.toml").display().to_string();
    std::fs::write(&path, "name = \"mine\"\n[gemv]\nmultipliers = 128\n").unwrap();
    let good = DesignConfig::load(&path);
    std::fs::write(&path, "name = \"mine\"\n[gemv]\nmultipliers = 100\n").unwrap();
    let bad = DesignConfig::load(&path).map_err(|e| format!("{e:#}"));
    std::fs::remove_dir_all(&folder).unwrap();
    let good = good.unwrap();
    assert_eq!((good.name(), good.gemv().multipliers()), ("mine", 128));
    assert_eq!(bad, Err(format!("in '{path}': gemv.multipliers = 100 must be a power of two")));
}

#[test]
fn shapes_beyond_the_design_are_refused() {
    let config = DesignConfig::preset("hermes").unwrap();
    let refused = |rows, cols, batch| {
        GemvShape { rows, cols, batch }.check(config.gemv()).expect_err("the shape fits").to_string()
    };
    assert_eq!(refused(0, 1, 1), "rows = 0 must be in 1..=16777215");
    assert_eq!(refused(16_777_216, 1, 1), "rows = 16777216 must be in 1..=16777215");
    assert_eq!(refused(1, 0, 1), "cols = 0 must be in 1..=131072");
    assert_eq!(refused(1, 131_073, 1), "cols = 131073 must be in 1..=131072");
    assert_eq!(refused(1, 1, 0), "batch = 0 must be in 1..=16");
    assert_eq!(refused(1, 1, 17), "batch = 17 must be in 1..=16");
    // 27 stripes: 6 full waves, and 3 tail stripes that each rank meets: 9 words per vector.
    assert_eq!(
        refused(1, 13_824, 16),
        "slice words for cols = 13824 at batch = 16 = 144 must be at most 64 (a 256 KiB buffer)"
    );
}

#[test]
fn the_paper_s_shapes_fit() {
    let config = DesignConfig::preset("hermes").unwrap();
    for (cols, batch) in [(4096, 16), (5120, 16), (9216, 4), (13_824, 4), (131_072, 1)] {
        let shape = GemvShape { rows: 1024, cols, batch };
        shape.check(config.gemv()).unwrap_or_else(|e| panic!("{cols} x {batch}: {e}"));
        assert!(GemvShape::max_batch(config.gemv(), cols) >= batch);
    }
    assert_eq!(GemvShape::max_batch(config.gemv(), 13_824), 7);
}

#[test]
fn axi_outside_its_limits_is_refused() {
    let refused = |keys: &str| {
        let text = format!("name = \"x\"\n[axi]\n{keys}\n");
        DesignConfig::from_toml(&text).expect_err(keys).to_string()
    };
    for (key, min, max) in [("data_bits", 32, 512), ("id_bits", 1, 16), ("outstanding", 4, 64)] {
        for value in [0, min - 1, max + 1, u32::MAX] {
            let expected = format!("axi.{key} = {value} must be in {min}..={max}");
            assert_eq!(refused(&format!("{key} = {value}")), expected);
        }
        if key != "id_bits" {
            let expected = format!("axi.{key} = {} must be a power of two", max - 1);
            assert_eq!(refused(&format!("{key} = {}", max - 1)), expected);
        }
    }
}

#[test]
fn times_of_a_phy_outside_their_limits_are_refused() {
    let limits = [
        ("write_lead", 0, 4),
        ("t_phy_wrdata", 0, 3),
        ("read_lead", 0, 8),
        ("read_lag", 0, 12),
        ("reset_us", 1, 10_000),
        ("cke_us", 1, 10_000),
    ];
    for (key, min, max) in limits {
        for value in [max + 1, u32::MAX].into_iter().chain((min > 0).then_some(0)) {
            let text = format!("name = \"x\"\n[dfi]\n{key} = {value}\n");
            let expected = format!("dfi.{key} = {value} must be in {min}..={max}");
            assert_eq!(DesignConfig::from_toml(&text).unwrap_err().to_string(), expected);
        }
    }
}

#[test]
fn links_outside_their_limits_are_refused() {
    let refused = |keys: &str| {
        let text = format!("name = \"x\"\n[link]\n{keys}\n");
        DesignConfig::from_toml(&text).expect_err(keys).to_string()
    };
    let limits = [
        ("lanes", 4, 8),
        ("flit_beats", 2, 8),
        ("frame_flits", 2, 64),
        ("replay_flits", 4, 64),
        ("receive_flits", 4, 64),
        ("timeout_cycles", 256, 65_536),
        ("fault_cycles", 1024, 1 << 24),
        ("transfer_cycles", 2048, 1 << 25),
        ("bridge_ports", 2, 8),
    ];
    for (key, min, max) in limits {
        for value in [0, min - 1, max + 1, u32::MAX] {
            let expected = format!("link.{key} = {value} must be in {min}..={max}");
            assert_eq!(refused(&format!("{key} = {value}")), expected);
        }
        if key != "bridge_ports" {
            let expected = format!("link.{key} = {} must be a power of two", max - 1);
            assert_eq!(refused(&format!("{key} = {}", max - 1)), expected);
        }
    }
    let expected = "link.fault_cycles = 16384 must be at least four times the 4832 cycles to lock";
    assert_eq!(refused("fault_cycles = 16384"), expected);
    let expected = "link.transfer_cycles = 65536 must be at least twice the 65536 of link.fault_cycles";
    assert_eq!(refused("transfer_cycles = 65536"), expected);
    assert!(refused("speed = 3").contains("unknown field `speed`"));
}

/// The device's CAS latency at a DFI port, by the rule for given ones.
#[test]
fn a_cas_latency_behind_a_dfi_port_that_no_device_has_is_refused() {
    let checked = |text: &str| {
        let config = DesignConfig::from_toml(&format!("name = \"x\"\n{text}")).unwrap();
        config.dfi().check(config.dram()).map_err(|e| e.to_string())
    };
    let refused = |clocks: u32, ns: &str, speed: u32, least: u32, t_cl: u32| {
        Err(format!(
            "CAS latency behind a DFI port (dram.t_cl less its read delay) = {clocks} clocks ({ns} ns at DDR4-{speed}) must be at least \
             {least} clocks (12.5 ns), for which dram.t_cl has to be {t_cl} or more; jedec = false takes any"
        ))
    };
    // Delays of commands and data take 8 clocks of the presets' 24 and 17.
    assert_eq!(checked(""), refused(16, "10.000", 3200, 20, 28));
    assert_eq!(checked("[dram]\nspeed = 2400"), refused(9, "7.497", 2400, 15, 23));
    assert_eq!(checked("[dram]\nt_cl = 27"), refused(19, "11.875", 3200, 20, 28));
    assert_eq!(checked("[dram]\nt_cl = 28\n[dfi]\nread_lag = 4"), refused(19, "11.875", 3200, 20, 29));
    for text in ["[dram]\nt_cl = 28", "[dram]\nspeed = 2400\nt_cl = 23", "[dram]\njedec = false"] {
        assert_eq!(checked(text), Ok(()), "{text}");
    }
}
