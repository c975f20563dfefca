//! Edge cases of `gen-rtl`: lost output, and links and special files.

use ndp_testkit::programs::Program;
use std::os::unix::fs::PermissionsExt;

fn gen_rtl() -> Program {
    Program::new(env!("CARGO_BIN_EXE_gen-rtl"))
}

const SMALL: &str = "--config tiny --block fp16_rounder --out";

#[test]
fn a_lost_standard_output_is_an_error_and_a_closed_pipe_is_quiet() {
    for line in ["--help", "--list --config tiny --block fp16_rounder", &format!("{SMALL} rtl")] {
        gen_rtl().loses_its_output(line);
    }
}

#[test]
fn links_stay_and_what_is_write_protected_is_refused() {
    let gen_rtl = gen_rtl();
    let rtl = format!("{SMALL} {}", gen_rtl.path("rtl"));
    gen_rtl.succeeds(&rtl);
    let files = gen_rtl.path("rtl/files.f");
    let content = std::fs::read(&files).unwrap();
    std::fs::rename(&files, gen_rtl.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink("../elsewhere", &files).unwrap();
    std::fs::write(gen_rtl.path("elsewhere"), "# Generated: old").unwrap();
    gen_rtl.succeeds(&rtl);
    assert!(std::fs::symlink_metadata(&files).unwrap().is_symlink());
    assert_eq!(std::fs::read(gen_rtl.path("elsewhere")).unwrap(), content);
    std::fs::set_permissions(gen_rtl.path("elsewhere"), std::fs::Permissions::from_mode(0o444)).unwrap();
    gen_rtl.refused(&rtl, "it is write-protected (mode 444)");
}

#[test]
fn endless_input_is_refused() {
    gen_rtl().refuses_endless("--block fp16_rounder --out rtl --config", "core.toml");
}

#[test]
fn no_file_takes_what_is_printed() {
    let gen_rtl = gen_rtl();
    gen_rtl.succeeds(&format!("{SMALL} rtl"));
    for name in ["ports.md", "files.f"] {
        gen_rtl.spares_what_it_reads(&format!("{SMALL} rtl"), &gen_rtl.path(&format!("rtl/{name}")));
    }
}
