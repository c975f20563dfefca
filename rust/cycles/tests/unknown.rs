//! Does the model say so when it is asked for what it does not know?

use ndp_config::DesignConfig;
use ndp_cycles::{ClockRelation, CycleModel, CyclesError, run_program};
use std::error::Error;

type Outcome = Result<(), Box<dyn Error>>;

fn run(text: &str) -> Result<Result<u32, CyclesError>, Box<dyn Error>> {
    let config = DesignConfig::preset("tiny")?;
    let mut model = CycleModel::new(&config, ClockRelation::default());
    let words = ndp_isa::parse(text)?.words();
    let run = run_program(&mut model, &words, |_| [0; 16]);
    Ok(run.map(|run| run.status.started))
}

#[test]
fn a_product_with_heads_is_refused_by_name() -> Outcome {
    let error = run("nop\ndot src=0, dst=8, cols=8, count=1, address=0, heads=2")?.err().ok_or("it ran")?;
    let expected = "the cycle model does not know products with several heads: \
                    `dot src=0, dst=8, cols=8, count=1, address=0x0, heads=2`";
    assert_eq!(error.to_string(), expected);
    Ok(())
}

#[test]
fn a_malformed_one_is_the_cores_business() -> Outcome {
    // Source and destination overlap.
    let text = "dot src=0, dst=0, cols=8, count=1, address=0, heads=2\nappend src=0, cols=8, row=3, address=0\n\
                exp src=0, dst=0, cols=8\nsignal 1";
    assert_eq!(run(text)?, Ok(3));
    Ok(())
}
