//! Are the bits where the document puts them, and does decoding give every word back?

// Footprints are lists of ranges, often of one.
#![allow(clippy::single_range_in_vec_init)]

use crate::common::{Random, documented};
use ndp_config::{DesignConfig, WeightFormat};
use ndp_isa::{
    Code, Condition, ErrorCode, Instruction, Malformed, Numbers, Opcode, Product, Transfer, Words, decode,
    decode_fields, fields,
};
use ndp_numerics::f16;

fn refusal<T: std::fmt::Debug>(result: &Result<T, Malformed>) -> (ErrorCode, String) {
    let error = result.as_ref().unwrap_err();
    (error.code(), error.to_string())
}

fn reserved(opcode: Opcode, bits: u128) -> (ErrorCode, String) {
    (ErrorCode::Reserved, format!("{}: bits {bits:#034x} must be 0", opcode.mnemonic()))
}

#[test]
fn each_field_is_at_its_place() {
    let product = Product {
        src: 0x155,
        dst: 0x2AA,
        cols: 0x2_5A5A,
        batch: 11,
        count: 0xAB_CDEF,
        address: 0x1234_5678,
        list: Some(0xF0F),
        heads: 1,
        selected: false,
        weights: WeightFormat::Fp16,
        shared: false,
    };
    let list = 0xF0F_u128 << 108;
    let words = 0x155_u128 << 88 | 0x2AA_u128 << 98;
    let sizes = 10_u128 << 9 | 0x2_5A5A_u128 << 13;
    let rest = 0x1234_5678_u128 << 32 | 0xAB_CDEF_u128 << 64;
    assert_eq!(Instruction::Dot(product).encode(), 0x21 | 1 << 8 | sizes | rest | words | list);
    let selected = Product { selected: true, ..product };
    assert_eq!(Instruction::Dot(selected).encode(), Instruction::Dot(product).encode() | 1 << 31);
    let unlisted = Product { list: None, ..product };
    assert_eq!(Instruction::Axpy(unlisted).encode(), 0x22 | sizes | rest | words);
    let heads = Product { heads: 8, ..unlisted };
    assert_eq!(Instruction::Dot(heads).encode(), 0x21 | sizes | rest | words | 3 << 120);
    for (format, code) in [(WeightFormat::Fp16, 0), (WeightFormat::Int8, 1), (WeightFormat::Int4, 2)] {
        let weights = Product { weights: format, ..heads };
        assert_eq!(Instruction::Axpy(weights).encode(), 0x22 | sizes | rest | words | 3 << 120 | code << 123);
        let shared = Product { shared: true, ..weights };
        assert_eq!(Instruction::Axpy(shared).encode(), Instruction::Axpy(weights).encode() | 1 << 125);
    }
    assert_eq!(Instruction::Nop.encode(), 0);
    assert_eq!(Instruction::Barrier.encode(), 1);
    assert_eq!(Instruction::Signal { tag: 0xDEAD_BEEF }.encode(), 0xDEAD_BEEF_u128 << 32 | 2);
    let list = Instruction::List { list: 0x7F0, count: 3, address: 9 };
    assert_eq!(list.encode(), 0x7F0_u128 << 108 | 3 << 64 | 9 << 32 | 0x12);
    assert_eq!(Instruction::Zero { dst: 63, count: 1 }.encode(), 63 << 98 | 1 << 64 | 0x20);
    let (count, address) = (0xAB_CDEF, 0x1234_5678);
    assert_eq!(Instruction::Export { src: 0x155, count, address }.encode(), 0x14 | rest | 0x155 << 88);
    assert_eq!(Instruction::Import { dst: 0x2AA, count, address }.encode(), 0x25 | rest | 0x2AA << 98);
    let merge = Instruction::Merge { dst: 0x2AA, cols: 0x2_5A5A, batch: 11, address };
    assert_eq!(merge.encode(), 0x24 | sizes | 0x1234_5678 << 32 | 0x2AA << 98);
    let select = |numbers, condition| {
        let (src, dst, cols, batch, list) = (0x155, 0x2AA, 0x2_5A5A, 11, 0xF00);
        Instruction::Select { src, dst, cols, batch, list, numbers, condition }.encode()
    };
    let bits = 0x26 | sizes | words | 0xF00 << 108;
    let positive = Condition::POSITIVE;
    assert_eq!(select(Numbers::From(0xAB_CDEF), positive), bits | 0xAB_CDEF << 64);
    assert_eq!(select(Numbers::Listed(0xDEF), positive), bits | 0xDEF << 64 | 1 << 8);
    let magnitude = Condition::magnitude(f16::from_bits(0xA5C3));
    assert_eq!(select(Numbers::From(0), magnitude), bits | 0xA5C3 << 32);
    let transfer = Transfer { address, count, ranks: 0xA5, node: 11, slot: 0xC3A6 };
    let bits = rest | 0xA5 << 13 | 11 << 9 | 0xC3A6 << 88;
    assert_eq!(Instruction::Send(transfer).encode(), 0x40 | bits);
    assert_eq!(Instruction::Receive(transfer).encode(), 0x41 | bits);
}

#[test]
fn what_is_encoded_is_decoded() {
    let mut random = Random::new(1);
    for _ in 0..20_000 {
        let instruction = random.instruction();
        let word = instruction.encode();
        assert_eq!(decode_fields(word), Ok(instruction));
        assert_eq!(Code::disassemble(word), Code::Instruction(instruction));
    }
}

#[test]
fn every_word_has_an_answer_and_survives_disassembly() {
    let config = DesignConfig::preset("tiny").unwrap();
    let mut random = Random::new(2);
    let mut executable = 0;
    for _ in 0..50_000 {
        let word = random.word();
        executable += u32::from(decode(word, &config).is_ok());
        let code = Code::disassemble(word);
        assert_eq!(code.word(), word);
        assert_eq!(ndp_isa::parse(&code.to_string()).unwrap().code, [code], "{word:#x}");
    }
    assert!(executable > 100, "{executable}");
}

#[test]
fn an_unused_list_is_no_error_and_has_only_a_raw_form() {
    let config = DesignConfig::preset("tiny").unwrap();
    let product = Product {
        src: 0,
        dst: 9,
        cols: 5,
        batch: 1,
        count: 3,
        address: 0,
        list: None,
        heads: 1,
        selected: false,
        weights: WeightFormat::Fp16,
        shared: false,
    };
    let word = Instruction::Dot(product).encode() | 5 << 108;
    assert_eq!(decode(word, &config), Ok(Instruction::Dot(product)));
    assert_eq!(Code::disassemble(word), Code::Word(word));
}

#[test]
fn rows_of_several_heads_are_not_listed() {
    let config = DesignConfig::preset("tiny").unwrap();
    let product = Product {
        src: 0,
        dst: 9,
        cols: 5,
        batch: 1,
        count: 3,
        address: 0,
        list: None,
        heads: 2,
        selected: false,
        weights: WeightFormat::Fp16,
        shared: false,
    };
    for (opcode, instruction) in
        [(Opcode::Dot, Instruction::Dot(product)), (Opcode::Axpy, Instruction::Axpy(product))]
    {
        let word = instruction.encode();
        // `list` is ignored without `listed`.
        assert_eq!(decode(word | 5 << 108, &config), Ok(instruction));
        assert_eq!(refusal(&decode_fields(word | 1 << 8)), reserved(opcode, 1 << 8));
        assert_eq!(Code::disassemble(word | 1 << 8), Code::Word(word | 1 << 8));
        let listed = Instruction::Dot(Product { list: Some(0), ..product });
        assert_eq!(listed.check(&config).unwrap_err().code(), ErrorCode::Reserved);
    }
}

#[test]
fn formats_of_weights_are_those_of_the_design() {
    let [fp16, all] = ["fp16", "all"].map(|formats| {
        let text = format!("name = \"x\"\n[gemv]\nweight_formats = \"{formats}\"\n");
        DesignConfig::from_toml(&text).unwrap()
    });
    let product = Product {
        src: 0,
        dst: 9,
        cols: 5,
        batch: 1,
        count: 3,
        address: 0,
        list: None,
        heads: 1,
        selected: false,
        weights: WeightFormat::Fp16,
        shared: false,
    };
    for instruction in [Instruction::Dot, Instruction::Axpy] {
        for (weights, shared) in
            WeightFormat::ALL.into_iter().flat_map(|format| [(format, false), (format, true)])
        {
            let instruction = instruction(Product { weights, shared, ..product });
            let (word, opcode) = (instruction.encode(), instruction.opcode());
            if shared && weights == WeightFormat::Fp16 {
                assert_eq!(refusal(&decode(word, &all)), reserved(opcode, 1 << 125));
                continue;
            }
            assert_eq!(decode(word, &all), Ok(instruction));
            let bits = word & 3 << 123;
            match decode(word, &fp16) {
                Ok(decoded) => assert_eq!((decoded, bits), (instruction, 0)),
                refused => assert_eq!(refusal(&refused), reserved(opcode, bits)),
            }
        }
        let listed = Product { list: Some(0), weights: WeightFormat::Int8, shared: true, ..product };
        let listed = instruction(listed);
        assert_eq!(refusal(&decode(listed.encode(), &all)), reserved(listed.opcode(), 1 << 125));
        let word = instruction(product).encode() | 3 << 123;
        let opcode = instruction(product).opcode();
        assert_eq!(refusal(&decode_fields(word)), reserved(opcode, 3 << 123));
        assert_eq!(Code::disassemble(word), Code::Word(word));
    }
}

#[test]
fn values_that_do_not_fit_their_field_have_no_encoding() {
    let field = |field, value: u32, min, max| format!("{field} = {value} must be {min}..={max}");
    let said = |instruction: Instruction| ndp_files::said(&instruction.try_encode());
    assert_eq!(said(Instruction::Zero { dst: 1024, count: 1 }), field("dst", 1024, 0, 1023));
    let load = |batch, cols| said(Instruction::Load { dst: 0, cols, batch, address: 0 });
    assert_eq!(load(0, 1), field("batch", 0, 1, 16));
    assert_eq!(load(17, 1), field("batch", 17, 1, 16));
    assert_eq!(load(16, 1 << 18), field("cols", 1 << 18, 0, (1 << 18) - 1));
    let heads = |heads| {
        let product = Product {
            src: 0,
            dst: 0,
            cols: 1,
            batch: 1,
            count: 1,
            address: 0,
            list: None,
            heads,
            selected: false,
            weights: WeightFormat::Fp16,
            shared: false,
        };
        said(Instruction::Dot(product))
    };
    for value in [0, 3, 129] {
        assert_eq!(heads(value), format!("heads = {value} must be a power of two"));
    }
    assert_eq!(heads(256), field("heads", 256, 1, 128));
}

#[test]
fn the_fields_cover_what_the_document_lists_and_nothing_twice() {
    for opcode in Opcode::ALL {
        let total: u32 = opcode.fields().iter().map(|field| field.bits).sum::<u32>() + fields::OPCODE.bits;
        assert_eq!(opcode.mask().count_ones(), total, "{opcode:?}");
        assert_eq!(Opcode::from_code(opcode as u8), Some(opcode));
        assert_eq!(opcode.is_activation(), (0x30..=0x3F).contains(&(opcode as u8)));
    }
    assert_eq!(Opcode::Dot.mask(), !(7 << 61 | 3 << 126));
    assert_eq!(Opcode::Select.mask(), !(1 << 31 | 0xFFFF << 48 | 0xFF << 120));
    for code in 0..=255u8 {
        let known = documented().iter().any(|(known, _)| *known == code);
        let first = match code {
            0x21 | 0x22 => 126,
            0x30..=0x3F => 123,
            _ => 120,
        };
        let word = u128::from(code) | u128::MAX << 120;
        let expected = match Opcode::from_code(code) {
            Some(opcode) => reserved(opcode, u128::MAX << first),
            None => (ErrorCode::Opcode, format!("opcode {code:#04x} is unknown")),
        };
        assert_eq!((refusal(&decode_fields(word)), Opcode::from_code(code).is_some()), (expected, known));
    }
}

#[test]
fn footprints_name_the_words_that_are_touched() {
    // 64 words of 128 elements in two ranks; 200 elements are a word and, rounded up, another.
    let config = DesignConfig::preset("tiny").unwrap();
    let words = |buffer: Vec<std::ops::Range<u32>>, list| Words { buffer, list };
    let list = Some(40);
    let product = Product {
        src: 3,
        dst: 20,
        cols: 128,
        batch: 2,
        count: 17,
        address: 0,
        list,
        heads: 1,
        selected: false,
        weights: WeightFormat::Fp16,
        shared: false,
    };
    let heads = Product { cols: 60, list: None, heads: 4, ..product };
    assert_eq!(Instruction::Dot(heads).reads(&config), words(vec![3..5], 0..0));
    assert_eq!(Instruction::Dot(heads).writes(&config), words(vec![20..28], 0..0));
    assert_eq!(Instruction::Axpy(heads).reads(&config), words(vec![3..11, 20..36], 0..0));
    assert_eq!(Instruction::Axpy(heads).writes(&config), words(vec![20..36], 0..0));
    let (dot, axpy) = (Instruction::Dot(product), Instruction::Axpy(product));
    assert_eq!(dot.reads(&config), words(vec![3..5], 40..57));
    assert_eq!(dot.writes(&config), words(vec![20..22], 0..0));
    assert_eq!(axpy.reads(&config), words(vec![3..5, 20..36], 40..57));
    assert_eq!(axpy.writes(&config), words(vec![20..36], 0..0));
    let list = Instruction::List { list: 48, count: 1, address: 0 };
    assert_eq!(list.reads(&config), Words::default());
    assert_eq!(list.writes(&config), words(vec![], 48..64));
    assert!(list.collides(&dot, &config) && dot.collides(&list, &config));
    let list = Instruction::List { list: 64, count: 16, address: 0 };
    assert!(!list.collides(&axpy, &config));
    let zero = |dst, count| Instruction::Zero { dst, count };
    assert!(zero(4, 1).collides(&axpy, &config) && zero(35, 9).collides(&axpy, &config));
    assert!(!zero(5, 15).collides(&axpy, &config) && !zero(36, 28).collides(&axpy, &config));
    let store = Instruction::Store { src: 3, cols: 128, batch: 2, address: 0 };
    assert!(!store.collides(&dot, &config), "two readers");
    assert!(store.writes(&config).is_empty());
    let load = Instruction::Load { dst: 10, cols: 256, batch: 3, address: 0 };
    assert_eq!(load.writes(&config).buffer, [10..16]);
    let export = Instruction::Export { src: 5, count: 7, address: 0 };
    assert_eq!([export.reads(&config), export.writes(&config)], [words(vec![5..12], 0..0), Words::default()]);
    let import = Instruction::Import { dst: 5, count: 7, address: 0 };
    assert_eq!([import.reads(&config), import.writes(&config)], [(); 2].map(|()| words(vec![5..12], 0..0)));
    let merge = Instruction::Merge { dst: 5, cols: 256, batch: 3, address: 0 };
    assert_eq!([merge.reads(&config), merge.writes(&config)], [(); 2].map(|()| words(vec![5..53], 0..0)));
    let transfer = Transfer { address: 0, count: 7, ranks: 3, node: 1, slot: 0 };
    let words = [Instruction::Send(transfer), Instruction::Receive(transfer)]
        .map(|i| [i.reads(&config), i.writes(&config)].iter().all(Words::is_empty));
    assert_eq!(words, [true; 2], "DRAM alone");
    assert!(!export.collides(&export, &config), "two readers");
    let condition = Condition::POSITIVE;
    let select = |list, numbers| Instruction::Select {
        src: 5,
        dst: 20,
        cols: 130,
        batch: 2,
        list,
        numbers,
        condition,
    };
    let of_row = select(64, Numbers::From(7));
    assert_eq!(of_row.reads(&config), Words { buffer: vec![5..9], list: 0..0 });
    assert_eq!(of_row.writes(&config), Words { buffer: vec![20..24], list: 64..194 });
    assert_eq!(select(64, Numbers::Listed(300)).reads(&config).list, 300..430);
    let selected = Instruction::Dot(Product { src: 40, dst: 50, list: Some(0), selected: true, ..product });
    let unselected = Instruction::Dot(Product { src: 40, dst: 50, list: Some(0), ..product });
    assert!(of_row.collides(&selected, &config) && selected.collides(&of_row, &config));
    assert!(!of_row.collides(&unselected, &config));
    assert!(import.collides(&export, &config) && import.collides(&import, &config));
}
