//! Speed grades of the DRAM: which times belong to each, and which files are refused because theirs do not.

#![allow(clippy::unwrap_used)]

use ndp_config::DesignConfig;

/// DDR4-2666V (19-19-19) in clocks of 0.75 ns.
const DDR4_2666: &str = "t_rc = 62\nt_rcd = 19\nt_cl = 19\nt_rp = 19\nt_ccd_l = 7\nt_rrd_l = 7\nt_faw = 28\nt_ras = 43\n\
                         t_cwl = 14\nt_wr = 20\nt_wtr_l = 10\nt_rtp = 10\nt_rfc = 467\nt_refi = 10400\n";

fn refused(keys: &str) -> String {
    DesignConfig::from_toml(&format!("name = \"x\"\n[dram]\n{keys}\n")).expect_err(keys).to_string()
}

#[test]
fn a_file_in_clocks_of_another_grade_is_refused() {
    // At 3200 a clock is 0.625 ns: tRAS would be 26.9 ns.
    let message = refused(DDR4_2666);
    assert!(message.contains("t_cl = 19") || message.contains("t_ras = 43"), "{message}");
}
