//! Do all instances of a replicated module share their code?
//!
//! If Verilator gives each compute tile functions of its own, the core is simulated at half the speed and compiled in
//! twice the time. That happens, for example, where a child of the tile is not inlined and a port of it is another
//! child's register.

use ndp_config::DesignConfig;
use ndp_verilate::{Cache, Rtl, Variant, tools};
use std::error::Error;

fn functions(multipliers: u32) -> Result<usize, Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let text = format!(
        "name = \"tiles\"\n[gemv]\nmultipliers = {multipliers}\nranks = 2\nbuffer_kib = 16\nmax_batch = 4\n"
    );
    let rtl = Rtl::of(&DesignConfig::from_toml(&text)?, "gemv_unit").map_err(|lines| lines.join("\n"))?;
    let tools = tools::find(ndp_sim::ffi::TARGET).map_err(|lines| lines.join("\n"))?;
    let unit = Cache::new(dir.path().to_owned()).unit(&rtl, Variant::Verilated, &tools);
    unit.generate(&tools).map_err(|lines| lines.join("\n"))?;
    let mut functions = 0;
    for entry in std::fs::read_dir(unit.sources())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "cpp") {
            let begins = |line: &&str| line.contains("void Vmodel") && line.ends_with('{');
            functions += std::fs::read_to_string(&path)?.lines().filter(begins).count();
        }
    }
    Ok(functions)
}

#[test]
#[ignore = "half a minute; run by `make exhaustive`"]
fn twice_the_tiles_have_no_more_functions() -> Result<(), Box<dyn Error>> {
    let (few, many) = (functions(16)?, functions(32)?);
    assert!(few > 10 && many < few + 16, "{few} functions for 16 tiles, {many} for 32");
    Ok(())
}
