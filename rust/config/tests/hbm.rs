//! Do the HBM presets have the numbers of the paper, and is a memory that cannot exist refused by name?

use ndp_config::{HbmCommandBuses, HbmCommandSet, HbmConfig, HbmRefresh};

#[test]
fn every_preset_loads_under_its_own_name() {
    for name in HbmConfig::PRESETS {
        assert_eq!(HbmConfig::preset(name).unwrap().name(), name);
        assert_eq!(HbmConfig::load(name).unwrap(), HbmConfig::preset(name).unwrap());
    }
    let error = HbmConfig::preset("hbm3").unwrap_err();
    let start = "unknown HBM memory 'hbm3', expected one of";
    assert!(error.to_string().starts_with(start) && error.to_string().contains("newton-aim"));
    assert!(format!("{:#}", HbmConfig::load("nowhere.toml").unwrap_err()).contains("nowhere.toml"));
}

#[test]
fn librapim_has_the_paper_s_numbers() {
    let c = HbmConfig::preset("librapim").unwrap();
    assert_eq!((c.channels(), c.bank_groups(), c.banks_per_group(), c.banks()), (64, 4, 4, 16));
    assert_eq!((c.t_cl(), c.t_rcd(), c.t_rp()), (14, 14, 14));
    assert_eq!(c.bytes(), 16 << 30);
    assert_eq!((c.rows(), c.subarrays(), c.weight_rows()), (16384, 32, 8192));
    assert_eq!(HbmConfig::COLUMNS * HbmConfig::COLUMN_BYTES, 1024);
    assert_eq!((HbmConfig::LANES * 16, c.t_rtw()), (256, 14));
    assert!(c.slicing() && !c.all_bank_activate());
}

#[test]
fn aim_is_the_baseline_with_a_command_at_a_time() {
    let aim = HbmConfig::preset("aim").unwrap();
    assert_eq!((aim.command_set(), aim.t_cmd(), aim.slicing()), (HbmCommandSet::Aim, 1, false));
    assert_eq!(aim.with_t_cmd(64).unwrap().t_cmd(), 64);
}

#[test]
fn the_baseline_differs_in_slicing_only() {
    let [libra, newton] = ["librapim", "newton-aim"].map(|name| HbmConfig::preset(name).unwrap());
    assert!(!newton.slicing());
    assert_eq!(newton.weight_rows(), newton.rows());
    let sliced = "name = \"librapim\"\n[device]\nslicing = true";
    assert_eq!(HbmConfig::from_toml(sliced).unwrap(), libra);
}

/// gem5's `HBM_2000_4H_1x64`, in ns: one clock each.
#[test]
fn hbm2_has_bank_groups_with_a_pace_of_their_own() {
    let [whole, small, tiny] =
        ["hbm2", "hbm2-small", "hbm2-tiny"].map(|name| HbmConfig::preset(name).unwrap());
    for c in [&whole, &small] {
        assert_eq!((c.t_cl(), c.t_cwl(), c.t_rcd(), c.t_rp(), c.t_ras(), c.t_rc()), (18, 7, 12, 14, 28, 42));
        assert_eq!((c.t_ccd_s(), c.t_ccd_l(), c.t_rrd_s(), c.t_rrd_l(), c.t_faw()), (2, 3, 4, 6, 16));
        assert_eq!(
            (c.t_wr(), c.t_wtr_s(), c.t_wtr_l(), c.t_rtp(), c.t_rfc(), c.t_refi()),
            (14, 4, 9, 5, 220, 3900)
        );
    }
    let libra = HbmConfig::preset("librapim").unwrap();
    assert_eq!(
        (whole.bytes(), whole.banks(), whole.weight_rows()),
        (libra.bytes(), libra.banks(), libra.weight_rows())
    );
    assert_eq!((small.channels(), small.rows(), tiny.banks(), tiny.t_ccd_l()), (2, 512, 4, 4));
}

#[test]
fn pseudo_channels_differ_in_their_command_buses_only() {
    let [own, shared] = ["hbm2-small", "hbm2-pseudo"].map(|name| HbmConfig::preset(name).unwrap());
    assert_eq!(
        (own.command_buses(), shared.command_buses()),
        (HbmCommandBuses::Own, HbmCommandBuses::Shared)
    );
    let text = include_str!("../presets/hbm/hbm2-small.toml");
    let text =
        text.replace("[device]", "[device]\ncommand_buses = \"shared\"").replace("hbm2-small", "hbm2-pseudo");
    assert_eq!(HbmConfig::from_toml(&text).unwrap(), shared);
}

#[test]
fn refreshes_of_single_banks_come_as_often_as_there_are_banks() {
    let [all, bank, tiny] =
        ["hbm2-small", "hbm2-refpb", "hbm2-tiny"].map(|name| HbmConfig::preset(name).unwrap());
    assert_eq!((all.refresh(), all.refresh_interval()), (HbmRefresh::All, 3900));
    assert_eq!((bank.refresh(), bank.refresh_interval()), (HbmRefresh::Bank, 243));
    assert_eq!((bank.t_rfc_pb(), bank.t_rrefd()), (160, 8));
    assert_eq!((tiny.refresh(), tiny.refresh_interval()), (HbmRefresh::Bank, 100));
}

#[test]
fn values_out_of_range_are_refused_by_name() {
    for (line, named) in [
        ("[device]\nbank_groups = 8", "device.bank_groups = 8 must be in 1..=4"),
        ("[device]\nbanks_per_group = 3", "device.banks_per_group = 3 must be a power of two"),
        ("[device]\nweight_subarrays = 32", "device.weight_subarrays = 32 must be in 1..=31"),
        ("[device]\nweight_subarrays = 0", "device.weight_subarrays = 0"),
        ("[device]\nsubarray_rows = 16384", "device.subarray_rows = 16384 must be in 1..=8192"),
        ("[device]\nbuffer_slots = 33", "device.buffer_slots = 33 must be in 1..=32"),
        ("[device]\nrow_bits = 16", "device.row_bits = 16 must be in 2..=15"),
        ("[device]\nacc_bits = 121", "device.acc_bits = 121 must be in 97..=120"),
        ("[device]\nrefresh = \"none\"", "unknown variant `none`, expected `all` or `bank`"),
        (
            "[device]\ncommand_set = \"aim\"",
            "device.slicing + device.all_bank_activate = 1 must be 0: the command set \"aim\" has no slicing",
        ),
        ("[device]\nchannels = 1\ncommand_buses = \"shared\"", "device.channels = 1 must be even"),
        (
            "[device]\nslicing = false\ncommand_set = \"aim\"\ncommand_buses = \"shared\"",
            "device.command_buses = 2 must be \"own\"",
        ),
        ("[timing]\nt_cmd = 0", "timing.t_cmd = 0 must be in 1..=4096"),
        ("[timing]\nt_rfc_pb = 15", "timing.t_rfc_pb = 15 must be in 16..=4000"),
        ("[timing]\nt_rrefd = 161", "timing.t_rrefd = 161 must be in 2..=160"),
        (
            "[device]\nrefresh = \"bank\"\n[timing]\nt_rfc_pb = 196",
            "timing.t_refi = 3900 must be at least banks * (t_rfc_pb + t_rc) = 3904 to refresh single banks",
        ),
        ("[timing]\nt_ccd_s = 1", "timing.t_ccd_s = 1 must be in 2..=32"),
        ("[timing]\nt_ccd_s = 4", "timing.t_ccd_l = 2 must be in 4..=32"),
        ("[timing]\nt_cwl = 15", "timing.t_cwl = 15 must be in 1..=14"),
        ("[timing]\nt_rc = 47", "timing.t_rc = 47 must be at least t_ras + t_rp = 48"),
        ("[timing]\nt_refi = 567", "timing.t_refi = 567 must be at least 2 * t_rfc + t_rc = 568"),
        ("[timing]\nt_rcdrd = 14", "t_rcdrd"),
    ] {
        let error = HbmConfig::from_toml(&format!("name = \"x\"\n{line}")).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}
