//! `ndp bench link`: do its figures match the link, do they repeat, and does it report bad arguments?
//!
//! Rates without errors are compared with the configuration's limits; errors must lower the payload and cause flits to
//! be sent again.

use common::{Outcome, whole};
use ndp_config::DesignConfig;
use serde_json::Value;
use std::error::Error;
use std::process::{Command, Output};

fn ndp(arguments: &[&str]) -> Result<Output, Box<dyn Error>> {
    Ok(Command::new(env!("CARGO_BIN_EXE_ndp")).arg("link").args(arguments).output()?)
}

fn points(arguments: &[&str]) -> Result<Vec<Value>, Box<dyn Error>> {
    let output = ndp(&[arguments, &["--json"]].concat())?;
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout)?;
    Ok(report["points"].as_array().ok_or("no points")?.clone())
}

fn number(point: &Value, key: &str) -> Result<f64, Box<dyn Error>> {
    Ok(point[key].as_f64().ok_or(format!("no {key} in {point}"))?)
}

#[test]
fn the_rate_is_that_of_the_link_and_goes_down_with_errors() -> Outcome {
    let measured = |sizes| points(&["--ber", "0,1e-6,1e-5,1e-4", "--bytes", "1048576", "--message", sizes]);
    let found = measured("4096,64")?;
    assert_eq!(found.len(), 8);
    let ideal = DesignConfig::preset("hermes")?.link().payload_bytes_per_cycle();
    let best = number(&found[0], "bytes_per_cycle")?;
    // The rate includes the beginning and end of the run.
    assert!(best <= ideal && best >= 0.99 * ideal, "{best} of {ideal}");
    for size in found.chunks(4) {
        for pair in size.windows(2) {
            for (key, sign) in [("bytes_per_cycle", -1.0), ("flits_sent_again", 1.0), ("wrong_bits", 1.0)] {
                let [before, after] = [number(&pair[0], key)?, number(&pair[1], key)?];
                assert!((after - before) * sign > 0.0, "{key}: {before}, then {after}");
            }
        }
        assert_eq!(number(&size[0], "flits_sent_again")?, 0.0);
    }
    // A short message is a flit that is mostly empty, but sooner there.
    assert!(number(&found[4], "bytes_per_cycle")? < best / 4.0);
    assert!(number(&found[4], "latency_cycles")? < number(&found[0], "latency_cycles")?);
    if whole() {
        assert_eq!(measured("4096")?, found[..4], "the same seed gives the same figures");
    }
    Ok(())
}

#[test]
fn the_chart_has_a_line_for_each_size_and_is_whole_or_absent() -> Outcome {
    let folder = tempfile::tempdir()?;
    let chart = folder.path().join("rates.svg");
    let path = chart.to_str().ok_or("path")?;
    let short = ["--ber", "1e-6,1e-5", "--message", "64,512", "--bytes", "65536", "--chart", path];
    assert_eq!(ndp(&short)?.status.code(), Some(0));
    let drawn = std::fs::read_to_string(&chart)?;
    for words in ["messages of 64 bytes", "messages of 512 bytes", "bit error rate", "GB/s per direction"] {
        assert!(drawn.contains(words), "{words}");
    }
    let missing = folder.path().join("none").join("rates.svg");
    let output = ndp(&["--chart", missing.to_str().ok_or("path")?])?;
    assert!(output.status.code() == Some(3) && !missing.exists());
    Ok(())
}

#[test]
fn arguments_that_cannot_be_used_are_named() -> Outcome {
    for (arguments, words) in [
        (["--ber", "0.5"], "--ber is 0.5, must be 0 to 0.0005"),
        (["--ber", "NaN"], "--ber is NaN, must be 0 to 0.0005"),
        (["--message", "100"], "--message is 100, must be a multiple of 64"),
        (["--message", "0"], "0 is not in 64..=262144"),
        (["--bytes", "1"], "1 is not in 64..="),
        (["--config", "hermse"], "unknown preset 'hermse'"),
    ] {
        let output = ndp(&arguments)?;
        let message = String::from_utf8(output.stderr)?;
        assert!(output.status.code() == Some(2) && message.contains(words), "{arguments:?}: {message}");
    }
    Ok(())
}
