//! Texts with attention in Verilated banks: are they those of the software, without and with slicing, and is an error found?
//!
//! Two channels in RTL, every clock compared with the device model; the host of `sim/pim` in front of them. More prompts and modes
//! run on the device model alone in `sim/pim/tests`. The same with the controller in RTL between host and channels.

use ndp_config::HbmConfig;
use ndp_cosim::ffi::OpenOptions;
use ndp_cosim::hbm::{Hosted, Lockstep};
use ndp_model::{GenerateOptions, Model, SoftwareBackend, generate_tokens};
use ndp_offloading::Hardware;
use ndp_pim::{PimError, Pins, Prompt, run_batch};
use std::error::Error;
use std::path::Path;

type Outcome = Result<(), Box<dyn Error>>;

fn prompts() -> Vec<Prompt> {
    let prompt = |(text, generate): (&str, usize)| Prompt {
        tokens: text.bytes().map(u32::from).collect(),
        generate,
        temperature_percent: 50,
        seed: 3,
    };
    [("Mr. D", 2), ("I", 1)].map(prompt).to_vec()
}

fn channels(rtl: &HbmConfig, model: &HbmConfig) -> Result<Vec<Lockstep>, Box<dyn Error>> {
    let open = |_| Ok(Lockstep::open(rtl.name(), model, &OpenOptions::default())?);
    (0..rtl.channels()).map(open).collect()
}

#[test]
fn texts_from_verilated_banks_are_those_of_the_software() -> Outcome {
    let sliced = HbmConfig::preset("librapim-small")?;
    for config in [sliced.clone(), sliced.unsliced()] {
        texts_agree(&config, channels(&config, &config)?)?;
    }
    Ok(())
}

/// The prompts' texts on these channels and, one by one, in software.
fn texts_agree<P: Pins>(config: &HbmConfig, channels: Vec<P>) -> Outcome {
    let model = Model::load(Path::new("golden/model"))?;
    let prompts = prompts();
    let hardware = Hardware { channels: config.channels(), ..Hardware::default() };
    let (outcome, machine) = run_batch(&model, config, &hardware, 2, &prompts, channels)?;
    for (prompt, text) in prompts.iter().zip(&outcome.texts) {
        let options = GenerateOptions {
            tokens: prompt.generate,
            temperature_percent: prompt.temperature_percent,
            seed: prompt.seed,
        };
        let alone = generate_tokens(&model, &mut SoftwareBackend::new(), &prompt.tokens, &options, |_| {})?;
        assert_eq!((&text.tokens, &text.logits_digests), (&alone.tokens, &alone.logits_digests));
    }
    assert!(outcome.outputs_checked > 0 && outcome.columns_checked > 0);
    assert_eq!(machine.channels().map(Pins::violations).sum::<u64>(), 0);
    Ok(())
}

#[test]
fn texts_by_the_controller_in_rtl_are_those_of_the_software() -> Outcome {
    let sliced = HbmConfig::preset("librapim-small")?;
    for config in [sliced.clone(), sliced.unsliced()] {
        let open = |_| Hosted::open(config.name(), &config, true);
        texts_agree(&config, (0..config.channels()).map(open).collect::<Result<_, _>>()?)?;
    }
    Ok(())
}

#[test]
fn a_channel_that_is_slower_than_its_controller_knows_is_found() -> Outcome {
    let config = HbmConfig::preset("librapim-small")?;
    for (time, rule) in [("t_rcd = 15", "tRCD"), ("t_wr = 17", "tWR"), ("t_mac = 17", "tMAC")] {
        let text = format!(
            "name = \"slower\"\n[device]\nchannels = 2\nrow_bits = 9\nsubarray_rows = 32\nweight_subarrays = 8\n[timing]\n{time}\n"
        );
        let slower = HbmConfig::from_toml(&text)?;
        let channels = (0..config.channels()).map(|_| Hosted::open(config.name(), &slower, false));
        match texts_agree(&config, channels.collect::<Result<Vec<_>, _>>()?) {
            Err(error) if error.to_string().contains(rule) => {}
            other => return Err(format!("{time}: {other:?}").into()),
        }
    }
    Ok(())
}

#[test]
fn the_command_line_chooses_the_controller() -> Outcome {
    let run = |arguments: &[&str]| {
        std::process::Command::new(env!("CARGO_BIN_EXE_cosim")).arg("pim").args(arguments).output()
    };
    let short =
        ["--mode", "dex", "--channel", "model", "--prompt", "I", "--prompt", "A", "--tokens", "1", "--json"];
    let mut clocks = Vec::new();
    for controller in ["software", "rtl"] {
        let output = run(&[&short[..], &["--controller", controller]].concat())?;
        let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        assert_eq!((output.status.code(), &report["controller"]), (Some(0), &controller.into()));
        assert_eq!(report["modes"][0]["protocol_violations"], 0);
        clocks.push(report["modes"][0]["clocks"].as_u64().ok_or("no clocks")?);
    }
    assert_ne!(clocks[0], clocks[1], "two schedulers that give every command in the same clock are one");
    let missing = run(&["--memory", "librapim-tiny", "--mode", "pipelined", "--controller", "rtl"])?;
    let message = String::from_utf8(missing.stderr)?;
    let words =
        "the controller of 'librapim-tiny-unsliced' was not built; `--controller software` needs none";
    assert!(missing.status.code() == Some(2) && message.contains(words), "{message}");
    Ok(())
}

#[test]
fn a_memory_of_another_kind_than_its_model_is_found() -> Outcome {
    let model = Model::load(Path::new("golden/model"))?;
    let config = HbmConfig::preset("librapim-small")?;
    let hardware = Hardware { channels: config.channels(), ..Hardware::default() };
    // The banks of one cannot be cut.
    let channels = channels(&config.clone().unsliced(), &config)?;
    match run_batch(&model, &config, &hardware, 2, &prompts(), channels) {
        Err(PimError::Channel(text)) if text.contains("status") => Ok(()),
        Err(error) => Err(format!("another error: {error}").into()),
        Ok(_) => Err("it was not found".into()),
    }
}
