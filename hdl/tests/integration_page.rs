//! `docs/integration.md`: it names exactly the ports of the packages.

use ndp_config::{DesignConfig, HbmConfig};
use ndp_hdl::designs::{HBM_BLOCKS, build, build_hbm, packages};
use ndp_testkit::first;
use std::collections::BTreeMap;

const PAGE: &str = include_str!("../../docs/integration.md");

fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The ports of the page's table by block, as they are written.
fn documented() -> BTreeMap<&'static str, Vec<&'static str>> {
    let section = PAGE.split("\n## Ports\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut ports: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').collect();
        for block in code(cells[1]) {
            ports.entry(block).or_default().extend(code(cells[2]));
        }
    }
    ports
}

/// Whether `written` matches a port: `<n>` and `<p>` are a digit, `*` is any end.
fn means(written: &str, port: &str) -> bool {
    let of = |digit: char| written.replace("<n>", &digit.to_string()).replace("<p>", &digit.to_string());
    match written.strip_suffix('*') {
        Some(begin) => port.starts_with(begin),
        None => ('0'..='9').any(|digit| of(digit) == port),
    }
}

/// The ports of each package, and of the core with AXI, by preset and block. Presets differ in the widths of AXI only,
/// so two stand for all.
fn ports() -> Vec<(&'static str, &'static str, Vec<String>)> {
    let behind_axi = first(2, &DesignConfig::PRESETS).iter().map(|preset| (*preset, "ndp_core_axi"));
    let all = packages().unwrap().into_iter().chain(behind_axi);
    let ports = all.map(|(preset, block)| {
        let design = if HBM_BLOCKS.contains(&block) {
            build_hbm(&HbmConfig::preset(preset).unwrap(), block)
        } else {
            build(&DesignConfig::preset(preset).unwrap(), block)
        };
        let ports = design.unwrap().top().ports().iter().map(|port| port.name.clone()).collect();
        (preset, block, ports)
    });
    ports.collect()
}

#[test]
fn its_ports_are_those_of_the_packages() {
    let (documented, all) = (documented(), ports());
    let mut wrong = Vec::new();
    for (preset, block, ports) in &all {
        let named = documented.get(block).unwrap_or_else(|| panic!("the page lacks {block}"));
        let missing = ports.iter().filter(|port| !named.iter().any(|written| means(written, port)));
        wrong.extend(missing.map(|port| format!("{preset}/{block} has {port}, which the page lacks")));
    }
    for (block, named) in &documented {
        let of_block = || all.iter().filter(|(_, of, _)| of == block).flat_map(|(_, _, ports)| ports);
        let absent = named.iter().filter(|written| !of_block().any(|port| means(written, port)));
        wrong.extend(absent.map(|written| format!("the page names {written}, which {block} lacks")));
    }
    // Ports named elsewhere on the page.
    let is_port = |name: &&str| name.ends_with("_i") || name.ends_with("_o") || name.ends_with("_ni");
    let has = |written: &str| all.iter().any(|(_, _, ports)| ports.iter().any(|port| means(written, port)));
    let unknown = PAGE.lines().flat_map(code).filter(is_port).filter(|written| !has(written));
    wrong.extend(unknown.map(|written| format!("the page names {written}, which no package has")));
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(all.iter().map(|(_, _, ports)| ports.len()).sum::<usize>() > 500);
}
