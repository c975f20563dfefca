//! FC1 and FC2 of a core's neurons: where results stay, and the program that takes those that meet a condition, or all.

use ndp_config::DesignConfig;
use ndp_isa::layout::DimmMap;
use ndp_isa::planner::{Epilogue, KeptOutputs, Plan, Prediction, Sizes};
use ndp_isa::{Activation, Condition, Instruction, block_words, decode};
use ndp_numerics::f16;
use ndp_testkit::{Draw, Extent, RandomConfig};
use std::ops::Range;

fn plan(
    config: &DesignConfig,
    (inputs, count, batch): (u32, u32, u32),
    cols: u32,
    (is_gate, taken): (bool, Option<Condition>),
) -> bool {
    let Some(kept) = KeptOutputs::new(config, (inputs, count, batch), cols, (is_gate, taken)) else {
        return false;
    };
    assert_eq!(kept.count(), count);
    let mut map = DimmMap::new(config);
    let rows = 2 * count;
    let mut matrix = |name, cols| map.add_matrix(name, rows, cols);
    let (Ok(fc1), Ok(up), Ok(fc2)) = (matrix("fc1", inputs), matrix("up", inputs), matrix("fc2", cols))
    else {
        return false;
    };
    let sizes = Sizes { rows, cols: inputs, count, batch, listed: true };
    let bias = [f16::ZERO];
    let epilogue = Epilogue { bias: Some(&bias), activation: Some(Activation::Relu), ..Epilogue::default() };
    let plan = Plan::dot(config, &mut map, &fc1, &sizes, &epilogue, Some(&kept)).unwrap();
    let second = kept.axpy(config, (&fc2, is_gate.then_some(&up)), Some(&plan.lists)).unwrap();
    let of_store = |instruction: &Instruction| match instruction {
        Instruction::Store { src, cols, .. } => Some(*src..*src + block_words(config, *cols, batch)),
        _ => None,
    };
    let results: Vec<Range<u32>> = plan.instructions.iter().filter_map(of_store).collect();
    let of_taken = |instruction: &Instruction| match instruction {
        Instruction::Select { src, .. } => Some(*src),
        Instruction::Axpy(product) if taken.is_none() => Some(product.src),
        _ => None,
    };
    let selected: Vec<u32> = second.iter().filter_map(of_taken).collect();
    assert_eq!(kept.selections().count(), if taken.is_none() { 0 } else { results.len() });
    assert_eq!(results.iter().map(|words| words.start).collect::<Vec<_>>(), selected);
    assert!(results.windows(2).all(|pair| pair[0].end <= pair[1].start), "{results:?}");
    // A gate needs the vectors once more: nothing is written there after their load.
    let vectors = plan.instructions[0].destination(config).unwrap();
    let later = plan.instructions[1..].iter().chain(&second);
    for words in later.filter(|_| is_gate).filter_map(|instruction| instruction.destination(config)) {
        assert!(words.end <= vectors.start || vectors.end <= words.start, "{words:?} in {vectors:?}");
    }
    for instruction in plan.instructions.iter().chain(&second) {
        assert_eq!(decode(instruction.encode(), config).as_ref(), Ok(instruction));
        // Nothing else is written there: vectors, biases, other results, and later sums and values.
        let written = instruction.destination(config).unwrap_or(0..0);
        let own = |words: &&Range<u32>| {
            matches!(instruction, Instruction::Dot(_) | Instruction::Activate { .. }) && **words == written
        };
        let clear = |words: &Range<u32>| written.start.max(words.start) >= written.end.min(words.end);
        let others = results.iter().filter(|words| !own(words));
        assert!(others.clone().all(clear), "{instruction} writes into {results:?}");
        if let Instruction::Dot(product) | Instruction::Axpy(product) = instruction {
            let selects = taken.is_some() && matches!(instruction, Instruction::Axpy(_));
            let up = is_gate && taken.is_some();
            assert!(product.list.is_some() && (up || product.selected == selects), "{instruction}");
        }
    }
    true
}

#[test]
fn results_stay_until_they_are_selected() {
    for (config, sizes, cols) in [
        ("tiny", (192, 768, 1), 192),
        ("hermes", (4096, 16512, 1), 4096),
        ("hermes", (4096, 2064, 3), 4096),
        // A second, shorter list with more words: three stripes over four ranks.
        ("hermes", (8192, 2048 + 1352, 1), 8192),
    ] {
        let config = DesignConfig::preset(config).unwrap();
        for taken in [Some(Condition::POSITIVE), None] {
            assert!(plan(&config, sizes, cols, (false, taken)), "{} {sizes:?}", config.name());
            assert_eq!(
                plan(&config, sizes, cols, (true, taken)),
                sizes.2 == 1,
                "{} {sizes:?}",
                config.name()
            );
        }
    }
    let (mut kept, mut all) = (0, 0);
    for seed in 0..300 {
        let RandomConfig { config, .. } = RandomConfig::of(seed, Extent::All);
        let mut draw = Draw::of(seed);
        for _ in 0..10 {
            let gemv = config.gemv();
            let [inputs, cols] = [(); 2].map(|()| 1 + draw.below(gemv.max_cols().min(4096)));
            let (count, batch) = (1 + draw.below(5000), 1 + draw.below(gemv.max_batch()));
            let is_gate = draw.below(2) == 0;
            let [positive, every] = [Some(Condition::POSITIVE), None]
                .map(|taken| plan(&config, (inputs, count, batch), cols, (is_gate, taken)));
            assert!(every || !positive, "without selected values less room is needed");
            kept += u32::from(positive);
            all += 1;
        }
    }
    assert!(kept > all / 20 && kept < all, "{kept} of {all}");
}

#[test]
fn what_has_no_room_is_not_kept() {
    let config = DesignConfig::preset("hermes").unwrap();
    // The sums of 16 vectors of 4096 columns are 1 MiB.
    for taken in [Some(Condition::POSITIVE), None] {
        assert!(!plan(&config, (4096, 2064, 16), 4096, (false, taken)));
        assert!(!plan(&config, (4096, 64, 17), 64, (false, taken)), "more vectors than an instruction takes");
    }
    let kept = KeptOutputs::new(&config, (64, 32, 1), 64, (false, Some(Condition::POSITIVE))).unwrap();
    let mut map = DimmMap::new(&config);
    let [wide, own] = [128, 64].map(|cols| map.add_matrix(&format!("fc2 {cols}"), 64, cols).unwrap());
    let error = kept.axpy(&config, (&wide, None), Some(&[(0, 32, 0)])).unwrap_err().to_string();
    assert!(error.contains("columns of the matrix = 128 must be 64"), "{error}");
    let error = kept.axpy(&config, (&own, None), Some(&[])).unwrap_err().to_string();
    assert!(error.contains("lists of the results = 0 must be 1"), "{error}");
    let error = kept.axpy(&config, (&own, Some(&own)), Some(&[(0, 32, 0)])).unwrap_err().to_string();
    assert!(error.contains("matrices besides the gate's = 1 must be 0"), "{error}");
}

/// First words of loads and results of a DOT of rows that the core predicts.
fn predicted(
    config: &DesignConfig,
    (inputs, count, rank): (u32, u32, u32),
    is_gate: bool,
) -> ndp_files::Result<Vec<Instruction>> {
    let kept =
        KeptOutputs::new(config, (inputs, count, 1), inputs, (is_gate, Some(Condition::POSITIVE))).unwrap();
    let mut map = DimmMap::new(config);
    let mut matrix = |name, rows, cols| map.add_matrix(name, rows, cols).unwrap();
    let [fc1, input, rows, bias] = [
        matrix("fc1", count, inputs),
        matrix("a", rank, inputs),
        matrix("b", count, rank),
        matrix("fc1 bias", count, 1),
    ];
    let sizes = Sizes { rows: count, cols: inputs, count, batch: 1, listed: true };
    let prediction = Prediction { input: &input, rows: &rows, bias: Some(&bias) };
    let (plan, one) = Plan::predicted(config, &mut map, &fc1, &sizes, &kept, &prediction)?;
    assert!(one.is_some() && plan.biases.len() == 1 && plan.lists.len() == 1);
    let second = kept.axpy(config, (&fc1, is_gate.then_some(&fc1)), None).unwrap();
    assert!(!second.iter().any(|instruction| matches!(instruction, Instruction::List { .. })));
    Ok(plan.instructions.into_iter().chain(second).collect())
}

#[test]
fn a_core_predicts_beside_what_it_keeps() {
    for (config, sizes) in
        [("tiny", (192, 768, 32)), ("tiny", (256, 600, 128)), ("hermes", (4096, 2048, 128))]
    {
        let config = DesignConfig::preset(config).unwrap();
        for is_gate in [false, true] {
            let program = predicted(&config, sizes, is_gate).unwrap();
            for instruction in &program {
                assert_eq!(decode(instruction.encode(), &config).as_ref(), Ok(instruction));
            }
            // Everything read was written whole before, in the same place.
            let mut written: Vec<Range<u32>> = Vec::new();
            let shape = |first, cols| first..first + block_words(&config, cols, 1);
            for instruction in &program {
                let read = match *instruction {
                    Instruction::Dot(product) => shape(product.src, product.cols),
                    Instruction::Select { src, cols, .. } | Instruction::Store { src, cols, .. } => {
                        shape(src, cols)
                    }
                    _ => 0..0,
                };
                assert!(read.is_empty() || written.contains(&read), "{instruction}: {written:?}");
                let Some(words) = instruction.destination(&config) else { continue };
                written.retain(|old| old.end <= words.start || words.end <= old.start);
                written.push(words);
            }
        }
    }
}

#[test]
fn a_prediction_without_room_is_refused() {
    let config = DesignConfig::preset("tiny").unwrap();
    for (sizes, what) in [((64, 64 * 33, 16), "chunks"), ((256, 64, 8000), "last word of a prediction")] {
        let error = predicted(&config, sizes, false).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}
