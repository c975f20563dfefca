//! `ndp model compile`: are all weights where the map says, and does `ndp run` execute the programs, bit for bit?

use crate::program::{json, refused};
use common::Outcome;
use ndp_config::DesignConfig;
use ndp_isa::layout::{DimmAddress, MatrixLayout};
use ndp_isa::machine::{Memory, SparseMemory, write_data};
use ndp_model::{Matrix, Model};
use serde_json::Value;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

fn programs(out: &Path, dimm: usize) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let entries = fs::read_dir(out.join(format!("dimm{dimm}")))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>()?;
    paths.sort();
    Ok(paths)
}

fn number(value: &Value) -> Result<usize, Box<dyn Error>> {
    Ok(value.as_u64().ok_or_else(|| format!("{value} is no number"))? as usize)
}

fn weights(model: &Model, layer: usize, matrix: &str, neuron: usize) -> Result<Vec<u16>, Box<dyn Error>> {
    let layer = &model.layers[layer];
    let column = |of: &Matrix| (0..of.rows()).map(|row| of.row(row)[neuron].to_bits()).collect();
    Ok(match matrix {
        "q" => column(&layer.q_proj.weight),
        "k" => column(&layer.k_proj.weight),
        "v" => column(&layer.v_proj.weight),
        "fc1" => layer.experts[0].fc1.weight.row(neuron).iter().map(|weight| weight.to_bits()).collect(),
        "fc2" => column(&layer.experts[0].fc2.weight),
        _ => return Err(format!("no matrix is called {matrix}").into()),
    })
}

#[test]
fn every_weight_is_where_the_map_says() -> Outcome {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("compiled");
    json(&format!("model compile --config tiny --dimms 3 --out {} --json", out.display()))?;
    let (config, model) = (DesignConfig::preset("tiny")?, Model::load(Path::new("golden/model"))?);
    let map: Value = serde_json::from_str(&fs::read_to_string(out.join("map.json"))?)?;
    let mut drams = Vec::new();
    for dimm in 0..number(&map["dimms"])? {
        let mut dram = SparseMemory::new();
        let image = ndp_isa::parse(&fs::read_to_string(&programs(&out, dimm)?[0])?)?;
        image.data.iter().try_for_each(|data| write_data(&config, data, &mut dram))?;
        drams.push(dram);
    }
    let mut found = 0;
    for block in map["blocks"].as_array().ok_or("blocks")? {
        for matrix in block["matrices"].as_array().ok_or("matrices")? {
            let [slots, columns, first, address] =
                [&block["slots"], &matrix["columns"], &matrix["first_column"], &matrix["address"]]
                    .map(number);
            let layout = MatrixLayout::new(&config, address? as u32, slots? as u32, columns? as u32)?;
            let (name, first) = (matrix["matrix"].as_str().ok_or("a name")?, first?);
            for (neuron, home) in block["neurons"].as_array().ok_or("neurons")?.iter().enumerate().step_by(7)
            {
                let (dimm, slot) = (number(&home[0])?, number(&home[1])? as u32);
                let expected = weights(&model, number(&block["layer"])?, name, neuron)?;
                for column in 0..layout.cols() {
                    let place = layout.locate(slot, column);
                    let burst = DimmAddress { rank: place.rank, burst: place.burst }.to_burst(&config);
                    let bits = drams[dimm].read_burst(burst)[place.element as usize / 4]
                        >> (16 * (place.element % 4));
                    assert_eq!(
                        bits as u16,
                        expected[first + column as usize],
                        "{name} of neuron {neuron}, column {column}"
                    );
                    found += 1;
                }
            }
        }
    }
    assert!(found > 100_000, "{found}");
    Ok(())
}

#[test]
fn the_programs_of_a_dimm_run_in_rtl() -> Outcome {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("compiled");
    let report =
        json(&format!("model compile --config tiny --dimms 2 --merge fp16 --out {} --json", out.display()))?;
    let paths = programs(&out, 1)?;
    assert_eq!(report["dimms"][1]["programs"], paths.len() - 1);
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let run = json(&format!("run {} --config tiny --json", names.join(" ")))?;
    assert_eq!(
        (&run["mismatches"], &run["protocol_violations"], &run["unfenced_reads"]),
        (&0.into(), &0.into(), &0.into())
    );
    assert_eq!(run["differences"], Value::Array(Vec::new()));
    let each = run["programs"].as_array().ok_or("programs")?;
    let cycles = each.iter().map(|program| number(&program["cycles"])).sum::<Result<usize, _>>()?;
    assert_eq!((each.len(), cycles), (paths.len(), number(&run["cycles"])?));
    // In each of four layers Q, K, V, attention and the two halves of the MLP.
    assert!(each.len() > 4 * 6, "{}", each.len());
    Ok(())
}

#[test]
fn what_is_in_the_directory_stays() -> Outcome {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("mine"), "mine")?;
    let line = format!("model compile --config tiny --out {}", folder.path().display());
    refused(&line, "is not empty; --out needs a new or an empty directory")?;
    assert_eq!(fs::read_dir(folder.path())?.count(), 1);
    refused(&format!("{line}/new --text "), "a value is required")?;
    assert_eq!(fs::read_dir(folder.path())?.count(), 1);
    Ok(())
}
