//! Does the text form express every instruction, and is the message of each refusal right?

use crate::common::{Random, documented};
use ndp_config::WeightFormat;
use ndp_isa::{Code, Data, Dump, Instruction, IsaError, Product, Program, RandomKind, parse};

fn random_program(random: &mut Random) -> Program {
    let mut program = Program::default();
    for _ in 0..random.below(20) {
        let code = match random.below(4) {
            0 => Code::disassemble(random.word()),
            _ => Code::Instruction(random.instruction()),
        };
        program.code.push(code);
    }
    for _ in 0..random.below(6) {
        let address = random.below(1 << 27);
        let (seed, kind) = (random.next(), RandomKind::ALL[random.below(4) as usize]);
        let length = 1 + random.below(70);
        program.data.push(match random.below(4) {
            0 => Data::F16 { address, values: (0..length).map(|_| random.next() as u16).collect() },
            1 => Data::U32 { address, values: (0..length).map(|_| random.next() as u32).collect() },
            2 => Data::Random { address, bursts: random.below(1 << 29), seed, kind },
            _ => {
                let (cols, weights) =
                    (1 + random.below((1 << 18) - 1), WeightFormat::ALL[random.below(3) as usize]);
                let shared = weights != WeightFormat::Fp16 && random.below(2) == 0;
                Data::Matrix { address, rows: length, cols, weights, shared, seed, kind }
            }
        });
    }
    if random.below(2) == 0 {
        program.dumps.push(Dump { address: random.below(1 << 29), bursts: random.below(100) });
    }
    program
}

#[test]
fn what_is_printed_is_read_back() {
    let mut random = Random::new(5);
    for _ in 0..500 {
        let program = random_program(&mut random);
        let text = program.to_string();
        assert_eq!(parse(&text).as_ref(), Ok(&program), "{text}");
    }
}

#[test]
fn the_example_of_the_document_is_a_program() {
    let document = include_str!("../../../docs/isa-text.md");
    let section = document.split("## Text form").nth(1).unwrap();
    let text = section.split("```").nth(1).unwrap();
    let program = parse(text).unwrap();
    let product = Product {
        src: 0,
        dst: 8,
        cols: 4096,
        batch: 4,
        count: 410,
        address: 0x10000,
        list: Some(0),
        heads: 1,
        selected: false,
        weights: WeightFormat::Fp16,
        shared: false,
    };
    assert_eq!(
        program.code.iter().map(|code| code.to_string()).collect::<Vec<_>>(),
        [
            "list list=0, count=410, address=0x8000",
            "load dst=0, cols=4096, batch=4, address=0x1000",
            "dot src=0, dst=8, cols=4096, batch=4, count=410, address=0x10000, list=0",
            "zero dst=16, count=32",
            "dot src=0, dst=8, cols=512, count=1024, address=0x20000, heads=8",
            "softmax src=8, dst=8, cols=1024, heads=8",
            "scale src=0, dst=0, cols=512, scalar=0x3000",
            "add src=8, dst=8, cols=1024, heads=8, other=16",
            "silu src=8, dst=8, cols=1024",
            "gelu src=8, dst=16, cols=1024, batch=4",
            "div src=8, dst=8, cols=1024, heads=8, other=16",
            "merge dst=16, cols=4096, batch=2, address=0x30000",
            "select src=8, dst=12, cols=410, batch=4, list=512, from=0",
            "select src=8, dst=12, cols=410, list=512, row=4096",
            "select src=8, dst=12, cols=410, list=512, row=0, threshold=0x2e66, magnitude=1",
            "dot src=0, dst=8, cols=4096, count=410, address=0x10000, weights=int4",
            "axpy src=12, dst=16, cols=4096, batch=4, count=410, address=0x80000, list=512, selected=1",
            "import dst=16, count=32, address=0x40000",
            "export src=16, count=32, address=0x50000",
            "barrier",
            "send address=0x50000, count=4, ranks=0xf, node=1, slot=7",
            "receive address=0x60000, count=40, ranks=0xf, node=1, slot=300",
            "store src=8, cols=410, batch=4, address=0x9000",
            "signal 7",
        ]
    );
    assert_eq!(program.code[2], Code::Instruction(Instruction::Dot(product)));
}

#[test]
fn formats_of_weights_have_names() {
    let data = |text: &str| parse(text).map(|program| program.data[0].to_string());
    let matrix = ".matrix 0x1 rows=3 cols=5 seed=1 kind=bits";
    assert_eq!(data(&format!("{matrix} weights=fp16")).unwrap(), matrix);
    let int8 = format!("{matrix} weights=int8");
    assert_eq!(data(&int8).unwrap(), int8);
    let dot = "dot src=0, dst=8, cols=4, count=4, address=0";
    let code = |text: &str| parse(text).map(|program| program.code[0].to_string());
    assert_eq!(
        code(&format!("{dot}, weights=fp16")).unwrap(),
        "dot src=0, dst=8, cols=4, count=4, address=0x0"
    );
    for (text, error) in [
        (format!("{dot}, weights=int2"), "found \"weights=int2\", expected weights= one of fp16, int8, int4"),
        (format!("{dot}, weights=int4, weights=int4"), "found \"weights=int4\", expected weights once"),
        (format!("{int8} weights=int4"), "found \"weights=int4\", expected weights once"),
        (format!("{matrix} weights=2"), "found \"weights=2\", expected weights= one of fp16, int8, int4"),
    ] {
        assert_eq!(parse(&text).unwrap_err().to_string(), format!("line 1: {error}"));
    }
}

#[test]
fn directives_are_data() {
    let text = ".f16 16 1, -0.5, 0x7e00, inf\n.u32 0x20 7, 0xffffffff\n.random 3 bursts=2 seed=0x10 kind=bits\n\
                .matrix 0x7ffffff rows=3 cols=5 seed=1 kind=special\n.dump 3 bursts=1";
    let program = parse(text).unwrap();
    let seed = 16;
    assert_eq!(
        program.data,
        [
            Data::F16 { address: 16, values: vec![0x3C00, 0xB800, 0x7E00, 0x7C00] },
            Data::U32 { address: 32, values: vec![7, u32::MAX] },
            Data::Random { address: 3, bursts: 2, seed, kind: RandomKind::Bits },
            Data::Matrix {
                address: (1 << 27) - 1,
                rows: 3,
                cols: 5,
                weights: WeightFormat::Fp16,
                shared: false,
                seed: 1,
                kind: RandomKind::Special,
            },
        ]
    );
    assert_eq!(program.dumps, [Dump { address: 3, bursts: 1 }]);
}

#[test]
fn refusals_name_line_token_and_what_belongs_there() {
    let refused = |text: &str| match parse(&format!("nop\n{text}")) {
        Err(IsaError { line: 2, token, expected }) => format!("{token} | {expected}"),
        other => panic!("{text}: {other:?}"),
    };
    let names: Vec<_> = documented().into_iter().map(|(_, name)| name).collect();
    let names = format!("one of {}, or a directive", names.join(", "));
    assert_eq!(refused("lod dst=0"), format!("lod | {names}; did you mean 'load'?"));
    assert_eq!(refused("zero dst=0"), " | count=");
    assert_eq!(refused("export dst=0, count=1, address=0"), "dst=0 | one of src, count, address");
    assert_eq!(refused("import count=1, address=0"), " | dst=");
    assert_eq!(refused("merge dst=0, cols=1"), " | address=");
    assert_eq!(refused("zero dst=0, dst=1, count=2"), "dst=1 | dst once");
    assert_eq!(refused("zero dst=0 count=2"), "dst=0 count=2 | a number 0..=1023, decimal or 0x hexadecimal");
    assert_eq!(refused("zero dst=0,, count=2"), " | one of dst, count");
    assert_eq!(refused("zero dst=1024, count=2"), "dst=1024 | a number 0..=1023, decimal or 0x hexadecimal");
    assert_eq!(refused("zero dst=-1, count=2"), "dst=-1 | a number 0..=1023, decimal or 0x hexadecimal");
    assert_eq!(refused("zero dst=+1, count=2"), "dst=+1 | a number 0..=1023, decimal or 0x hexadecimal");
    assert_eq!(refused("zero dst, count=2"), "dst | a number 0..=1023, decimal or 0x hexadecimal");
    assert_eq!(refused("load dst=0, cols=1, batch=0, address=0"), {
        "batch=0 | a number 1..=16, decimal or 0x hexadecimal"
    });
    assert_eq!(refused("barrier 1"), "1 | nothing");
    let heads = |heads| refused(&format!("dot src=0, dst=1, cols=1, count=1, address=0, heads={heads}"));
    assert_eq!(heads("3"), "heads=3 | a power of two 1..=128");
    assert_eq!(heads("0"), "heads=0 | a power of two 1..=128");
    assert_eq!(heads("256"), "heads=256 | a number 0..=128, decimal or 0x hexadecimal");
    assert_eq!(refused("signal"), " | a number 0..=4294967295, decimal or 0x hexadecimal");
    assert!(refused("stroe dst=0").ends_with(", or a directive; did you mean 'store'?"));
    assert_eq!(refused("zero dstt=0, count=2"), "dstt=0 | one of dst, count; did you mean 'dst'?");
    assert_eq!(
        refused(".random 0 burst=1 seed=2 kind=bits"),
        "burst=1 | one of bursts, seed; did you mean 'bursts'?"
    );
    assert!(refused(".matrx 0").ends_with("; did you mean '.matrix'?"));
    assert_eq!(refused(".org 3"), ".org | one of .word, .f16, .u32, .random, .matrix, .dump");
    assert_eq!(
        refused(".f16 0"),
        " | a decimal number below 65520 in magnitude, inf, -inf, nan, or 0x and up to 16 bits"
    );
    assert!(refused(".f16 0 1, 65520").starts_with("65520 | a decimal number below 65520"));
    assert_eq!(
        refused(".f16 0 1,,2"),
        " | a decimal number below 65520 in magnitude, inf, -inf, nan, or 0x and up to 16 bits"
    );
    assert_eq!(refused(".f16 0 0x10000"), {
        "0x10000 | a decimal number below 65520 in magnitude, inf, -inf, nan, or 0x and up to 16 bits"
    });
    assert_eq!(
        refused(".u32 0x20000000 1"),
        "0x20000000 | a number 0..=536870911, decimal or 0x hexadecimal"
    );
    assert_eq!(refused(".random 0 bursts=1 seed=2"), " | kind= once");
    assert_eq!(refused(".random 0 bursts=1 kind=nice seed=2"), {
        "kind=nice | kind= one of normal, finite, special, bits"
    });
    assert_eq!(refused(".matrix 0 rows=0 cols=1 seed=2 kind=bits"), "rows=0 cols=1 | at least one of each");
    assert_eq!(refused(".dump 0"), " | bursts=");
    assert_eq!(refused(".word 0x1g"), {
        "0x1g | a number 0..=340282366920938463463374607431768211455, decimal or 0x hexadecimal"
    });
}

#[test]
fn no_line_makes_the_assembler_panic() {
    let pieces =
        ["load", ".f16", ".matrix", "dst", "=", ",", " ", "0x", "1", "-", "#", "kind=", "é", ".", "batch"];
    let mut random = Random::new(6);
    for _ in 0..20_000 {
        let line: String = (0..random.below(12)).map(|_| pieces[random.below(15) as usize]).collect();
        let _ = parse(&line);
    }
}

#[test]
fn random_kinds_keep_their_promises() {
    let mut random = Random::new(7);
    let mut specials = 0;
    for _ in 0..100_000 {
        let u = random.next();
        let normal = RandomKind::Normal.element(u);
        assert!((12..16).contains(&(normal >> 10 & 31)) && normal & 0x83FF == u as u16 & 0x83FF);
        assert!(RandomKind::Finite.element(u) & 0x7C00 != 0x7C00);
        assert_eq!(RandomKind::Bits.element(u), u as u16);
        specials += u32::from(RandomKind::Special.element(u) != normal);
    }
    assert!((2500..3700).contains(&specials), "{specials}");
}
