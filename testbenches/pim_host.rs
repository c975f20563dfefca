//! Texts with attention in Verilated banks: are they those of the software, without and with slicing, and is an error found?
//!
//! Two channels in RTL, every clock compared with the device model; the host of `sim/pim` in front of them. More prompts and modes
//! run on the device model alone in `sim/pim/tests`.

use ndp_config::HbmConfig;
use ndp_cosim::ffi::OpenOptions;
use ndp_cosim::hbm::Lockstep;
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
    let model = Model::load(Path::new("golden/model"))?;
    let prompts = prompts();
    let sliced = HbmConfig::preset("librapim-small")?;
    for config in [sliced.clone(), sliced.unsliced()] {
        let hardware = Hardware { channels: config.channels(), ..Hardware::default() };
        let channels = channels(&config, &config)?;
        let (outcome, machine) = run_batch(&model, &config, &hardware, 2, &prompts, channels)?;
        for (prompt, text) in prompts.iter().zip(&outcome.texts) {
            let options = GenerateOptions {
                tokens: prompt.generate,
                temperature_percent: prompt.temperature_percent,
                seed: prompt.seed,
            };
            let alone =
                generate_tokens(&model, &mut SoftwareBackend::new(), &prompt.tokens, &options, |_| {})?;
            assert_eq!((&text.tokens, &text.logits_digests), (&alone.tokens, &alone.logits_digests));
        }
        assert!(outcome.outputs_checked > 0 && outcome.columns_checked > 0);
        assert_eq!(machine.channels().map(Pins::violations).sum::<u64>(), 0);
    }
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
