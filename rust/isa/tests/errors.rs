//! Is each error code found, at its limit and not before, and in the order of the document?

use crate::common::Random;
use ndp_config::{DesignConfig, RowLayout, WeightFormat};
use ndp_isa::{Activation, Condition, ErrorCode, Instruction, Malformed, Numbers, Product, Transfer, decode};
use std::collections::BTreeMap;

/// The document's table, flat and on raw bits: first error code, 0 for none.
fn expected(word: u128, config: &DesignConfig) -> u8 {
    let bits = |high: u32, low: u32| (word >> low & ((1 << (high - low + 1)) - 1)) as u64;
    let (opcode, listed, batch, cols) = (bits(7, 0), bits(8, 8) == 1, bits(12, 9) + 1, bits(30, 13));
    let (address, count, src, dst, list, heads) =
        (bits(60, 32), bits(87, 64), bits(97, 88), bits(107, 98), bits(119, 108), bits(122, 120));
    let two = matches!(opcode, 0x34..=0x37 | 0x3A);
    let all_zero = |ranges: &[(u32, u32)]| ranges.iter().all(|&(high, low)| bits(high, low) == 0);
    let reserved_clear = match opcode {
        0x00 | 0x01 => word >> 8 == 0,
        0x02 => all_zero(&[(31, 8), (127, 64)]),
        0x10 => all_zero(&[(8, 8), (31, 31), (63, 61), (87, 64), (97, 88), (119, 108), (127, 120)]),
        0x11 => all_zero(&[(8, 8), (31, 31), (63, 61), (87, 64), (107, 98), (119, 108), (127, 120)]),
        0x12 => all_zero(&[(31, 8), (63, 61), (107, 88), (127, 120)]),
        0x13 => all_zero(&[(8, 8), (31, 31), (63, 61), (127, 98)]),
        0x14 => all_zero(&[(31, 8), (63, 61), (127, 98)]),
        0x20 => all_zero(&[(63, 8), (97, 88), (127, 108)]),
        0x21 | 0x22 => {
            let formats = if config.gemv().weight_formats().len() > 1 { 0..=2 } else { 0..=0 };
            all_zero(&[(63, 61), (127, 126)])
                && formats.contains(&bits(124, 123))
                && (bits(125, 125) == 0 || !listed && bits(124, 123) > 0)
                && !(listed && heads > 0)
                && (listed || bits(31, 31) == 0)
        }
        0x26 => all_zero(&[(31, 31), (63, 48), (127, 120)]) && !(listed && bits(87, 76) > 0),
        0x23 => all_zero(&[(8, 8), (31, 31), (87, 32), (127, 108)]),
        0x24 => all_zero(&[(8, 8), (31, 31), (63, 61), (97, 64), (127, 108)]),
        0x25 => all_zero(&[(31, 8), (63, 61), (97, 88), (127, 108)]),
        0x30..=0x32 | 0x38 | 0x39 => all_zero(&[(8, 8), (31, 31), (87, 32), (119, 108), (127, 123)]),
        0x33 => all_zero(&[(8, 8), (31, 31), (63, 32), (87, 80), (119, 108), (127, 123)]),
        _ if two => all_zero(&[(8, 8), (31, 31), (87, 32), (119, 118), (127, 123)]),
        0x40 | 0x41 => all_zero(&[(8, 8), (31, 21), (63, 61), (127, 104)]),
        _ => return 1,
    };
    if !reserved_clear {
        return 2;
    }
    let gemv = config.gemv();
    if opcode >= 0x40 {
        let (ranks, end) = (bits(20, 13), address + count);
        return match () {
            () if !config.core().link() => 9,
            () if count == 0 || ranks == 0 || ranks >> gemv.ranks() != 0 => 3,
            () if end > config.dram().bursts() => 6,
            () => 0,
        };
    }
    let (max_cols, max_batch, words) =
        (u64::from(gemv.max_cols()), u64::from(gemv.max_batch()), u64::from(gemv.slice_words()));
    let entries = u64::from(config.core().list_entries());
    let (has_cols, has_batch) =
        (matches!(opcode, 0x10 | 0x11 | 0x13 | 0x21..=0x24 | 0x26 | 0x30..=0x3F), opcode >= 0x10);
    let (product, activation) = (matches!(opcode, 0x21 | 0x22), opcode >= 0x30);
    let max_cols_now = match opcode {
        0x13 => max_cols.min(gemv.stripe_elems().into()),
        0x26 => max_cols.min(entries),
        0x32 => max_cols.min(16384),
        _ => max_cols,
    };
    let bad_cols = has_cols && (cols == 0 || cols > max_cols_now);
    let bad_batch = has_batch && has_cols && batch > max_batch;
    let bad_count = match opcode {
        0x12 => count == 0 || count > entries,
        0x14 | 0x20 | 0x25 => count == 0 || count > words,
        _ => product && (count == 0 || count > max_cols || (listed && count > entries)),
    };
    let most = gemv.units_per_rank().min(8);
    let bad_heads = (product || activation)
        && heads > 0
        && (1 << heads > most
            || batch << heads > 2 * max_batch
            || product && cols > gemv.stripe_elems().into());
    if bad_cols || bad_batch || bad_count || bad_heads {
        return 3;
    }
    let rank_bursts = config.dram().bursts();
    let in_dimm = matches!(opcode, 0x10..=0x12);
    let in_rank = product || matches!(opcode, 0x13 | 0x14 | 0x24 | 0x25);
    if in_rank && address >= rank_bursts || in_dimm && address >= rank_bursts * u64::from(gemv.ranks()) {
        return 6;
    }
    let select = opcode == 0x26;
    if select && (list % 16 != 0 || list + cols > entries || listed && count + cols > entries) {
        return 5;
    }
    if opcode == 0x12 && list % 16 != 0 || (opcode == 0x12 || product && listed) && list + count > entries {
        return 5;
    }
    let block = |n: u64| u64::from(RowLayout::new(gemv, n as u32).words_per_vector()) * batch;
    let lanes = u64::from(gemv.lanes());
    let (src_words, dst_words) = match opcode {
        0x10 => (0, block(cols)),
        0x11 | 0x13 => (block(cols), 0),
        0x14 => (count, 0),
        0x20 | 0x25 => (0, count),
        0x24 => (0, block(cols) * lanes),
        0x21 => (block(cols), block(count) << heads),
        0x22 => (block(count) << heads, block(cols) * lanes),
        0x23 => (block(cols) * lanes, block(cols)),
        0x26 => (block(cols), block(cols)),
        0x30.. => (block(cols) << heads, block(cols) << heads),
        _ => (0, 0),
    };
    let other = list;
    if two && other + src_words > words {
        return 4;
    }
    if src_words > 0 && src + src_words > words || dst_words > 0 && dst + dst_words > words {
        return 4;
    }
    let apart = |first: u64| first == dst || first + src_words <= dst || dst + dst_words <= first;
    if activation && !(apart(src) && (!two || apart(other))) {
        return 7;
    }
    let overlap = src < dst + dst_words && dst < src + src_words;
    if (product || select) && overlap || opcode == 0x23 && src < dst && dst < src + src_words {
        return 7;
    }
    if select && listed && count < list && list < count + cols {
        return 7;
    }
    0
}

fn code(result: &Result<Instruction, Malformed>) -> u8 {
    result.as_ref().map_or_else(|error| error.code().number(), |_| 0)
}

/// A design whose limits are all within reach of the fields.
fn cramped() -> DesignConfig {
    let text = "name = \"cramped\"\n[gemv]\nmultipliers = 64\nranks = 4\nbuffer_kib = 32\nmax_batch = 8\n\
                weight_formats = \"fp16\"\n\
                [dram]\nrow_bits = 9\n[core]\nlist_entries = 256\nlink = false";
    DesignConfig::from_toml(text).unwrap()
}

#[test]
fn random_words_have_the_code_of_the_document() {
    for config in [DesignConfig::preset("tiny").unwrap(), DesignConfig::preset("hermes").unwrap(), cramped()]
    {
        let mut random = Random::new(3);
        let mut seen = BTreeMap::new();
        for round in 0..200_000 {
            let word =
                if round % 3 == 0 { random.word() } else { near_limits(&mut random, &config).encode() };
            let result = decode(word, &config);
            assert_eq!(code(&result), expected(word, &config), "{word:#034x}: {result:?}");
            *seen.entry(code(&result)).or_insert(0u32) += 1;
        }
        let codes: Vec<u8> = seen.keys().copied().collect();
        let all = [0, 1, 2, 3, 4, 5, 6, 7, 9];
        assert_eq!(codes, all[..8 + usize::from(!config.core().link())], "{seen:?}");
        assert!(seen.values().all(|n| *n > 100), "{}: {seen:?}", config.name());
    }
}

/// An instruction whose values are probably legal, or just not so.
fn near_limits(random: &mut Random, config: &DesignConfig) -> Instruction {
    let gemv = config.gemv();
    let near = |random: &mut Random, limit: u64, max: u64| match random.below(8) {
        0 => (limit.saturating_sub(1)).min(max) as u32,
        1 => limit.min(max) as u32,
        2 => (limit + 1).min(max) as u32,
        3 => 0,
        _ => random.below(limit.min(40)),
    };
    let (src, dst) = (near(random, gemv.slice_words().into(), 1023), near(random, 60, 1023));
    let (cols, batch) = (near(random, gemv.max_cols().into(), (1 << 18) - 1), 1 + random.below(3));
    let batch = if random.below(8) == 0 { (gemv.max_batch() + 1).min(16) } else { batch };
    let limit = [gemv.max_cols(), 256, 4096, 64][random.below(4) as usize];
    let count = near(random, limit.into(), (1 << 24) - 1);
    let list = [near(random, 256, 4095), 16 * random.below(256)][random.below(2) as usize];
    let bursts = config.dram().bursts() << [0, gemv.ranks().trailing_zeros()][random.below(2) as usize];
    let address = near(random, bursts, (1 << 29) - 1);
    let listed = (random.below(2) == 0).then_some(list);
    let heads = if listed.is_none() && random.below(2) == 0 { 1 << random.below(5) } else { 1 };
    let cols = if heads > 1 { near(random, gemv.stripe_elems().into(), (1 << 18) - 1) } else { cols };
    let selected = listed.is_some() && random.below(2) == 0;
    let weights = [WeightFormat::Fp16, WeightFormat::Fp16, WeightFormat::Int8, WeightFormat::Int4]
        [random.below(4) as usize];
    let shared = random.below(8) == 0;
    let product =
        Product { src, dst, cols, batch, count, address, list: listed, heads, selected, weights, shared };
    let of_lists = near(random, config.core().list_entries().into(), (1 << 18) - 1);
    let from = near(random, 60, 4095);
    let numbers = if random.below(2) == 0 { Numbers::Listed(from) } else { Numbers::From(count) };
    let condition = Condition { threshold: random.below(1 << 15) as u16, magnitude: random.below(2) == 1 };
    let other = near(random, gemv.slice_words().into(), 1023);
    let scalar = random.next() as u16;
    let operations: Vec<_> =
        Activation::all(&|of| if of == ndp_isa::fields::OTHER { other } else { scalar.into() }).collect();
    let operation = operations[random.below(operations.len() as u64) as usize];
    let any_heads = 1 << random.below(5);
    let bursts = config.dram().bursts();
    let ranks = random.below(2 << gemv.ranks());
    let near_end = (bursts - u64::from(count).min(bursts)) as u32 + random.below(3);
    let first = [address & ((1 << 27) - 1), near_end][random.below(2) as usize];
    let ranks = [ranks, (1 << gemv.ranks()) - 1][random.below(2) as usize];
    let transfer =
        Transfer { address: first, count, ranks, node: random.below(16), slot: random.below(1 << 16) };
    match random.below(16) {
        15 => Instruction::Select { src, dst, cols: of_lists, batch, list: list & !15, numbers, condition },
        13 => Instruction::Send(transfer),
        14 => Instruction::Receive(transfer),
        0 => Instruction::Load { dst, cols, batch, address },
        1 => Instruction::Store { src, cols, batch, address },
        2 => Instruction::List { list, count, address },
        3 => Instruction::Zero { dst, count },
        4 => Instruction::Dot(product),
        5 => Instruction::Axpy(product),
        6 => Instruction::Round { src, dst, cols, batch },
        7 => Instruction::Append { src, cols, batch, row: count, address },
        8 => Instruction::Export { src, count, address },
        9 => Instruction::Merge { dst, cols, batch, address },
        10 => Instruction::Import { dst, count, address },
        _ => Instruction::Activate { operation, src, dst, cols, batch, heads: any_heads },
    }
}

#[test]
fn each_limit_is_met_exactly() {
    let config = DesignConfig::preset("tiny").unwrap();
    let check = |instruction: Instruction| instruction.check(&config).map_err(|error| error.code().number());
    let load = |dst, cols, batch, address| check(Instruction::Load { dst, cols, batch, address });
    // Words of 128 elements, 64 of them; batch up to 4; 2^28 bursts in two ranks of 2^27.
    assert_eq!([load(0, 8192, 1, 0), load(0, 8193, 1, 0), load(0, 0, 1, 0)], [Ok(()), Err(3), Err(3)]);
    assert_eq!([load(0, 1, 4, 0), load(0, 1, 5, 0)], [Ok(()), Err(3)]);
    assert_eq!([load(60, 128, 4, 0), load(61, 128, 4, 0), load(60, 129, 4, 0)], [Ok(()), Err(4), Err(4)]);
    assert_eq!([load(0, 1, 1, (1 << 28) - 1), load(0, 1, 1, 1 << 28)], [Ok(()), Err(6)]);
    let zero = |dst, count| check(Instruction::Zero { dst, count });
    assert_eq!([zero(0, 64), zero(0, 65), zero(1, 64), zero(0, 0)], [Ok(()), Err(3), Err(4), Err(3)]);
    let list = |list, count| check(Instruction::List { list, count, address: 0 });
    assert_eq!([list(0, 4096), list(0, 4097), list(16, 4081), list(8, 1)], [Ok(()), Err(3), Err(5), Err(5)]);
    let dot = |src, dst, cols, count, list| {
        check(Instruction::Dot(Product {
            src,
            dst,
            cols,
            batch: 1,
            count,
            address: 0,
            list,
            heads: 1,
            selected: false,
            weights: WeightFormat::Fp16,
            shared: false,
        }))
    };
    assert_eq!([dot(0, 1, 128, 1, None), dot(0, 0, 128, 1, None)], [Ok(()), Err(7)]);
    assert_eq!([dot(1, 0, 128, 129, None), dot(2, 0, 128, 129, None)], [Err(7), Ok(())]);
    assert_eq!([dot(0, 32, 1, 4097, None), dot(0, 32, 1, 4097, Some(0))], [Err(4), Err(3)]);
    assert_eq!([dot(0, 1, 1, 100, Some(3996)), dot(0, 1, 1, 100, Some(3997))], [Ok(()), Err(5)]);
    let select = |src, cols, list, numbers| {
        let condition = Condition::POSITIVE;
        check(Instruction::Select { src, dst: 32, cols, batch: 1, list, numbers, condition })
    };
    let (row, listed) = (Numbers::From(0xFF_FFFF), Numbers::Listed);
    assert_eq!([select(0, 4096, 0, row), select(0, 4097, 0, row)], [Ok(()), Err(3)]);
    assert_eq!([select(0, 4080, 16, row), select(0, 4081, 16, row)], [Ok(()), Err(5)]);
    assert_eq!([select(0, 1, 8, row), select(0, 0, 0, row)], [Err(5), Err(3)]);
    assert_eq!([select(0, 96, 0, listed(4000)), select(0, 97, 0, listed(4000))], [Ok(()), Err(5)]);
    assert_eq!([select(0, 1, 0, listed(4096)), select(0, 0, 0, listed(4096))], [Err(2), Err(2)]);
    assert_eq!([select(31, 128, 0, row), select(31, 129, 0, row)], [Ok(()), Err(7)]);
    assert_eq!([select(32, 1, 0, row), select(64, 1, 0, row)], [Err(7), Err(4)]);
    // In place, downwards, after the entries read, and into them.
    assert_eq!([select(0, 40, 48, listed(48)), select(0, 40, 48, listed(60))], [Ok(()), Ok(())]);
    assert_eq!([select(0, 40, 48, listed(8)), select(0, 40, 48, listed(9))], [Ok(()), Err(7)]);
    let selected = |list, heads| {
        let product = Product {
            src: 0,
            dst: 1,
            cols: 1,
            batch: 1,
            count: 1,
            address: 0,
            list,
            heads,
            selected: true,
            weights: WeightFormat::Fp16,
            shared: false,
        };
        check(Instruction::Axpy(product))
    };
    assert_eq!([selected(Some(0), 1), selected(None, 1), selected(Some(0), 2)], [Ok(()), Err(2), Err(2)]);
    let round = |src, dst| check(Instruction::Round { src, dst, cols: 128, batch: 2 });
    assert_eq!([round(10, 10), round(10, 9), round(10, 11), round(10, 25), round(10, 26)], {
        [Ok(()), Ok(()), Err(7), Err(7), Ok(())]
    });
    let address = 1 << 27;
    let product = Product {
        src: 0,
        dst: 20,
        cols: 1,
        batch: 1,
        count: 1,
        address,
        list: None,
        heads: 1,
        selected: false,
        weights: WeightFormat::Fp16,
        shared: false,
    };
    assert_eq!(check(Instruction::Axpy(product)), Err(6));
    assert_eq!(check(Instruction::Axpy(Product { address: address - 1, ..product })), Ok(()));
    let sums = |first, count, address| {
        let export = check(Instruction::Export { src: first, count, address });
        assert_eq!(check(Instruction::Import { dst: first, count, address }), export);
        export
    };
    assert_eq!([sums(0, 64, 0), sums(0, 65, 0), sums(0, 0, 0)], [Ok(()), Err(3), Err(3)]);
    assert_eq!([sums(63, 1, 0), sums(63, 2, 0), sums(64, 1, 0)], [Ok(()), Err(4), Err(4)]);
    assert_eq!([sums(0, 1, (1 << 27) - 1), sums(60, 5, 1 << 27)], [Ok(()), Err(6)]);
    // Ranges end with the rank, whose ranks there have to be.
    let moves = |address, count, ranks| {
        let transfer = Transfer { address, count, ranks, node: 15, slot: 0xFFFF };
        let send = check(Instruction::Send(transfer));
        assert_eq!(check(Instruction::Receive(transfer)), send);
        send
    };
    assert_eq!(
        [moves(0, 1, 1), moves(0, 1, 3), moves(0, 1, 4), moves(0, 1, 0)],
        [Ok(()), Ok(()), Err(3), Err(3)]
    );
    assert_eq!([moves(0, 0, 3), moves(1 << 27, 0, 3)], [Err(3), Err(3)]);
    assert_eq!(
        [moves((1 << 27) - 9, 9, 3), moves((1 << 27) - 9, 10, 3), moves(1 << 27, 1, 3)],
        [Ok(()), Err(6), Err(6)]
    );
    let without = cramped();
    let transfer = Transfer { address: 0, count: 0, ranks: 0, node: 0, slot: 0 };
    let error = Instruction::Send(transfer).check(&without).unwrap_err();
    assert_eq!((error.code().number(), error.to_string().as_str()), (9, "send: the core has no link"));
    let merge = |dst, cols, batch, address| check(Instruction::Merge { dst, cols, batch, address });
    assert_eq!([merge(32, 128, 4, 0), merge(33, 128, 4, 0), merge(32, 129, 4, 0)], [Ok(()), Err(4), Err(4)]);
    assert_eq!([merge(0, 0, 1, 0), merge(0, 8193, 1, 0), merge(0, 1, 5, 0)], [Err(3); 3]);
    assert_eq!([merge(0, 1, 1, (1 << 27) - 1), merge(64, 1, 1, 1 << 27)], [Ok(()), Err(6)]);
    // Eight units in a rank, 64 elements in a stripe, eight vectors of all heads.
    let heads = |heads, batch, cols| {
        let product = Product { heads, batch, cols, address: 0, ..product };
        assert_eq!(check(Instruction::Dot(product)), check(Instruction::Axpy(product)));
        check(Instruction::Dot(product))
    };
    assert_eq!([heads(8, 1, 64), heads(16, 1, 64), heads(8, 2, 64)], [Ok(()), Err(3), Err(3)]);
    assert_eq!([heads(2, 4, 64), heads(4, 3, 64), heads(2, 4, 65)], [Ok(()), Err(3), Err(3)]);
    assert_eq!([heads(1, 4, 128), heads(4, 2, 0)], [Ok(()), Err(3)]);
}

#[test]
fn each_limit_of_the_activation_unit_is_met_exactly() {
    let config = DesignConfig::preset("tiny").unwrap();
    let check = |operation, src, dst, cols, batch, heads| {
        Instruction::Activate { operation, src, dst, cols, batch, heads }
            .check(&config)
            .map_err(|error| error.code().number())
    };
    let relu = |src, dst, cols, batch, heads| check(Activation::Relu, src, dst, cols, batch, heads);
    // Words of 128 elements, 64 of them; batch up to 4, with heads eight vectors.
    assert_eq!(
        [relu(0, 0, 8192, 1, 1), relu(0, 0, 8193, 1, 1), relu(0, 0, 0, 1, 1)],
        [Ok(()), Err(3), Err(3)]
    );
    assert_eq!([relu(0, 0, 1, 4, 1), relu(0, 0, 1, 5, 1), relu(0, 0, 1, 4, 4)], [Ok(()), Err(3), Err(3)]);
    assert_eq!(
        [relu(0, 0, 1024, 1, 8), relu(0, 0, 1025, 1, 8), relu(0, 0, 1, 1, 16)],
        [Ok(()), Err(4), Err(3)]
    );
    assert_eq!(
        [relu(56, 0, 128, 1, 8), relu(57, 0, 128, 1, 8), relu(0, 57, 128, 1, 8)],
        [Ok(()), Err(4), Err(4)]
    );
    // In place or apart.
    assert_eq!([relu(4, 4, 256, 1, 1), relu(4, 6, 256, 1, 1), relu(4, 2, 256, 1, 1)], [Ok(()); 3]);
    assert_eq!([relu(4, 5, 256, 1, 1), relu(4, 3, 256, 1, 1)], [Err(7); 2]);
    let add = |src, other, dst| check(Activation::Add { other }, src, dst, 256, 1, 1);
    assert_eq!([add(0, 0, 0), add(0, 1, 0), add(0, 62, 2), add(0, 2, 2)], [Ok(()), Err(7), Ok(()), Ok(())]);
    assert_eq!([add(0, 63, 4), add(0, 5, 4)], [Err(4), Err(7)]);
    let large = DesignConfig::preset("hermes").unwrap();
    let softmax = |cols| {
        let operation = Activation::Softmax;
        let instruction = Instruction::Activate { operation, src: 0, dst: 0, cols, batch: 1, heads: 1 };
        instruction.check(&large).map_err(|error| error.code().number())
    };
    assert_eq!([softmax(16384), softmax(16385)], [Ok(()), Err(3)]);
}

#[test]
fn what_passes_the_check_has_an_encoding() {
    let mut random = Random::new(4);
    for config in [DesignConfig::preset("hermes").unwrap(), cramped()] {
        let legal = (0..20_000).filter(|_| {
            let instruction = random.instruction();
            instruction.check(&config).is_ok() && instruction.try_encode().is_ok()
        });
        assert!(legal.count() > 100);
    }
    let large =
        DesignConfig::from_toml("name = \"l\"\n[gemv]\nmultipliers = 16\nranks = 1\nbuffer_kib = 1024");
    let large = large.unwrap();
    assert!(large.gemv().slice_words() > 1024 && large.gemv().max_cols() > 1 << 18);
    for instruction in [
        Instruction::Zero { dst: 1024, count: 1 },
        Instruction::Round { src: 0, dst: 0, cols: 1 << 18, batch: 1 },
    ] {
        assert!(instruction.try_encode().is_err() && instruction.check(&large).is_err());
    }
}

#[test]
fn messages_name_value_and_limit() {
    let config = DesignConfig::preset("tiny").unwrap();
    let message = |instruction: Instruction| instruction.check(&config).unwrap_err().to_string();
    assert_eq!(message(Instruction::Zero { dst: 0, count: 65 }), "count = 65 must be 1..=64");
    let words = message(Instruction::Zero { dst: 60, count: 5 });
    assert_eq!(words, "dst 60 + 5 words exceed the buffer's 64");
    let address = message(Instruction::Load { dst: 0, cols: 1, batch: 1, address: 1 << 28 });
    assert_eq!(address, "address = 0x10000000 must be below 0x10000000 bursts");
    assert_eq!(ErrorCode::PRECEDENCE.map(ErrorCode::number), [1, 2, 9, 3, 6, 5, 4, 7]);
}
