//! Several products in one program: their order, how they share the buffer, and that every plan is legal.

use ndp_config::DesignConfig;
use ndp_isa::layout::DimmMap;
use ndp_isa::planner::{Member, Mode, Series, Sizes};
use ndp_isa::{Instruction, decode};
use ndp_testkit::Draw;

fn members(map: &mut DimmMap, sizes: &[(Mode, Sizes)]) -> Vec<Member> {
    let member = |(index, (mode, sizes)): (usize, &(Mode, Sizes))| {
        let layout = map.add_matrix(&format!("w{index}"), sizes.rows, sizes.cols).unwrap();
        Member { mode: *mode, matrices: vec![(0, layout)], sizes: *sizes }
    };
    sizes.iter().enumerate().map(member).collect()
}

fn name(instruction: &Instruction) -> &'static str {
    match instruction {
        Instruction::List { .. } => "list",
        Instruction::Load { .. } => "load",
        Instruction::Zero { .. } => "zero",
        Instruction::Dot(_) => "dot",
        Instruction::Axpy(_) => "axpy",
        Instruction::Round { .. } => "round",
        Instruction::Store { .. } => "store",
        _ => "other",
    }
}

#[test]
fn operands_come_before_and_results_leave_behind_the_next_product() {
    let config = DesignConfig::preset("hermes").unwrap();
    let mut map = DimmMap::new(&config);
    let sizes = Sizes { rows: 100, cols: 5120, count: 50, batch: 1, listed: true };
    let members = members(&mut map, &[(Mode::Dot, sizes), (Mode::Dot, sizes), (Mode::Axpy, sizes)]);
    let series = Series::new(&config, &mut map, &members).unwrap();
    let names: Vec<_> = series.instructions.iter().map(name).collect();
    let expected = "list load dot list load dot store list load zero axpy store round store";
    assert_eq!(names.join(" "), expected);
    let written = |at: usize| series.instructions[at].destination(&config).unwrap();
    let half = config.gemv().slice_words() / 2;
    assert!([1, 2, 8, 9, 10].iter().all(|at| written(*at).end <= half));
    assert!([4, 5].iter().all(|at| written(*at).start >= half));
}

#[test]
fn a_product_that_needs_the_whole_buffer_waits_for_the_others() {
    let config = DesignConfig::preset("hermes").unwrap();
    let mut map = DimmMap::new(&config);
    let small = Sizes { rows: 100, cols: 512, count: 50, batch: 1, listed: true };
    let large = Sizes { batch: 16, cols: 5120, ..small };
    let members = members(&mut map, &[(Mode::Dot, small), (Mode::Dot, large), (Mode::Dot, small)]);
    let series = Series::new(&config, &mut map, &members).unwrap();
    let names: Vec<_> = series.instructions.iter().map(name).collect();
    assert!(names.join(" ").starts_with("list load dot store load list dot store"), "{names:?}");
    assert!(names.ends_with(&["list", "load", "dot", "store"]), "{names:?}");
}

#[test]
fn whatever_is_planned_is_legal() {
    let mut draw = Draw::of(5);
    let config = DesignConfig::preset("tiny").unwrap();
    for _ in 0..300 {
        let mut sizes = Vec::new();
        for _ in 0..1 + draw.below(6) {
            let mode = if draw.below(2) == 0 { Mode::Dot } else { Mode::Axpy };
            let (rows, cols) =
                (1 + draw.below(3000), 1 + draw.below(if mode == Mode::Dot { 2000 } else { 300 }));
            let listed = draw.below(2) == 0;
            let count = if listed { 1 + draw.below(rows) } else { rows };
            let batch = 1 + draw.below(config.gemv().max_batch());
            sizes.push((mode, Sizes { rows, cols, count, batch, listed }));
        }
        let mut map = DimmMap::new(&config);
        let members = members(&mut map, &sizes);
        let series = Series::new(&config, &mut map, &members);
        let series = series.unwrap_or_else(|e| panic!("{sizes:?}: {e}"));
        assert_eq!(series.plans.len(), sizes.len());
        for instruction in &series.instructions {
            let decoded = decode(instruction.encode(), &config);
            assert_eq!(decoded.as_ref(), Ok(instruction), "{sizes:?}");
        }
        // Every result is stored once.
        let stored: usize = series.plans.iter().map(|plan| plan.outputs.len()).sum();
        let stores = series.instructions.iter().filter(|instruction| name(instruction) == "store").count();
        assert_eq!(stored, stores);
    }
}
