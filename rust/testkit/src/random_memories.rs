//! HBM2 memories with computing banks, drawn at random: small ones, of every kind, with times that no preset has.

use crate::Draw;
use ndp_config::HbmConfig;

/// Times are below 140 clocks, except for refreshes of all banks, and long enough for the pipelines of the RTL.
pub fn random_memory(seed: u64) -> HbmConfig {
    let mut draw = Draw::of(seed);
    loop {
        let slicing = draw.below(2) == 1;
        let all = draw.below(2) == 1;
        let aim = !slicing && !all && draw.below(2) == 1;
        let bank = draw.below(2) == 1;
        let mut text = format!(
            "name = \"memory-{seed}\"\n[device]\nslicing = {slicing}\nall_bank_activate = {all}\ncommand_set = \"{}\"\n\
             refresh = \"{}\"\nrow_bits = 6\nsubarray_rows = 8\nweight_subarrays = 3\n",
            if aim { "aim" } else { "librapim" },
            if bank { "bank" } else { "all" }
        );
        let mut line = |key: &str, value: u32| text += &format!("{key} = {value}\n");
        line("bank_groups", draw.one_of(&[2, 4]));
        line("banks_per_group", draw.one_of(&[2, 4]));
        line("buffer_slots", draw.within(4, 32));
        line("acc_bits", draw.within(97, 120));
        line("[timing]\nt_cl", draw.within(7, 24));
        line("t_cwl", draw.within(1, 7));
        let (ras, rp, ccd, rrd) =
            (draw.within(8, 40), draw.within(2, 20), draw.within(2, 4), draw.within(2, 6));
        line("t_ras", ras);
        line("t_rp", rp);
        line("t_rc", ras + rp + draw.below(8));
        line("t_rcd", draw.within(2, 20));
        line("t_ccd_s", ccd);
        line("t_ccd_l", ccd + draw.below(4));
        line("t_rrd_s", rrd);
        line("t_rrd_l", rrd + draw.below(5));
        line("t_faw", draw.within(4, 40));
        line("t_wr", draw.within(1, 20));
        let wtr = draw.within(1, 8);
        line("t_wtr_s", wtr);
        line("t_wtr_l", wtr + draw.below(6));
        line("t_rtp", draw.within(2, 10));
        line("t_slice", draw.within(1, 30));
        line("t_mac", draw.within(6, 30));
        line("t_cmd", draw.within(1, 5));
        line("t_rfc", draw.within(20, 200));
        line("t_rfc_pb", draw.within(16, 60));
        line("t_rrefd", draw.within(2, 16));
        line("t_refi", draw.within(600, 4000));
        if let Ok(config) = HbmConfig::from_toml(&text) {
            return config;
        }
    }
}
