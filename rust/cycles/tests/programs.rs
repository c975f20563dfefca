//! Whole programs on the model by itself: behaviour that needs no hardware to compare with.

use ndp_config::DesignConfig;
use ndp_cycles::{ClockRelation, CycleModel, ProgramCycles, run_program};
use std::error::Error;

type Outcome = Result<(), Box<dyn Error>>;

fn run(preset: &str, text: &str) -> Result<ProgramCycles, Box<dyn Error>> {
    let config = DesignConfig::preset(preset)?;
    let mut model = CycleModel::new(&config, ClockRelation::after_reset(&config));
    model.record();
    Ok(run_program(&mut model, &ndp_isa::parse(text)?.words(), |_| [0; 16], &[]))
}

#[test]
fn a_malformed_instruction_is_counted_and_the_next_one_starts() -> Outcome {
    // Source and destination overlap.
    let text = "dot src=0, dst=0, cols=8, count=1, address=0, heads=2\nappend src=0, cols=8, row=3, address=0\n\
                exp src=0, dst=0, cols=8\nsignal 1";
    let status = run("tiny", text)?.status;
    assert_eq!((status.started, status.malformed), (3, 1));
    Ok(())
}

#[test]
fn the_results_of_a_group_of_rows_follow_its_last_job() -> Outcome {
    // One row for each rank, which waits only for the way through columns, sender and writer.
    let text = "dot src=0, dst=8, cols=512, count=4, address=0, heads=8";
    let run = run("hermes", text)?;
    let times = run.instructions[0];
    let (started, ended) = (times.started.ok_or("not started")?, times.ended.ok_or("not ended")?);
    // The first head's result can be taken 37 cycles after the decision (docs/gemv-unit.md, "Heads"). Before each of
    // the other seven a word is blanked; the last one is written in the cycle after it was taken, and the next cycle is
    // idle.
    let decided = ended - (37 + 2 * 7 + 2);
    let phase = (decided - 9) % 11;
    assert_eq!((phase, run.counters[0]), (0, 44), "started {started}, ended {ended}");
    Ok(())
}

/// A core without a partner receives nothing: beats without room in the link are given up with the link, a `receive` as
/// well; malformed instructions are refused at once.
#[test]
fn a_transfer_without_a_partner_ends_with_the_fault_of_its_link() -> Outcome {
    let config = DesignConfig::preset("tiny")?;
    let fault_cycles = u64::from(config.link().fault_cycles());
    let times = |text: &str| -> Result<_, Box<dyn Error>> {
        let run = run("tiny", text)?;
        let first = run.instructions[0];
        Ok((first.ended, run.cycles, run.status.malformed))
    };
    let send = times("send address=0x10, count=99, ranks=0x3, node=1, slot=5\nbarrier")?;
    let receive = times("receive address=0x10, count=2, ranks=0x3, node=1, slot=5\nbarrier")?;
    for (ended, cycles, malformed) in [send, receive] {
        let ended = ended.ok_or("not ended")?;
        assert!((fault_cycles..fault_cycles + 50).contains(&ended), "{ended}");
        assert!(cycles < fault_cycles + 100 && malformed == 0);
    }
    let (_, cycles, malformed) = times("send address=0, count=0, ranks=1, node=1, slot=0\nbarrier")?;
    assert!(cycles < 100 && malformed == 1, "{cycles}");
    Ok(())
}
