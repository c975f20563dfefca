//! Do simulation models check the properties of a design? They have to in each form of model, at the edge of the
//! violation, and in arrays.
//!
//! `hdl/language/tests/properties.rs` tests the language's output and refusals.

use common::Outcome;
use common::rtl::{Mutation, mutant};
use common::selftest::{SelfTest, open_with};
use ndp_hdl_language::lit;
use ndp_sim::ffi::{Form, Model, OpenOptions, WaveOptions};
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Cycles after reset until the model panics, at most 40, and its message, if the counters of `step` count.
fn first_failure(options: &OpenOptions, step: u64) -> Result<Option<(u64, String)>, Box<dyn Error>> {
    let mut model = open_with("limits", options)?;
    let pin = model.input("step_i")?;
    model.set(pin, step);
    model.reset(2);
    for cycle in 1..=40 {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| model.tick())) {
            let said = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            return Ok(Some((cycle, said)));
        }
    }
    Ok(None)
}

fn forms() -> Result<Vec<OpenOptions>, Box<dyn Error>> {
    let of = |form| OpenOptions { form, ..OpenOptions::default() };
    let folder = tempfile::tempdir()?.keep();
    let waves = Some(WaveOptions::new(folder.join("waves.fst")));
    Ok(vec![of(Form::Native), of(Form::Verilated), of(Form::Both), OpenOptions { waves, ..of(Form::Native) }])
}

#[test]
fn a_failure_is_a_panic_that_names_instance_property_and_cycle() -> Outcome {
    for options in forms()? {
        // Counter 6 reaches its limit of 8 after 8 cycles; the next edge sees it.
        let (cycle, said) = first_failure(&options, 1 << 6)?.ok_or("no failure")?;
        let expected = "selftest/limits: in cycle 10 (0 of the DRAM) this does not hold: \
                        counter6.below: the count is below the limit";
        assert_eq!((cycle, said.as_str()), (9, expected), "{options:?}");
        // In the second vector of the array.
        let (cycle, said) = first_failure(&options, 1 << 17)?.ok_or("no failure")?;
        assert_eq!(cycle, 20);
        assert!(said.ends_with("counter17.below: the count is below the limit"), "{said}");
        // Assumptions that the environment has to keep.
        let (cycle, said) = first_failure(&options, 0)?.ok_or("no failure")?;
        assert_eq!(cycle, 1);
        assert!(said.ends_with("this does not hold: some: some counter counts"), "{said}");
    }
    Ok(())
}

#[test]
fn nothing_is_checked_during_reset_and_failures_can_be_counted() -> Outcome {
    for options in forms()? {
        let mut model = open_with("limits", &OpenOptions { count_failures: true, ..options })?;
        let pin = model.input("step_i")?;
        model.set(pin, 0);
        model.reset(5);
        assert_eq!((model.property_failures(), model.failed_property()), (0, None));
        model.tick();
        assert_eq!(model.property_failures(), 1);
        model.set(pin, 0b11);
        // Counter 0 fails at each edge after two cycles, counter 1 starting at the fourth.
        let mut counts = Vec::new();
        for _ in 0..6 {
            model.tick();
            counts.push(model.property_failures());
        }
        assert_eq!(counts, [1, 1, 2, 4, 6, 8]);
        assert_eq!(model.failed_property().as_deref(), Some("some: some counter counts"));
    }
    Ok(())
}

#[test]
fn of_a_mutant_failures_are_counted() -> Outcome {
    let mutations = [Mutation::new("mutant-counts-twice", "count_q + 8'h1", |s| s.with(1, lit(2, 8)))];
    let mutant = mutant(&SelfTest, "limits", &mutations, "mutant-counts-twice");
    let mut model = Model::open(&mutant, &OpenOptions::default())?;
    let pin = model.input("step_i")?;
    model.set(pin, 1 << 6);
    model.reset(2);
    model.ticks(4);
    assert_eq!(model.property_failures(), 0);
    model.tick();
    assert_eq!(model.failed_property().as_deref(), Some("counter6.below: the count is below the limit"));
    Ok(())
}
