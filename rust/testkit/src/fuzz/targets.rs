use anyhow::{Context, Result, ensure};
use ndp_config::{DesignConfig, HbmConfig, LlmShape, Ssd, SystemConfig};
use ndp_isa::{Code, Opcode, Program, decode, decode_fields, fields, parse};
use ndp_model::{DecoderConfig, Model, Vocabulary};
use ndp_traces::{Activity, TraceHeader, TraceReader, TraceWriter};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::LazyLock;

#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Also the name of its folder in `corpus`.
    pub name: &'static str,
    /// Text that names the input and its checks.
    pub about: &'static str,
    pub run: fn(&[u8]),
    /// Seed files of the repository: folders and name endings.
    files: &'static [(&'static str, &'static str)],
    made: fn() -> Result<Vec<Vec<u8>>>,
}

pub const TARGETS: [Target; 8] = [
    Target {
        name: "configuration",
        about: "TOML files of designs, memories, systems, models and SSDs: read or refused",
        run: configuration,
        files: &[
            ("rust/config/presets", ".toml"),
            ("rust/config/presets/hbm", ".toml"),
            ("rust/config/presets/systems", ".toml"),
            ("rust/config/presets/ssds", ".toml"),
            ("testbenches/configs", ".toml"),
        ],
        made: none,
    },
    Target {
        name: "checkpoint",
        about: "config.json of a model: read or refused",
        run: checkpoint,
        files: &[
            ("golden/checkpoints/opt", "config.json"),
            ("golden/checkpoints/llama", "config.json"),
            ("golden/checkpoints/mistral", "config.json"),
            ("golden/checkpoints/falcon-mq", "config.json"),
            ("golden/checkpoints/falcon-new", "config.json"),
        ],
        made: none,
    },
    Target {
        name: "weights",
        about: "model.safetensors of a small model: loaded or refused",
        run: weights,
        files: &[],
        made: small_weights,
    },
    Target {
        name: "gguf",
        about: "GGUF file of a small model: loaded or refused; then a text becomes tokens",
        run: gguf,
        files: &[],
        made: small_gguf,
    },
    Target {
        name: "tokenizer",
        about: "tokenizer.json: loaded or refused; then a text becomes tokens and tokens become a text",
        run: tokenizer,
        files: &[],
        made: none,
    },
    Target {
        name: "trace",
        about: "activation traces, with right checksums too: read or refused; what was read and is written again reads the same",
        run: trace,
        files: &[("rust/traces/tests/data", ".trace")],
        made: none,
    },
    Target {
        name: "program",
        about: "assembler text: read or refused; what was read and is printed again reads the same",
        run: program,
        files: &[("testbenches/programs", ".asm")],
        made: none,
    },
    Target {
        name: "instruction",
        about: "instruction words: an instruction that is encoded again decodes to itself, and its text reads as the word",
        run: instruction,
        files: &[],
        made: words,
    },
];

fn none() -> Result<Vec<Vec<u8>>> {
    Ok(Vec::new())
}

impl Target {
    /// The seeds: its corpus, files of the repository, and generated ones.
    ///
    /// # Errors
    /// A folder or file of the repository that cannot be read, or no seed at all.
    pub fn seeds(&self) -> Result<Vec<Vec<u8>>> {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let own = format!("rust/testkit/corpus/{}", self.name);
        let mut seeds = (self.made)()?;
        for (folder, end) in self.files.iter().copied().chain([(own.as_str(), "")]) {
            let folder = repository.join(folder);
            if !folder.is_dir() && folder.ends_with(&own) {
                continue;
            }
            let read = || format!("cannot read {}", folder.display());
            let entries = fs::read_dir(&folder).with_context(read)?;
            let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
            paths.sort();
            for path in paths {
                if path.is_file() && path.to_string_lossy().ends_with(end) {
                    seeds.push(fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?);
                }
            }
        }
        ensure!(!seeds.is_empty(), "no seeds for {}", self.name);
        Ok(seeds)
    }
}

fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}

/// See [`TARGETS`].
pub fn configuration(data: &[u8]) {
    let Some(text) = text(data) else { return };
    if let Ok(config) = DesignConfig::from_toml(text) {
        // Sizes that follow from those in the file.
        let gemv = config.gemv();
        let widths = [gemv.units_per_rank(), gemv.digit_bits(), gemv.slice_words(), gemv.serial_steps()];
        assert!(widths.iter().all(|width| *width > 0), "{widths:?}");
        assert!(config.dram().bursts() > 0 && config.dimm_burst_bits() < 64);
        let _ = decode(1, &config);
    }
    let _ = (HbmConfig::from_toml(text), SystemConfig::from_toml(text));
    let _ = (LlmShape::from_toml(text), Ssd::from_toml(text));
}

/// See [`TARGETS`].
pub fn checkpoint(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(config) = DecoderConfig::from_json(Path::new("config.json"), text) {
        assert!(config.hidden_size() > 0 && config.num_hidden_layers() > 0);
    }
}

const SMALL_MODEL: &str = r#"{"model_type": "opt", "vocab_size": 3, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "ffn_dim": 8, "max_position_embeddings": 4, "word_embed_proj_dim": 8, "do_layer_norm_before": true, "activation_function": "relu"}"#;

thread_local! {
    /// Each thread's folder for the model's files.
    static FOLDER: LazyLock<std::io::Result<tempfile::TempDir>> = const { LazyLock::new(tempfile::tempdir) };
}

/// Runs `action` on a folder with these files.
fn with_file(files: &[(&str, &[u8])], action: impl FnOnce(&Path)) {
    FOLDER.with(|folder| match &**folder {
        Ok(folder) => {
            for (name, bytes) in files {
                let path = folder.path().join(name);
                overwrite(&path, bytes).unwrap_or_else(|e| panic!("cannot write {}: {e}", path.display()));
            }
            action(folder.path());
        }
        Err(error) => panic!("cannot make a folder: {error}"),
    });
}

/// Writes a file without truncating it first, after which some file systems write to the disk.
fn overwrite(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    file.write_all(bytes)?;
    file.set_len(bytes.len() as u64)
}

/// See [`TARGETS`].
pub fn weights(data: &[u8]) {
    with_file(&[("config.json", SMALL_MODEL.as_bytes()), ("model.safetensors", data)], |folder| {
        if let Ok(model) = Model::load(folder) {
            assert!(model.parameters() > 0);
        }
    });
}

/// See [`TARGETS`].
pub fn gguf(data: &[u8]) {
    with_file(&[("model.gguf", data)], |folder| {
        if let Ok(model) = Model::load(&folder.join("model.gguf")) {
            assert!(model.parameters() > 0);
            let _ = model.vocabulary.tokens("Emma could not\n\u{1F600} 12".as_bytes());
        }
    });
}

/// A model with one layer, matrices in Q8_0, and pieces with scores: byte-level tokens need regular expressions, whose
/// compilation takes milliseconds.
fn small_gguf() -> Result<Vec<Vec<u8>>> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let whole = |value: u32| [4u32.to_le_bytes(), value.to_le_bytes()].concat();
    let named = |value: &str| [&8u32.to_le_bytes()[..], &text(value)].concat();
    let texts = |values: &[&str]| {
        let head = [&9u32.to_le_bytes()[..], &8u32.to_le_bytes(), &(values.len() as u64).to_le_bytes()];
        [head.concat(), values.iter().flat_map(|value| text(value)).collect()].concat()
    };
    let scores = [9u32.to_le_bytes(), 6u32.to_le_bytes(), 4u32.to_le_bytes(), [0; 4]].concat();
    let scores = [scores, (-1f32).to_le_bytes().repeat(4)].concat();
    let entries = [
        ("general.architecture", named("llama")),
        ("llama.block_count", whole(1)),
        ("llama.context_length", whole(8)),
        ("llama.embedding_length", whole(32)),
        ("llama.feed_forward_length", whole(32)),
        ("llama.attention.head_count", whole(2)),
        ("llama.attention.layer_norm_rms_epsilon", [6u32.to_le_bytes(), 1e-5f32.to_le_bytes()].concat()),
        ("tokenizer.ggml.model", named("llama")),
        ("tokenizer.ggml.tokens", texts(&["E", "m", "Em", "n"])),
        ("tokenizer.ggml.scores", scores),
        ("tokenizer.ggml.bos_token_id", whole(3)),
    ];
    let parts = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"];
    let norms = ["output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"];
    let matrices = parts.map(|part| (format!("blk.0.{part}"), 32)).into_iter();
    let matrices = matrices.chain([("token_embd".to_owned(), 4)]).map(|(name, rows)| (name, Some(rows)));
    let all: Vec<(String, Option<u64>)> = matrices.chain(norms.map(|name| (name.to_owned(), None))).collect();
    let mut file = b"GGUF\x03\0\0\0".to_vec();
    file.extend((all.len() as u64).to_le_bytes());
    file.extend((entries.len() as u64).to_le_bytes());
    for (key, value) in entries {
        file.extend([text(key), value].concat());
    }
    let mut data = Vec::new();
    for (name, rows) in all {
        file.extend(text(&format!("{name}.weight")));
        file.extend(if rows.is_some() { 2u32 } else { 1 }.to_le_bytes());
        file.extend([Some(32), rows].into_iter().flatten().flat_map(u64::to_le_bytes));
        file.extend(if rows.is_some() { 8u32 } else { 0 }.to_le_bytes());
        file.extend((data.len() as u64).to_le_bytes());
        match rows {
            // A row is a block: the scale 1.0 in FP16 (0x3C00), and numbers.
            Some(rows) => data.extend([&[0x00][..], &[0x3C; 33]].concat().repeat(rows as usize)),
            None => data.extend(2f32.to_le_bytes().repeat(32)),
        }
        data.resize(data.len().next_multiple_of(32), 0);
    }
    file.resize(file.len().next_multiple_of(32), 0);
    Ok(vec![[file, data].concat()])
}

/// The weights of the smallest model, all 1.
fn small_weights() -> Result<Vec<Vec<u8>>> {
    let config = DecoderConfig::from_json(Path::new("config.json"), SMALL_MODEL)?;
    let mut stored = Vec::new();
    Model::from_tensors(config, |name, shape| {
        let elements = shape.iter().product();
        stored.push((name.to_owned(), shape.to_vec(), [0x00, 0x3C].repeat(elements)));
        Ok::<_, ndp_files::Error>(vec![ndp_numerics::f16::ONE; elements])
    })?;
    let views = stored.iter().map(|(name, shape, bytes)| {
        Ok((name, safetensors::tensor::TensorView::new(safetensors::Dtype::F16, shape.clone(), bytes)?))
    });
    let views = views.collect::<Result<Vec<_>>>()?;
    Ok(vec![safetensors::serialize(views, None)?])
}

/// See [`TARGETS`].
pub fn tokenizer(data: &[u8]) {
    with_file(&[("tokenizer.json", data)], |folder| {
        if let Ok(vocabulary) = Vocabulary::load(folder, 1 << 20) {
            let tokens = vocabulary.tokens("Emma could not\n\u{1F600} 12".as_bytes());
            let _ = vocabulary.text(&tokens.unwrap_or_default());
            let _ = vocabulary.text(&[0, 1, u32::MAX]);
        }
    });
}

/// See [`TARGETS`].
pub fn trace(data: &[u8]) {
    read_trace(data);
    read_trace(&with_checksums(data));
}

fn read_trace(data: &[u8]) {
    let Some((header, tokens)) = tokens_of(data) else { return };
    let mut bytes = Vec::new();
    let mut writer = match TraceWriter::new(&mut bytes, header.clone()) {
        Ok(writer) => writer,
        Err(error) => panic!("a header that was read cannot be written: {error}"),
    };
    for (info, activity) in &tokens {
        if let Err(error) = writer.write(*info, activity) {
            panic!("a token that was read cannot be written: {error}");
        }
    }
    if let Err(error) = writer.finish() {
        panic!("a trace that was read cannot be written: {error}");
    }
    assert!(tokens_of(&bytes) == Some((header, tokens)), "a trace that was written again reads otherwise");
}

fn tokens_of(data: &[u8]) -> Option<(TraceHeader, Vec<(ndp_traces::TokenInfo, Activity)>)> {
    let mut reader = TraceReader::new(data).ok()?;
    let mut tokens = Vec::new();
    while let Some((info, activity)) = reader.read().ok()? {
        tokens.push((info, activity.clone()));
    }
    Some((reader.header().clone(), tokens))
}

/// The bytes with the checksums that a reader expects, as far as lengths lie within them.
fn with_checksums(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    let length = |bytes: &[u8], at: usize| {
        let field = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(field.try_into().ok()?))
    };
    let Some(body) = length(&bytes, 12) else { return bytes };
    let mut at = 16usize.saturating_add(body as usize);
    let Some(header) = bytes.get(..at) else { return bytes };
    let mut chain = crc32fast::hash(header);
    let put = |bytes: &mut Vec<u8>, at: usize, chain: u32| match bytes.get_mut(at..at + 4) {
        Some(field) => field.copy_from_slice(&chain.to_le_bytes()),
        None => bytes.truncate(at),
    };
    put(&mut bytes, at, chain);
    loop {
        at += 4;
        let Some(bytes_of_record) = length(&bytes, at) else { return bytes };
        let end = bytes_of_record == u32::MAX;
        let next = at.saturating_add(if end { 12 } else { 4usize.saturating_add(bytes_of_record as usize) });
        let Some(record) = bytes.get(at..next) else { return bytes };
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&chain.to_le_bytes());
        hasher.update(record);
        chain = hasher.finalize();
        put(&mut bytes, next, chain);
        if end {
            return bytes;
        }
        at = next;
    }
}

/// See [`TARGETS`].
pub fn program(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let Ok(program) = parse(text) else { return };
    let printed = program.to_string();
    match parse(&printed) {
        Ok(again) => assert!(again == program, "{printed}"),
        Err(error) => panic!("{error} in\n{printed}"),
    }
    for word in program.code.iter().map(Code::word) {
        one_word(word);
    }
}

/// Designs that can execute different instructions.
static DESIGNS: LazyLock<Vec<DesignConfig>> = LazyLock::new(|| {
    DesignConfig::PRESETS.iter().filter_map(|name| DesignConfig::preset(name).ok()).collect()
});

/// See [`TARGETS`].
pub fn instruction(data: &[u8]) {
    for word in data.as_chunks().0 {
        one_word(u128::from_le_bytes(*word));
    }
}

/// For each opcode, the words whose fields are all zeros and all ones.
fn words() -> Result<Vec<Vec<u8>>> {
    let of = |opcode: &Opcode| {
        let code = u128::from(*opcode as u8);
        [code, code | opcode.mask() & !fields::OPCODE.mask()].map(|word| word.to_le_bytes().to_vec())
    };
    Ok(Opcode::ALL.iter().flat_map(of).collect())
}

fn one_word(word: u128) {
    if let Ok(instruction) = decode_fields(word) {
        // A product without a list does not keep the field `list`.
        let encoded = instruction.encode();
        assert_eq!(decode_fields(encoded), Ok(instruction), "{word:#034x}, encoded again as {encoded:#034x}");
    }
    let code = Code::disassemble(word);
    assert_eq!(code.word(), word, "{code}");
    let program = Program { code: vec![code], ..Program::default() };
    let text = program.to_string();
    match parse(&text) {
        Ok(again) => assert_eq!(again, program, "{text}"),
        Err(error) => panic!("{error} in {text}"),
    }
    for design in DESIGNS.iter() {
        if let Ok(instruction) = decode(word, design) {
            let _ = (instruction.reads(design), instruction.writes(design));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::mutator::input;
    use std::panic::catch_unwind;

    /// Inputs of each target in a run of all tests; `make fuzz` has more.
    const CASES: u64 = 4000;

    #[test]
    fn no_reader_panics() {
        for target in TARGETS {
            let seeds = target.seeds().unwrap();
            for case in 0..CASES {
                let bytes = input(&seeds, 1, case);
                let run = catch_unwind(|| (target.run)(&bytes));
                assert!(
                    run.is_ok(),
                    "{}: ndp-fuzz {} --cases {case} writes the input",
                    target.name,
                    target.name
                );
            }
        }
    }

    #[test]
    fn seeds_reach_behind_the_first_check() {
        let first = |name: &str| {
            TARGETS.iter().find(|target| target.name == name).unwrap().seeds().unwrap().swap_remove(0)
        };
        assert!(tokens_of(&first("trace")).is_some_and(|(_, tokens)| !tokens.is_empty()));
        assert!(parse(text(&first("program")).unwrap()).is_ok_and(|program| !program.code.is_empty()));
        assert!(DesignConfig::from_toml(text(&first("configuration")).unwrap()).is_ok());
        for target in ["weights", "gguf", "tokenizer"] {
            with_file(&[("config.json", SMALL_MODEL.as_bytes())], |folder| {
                let files = [
                    ("weights", "model.safetensors"),
                    ("gguf", "model.gguf"),
                    ("tokenizer", "tokenizer.json"),
                ];
                let (_, file) = files.into_iter().find(|(name, _)| *name == target).unwrap();
                overwrite(&folder.join(file), &first(target)).unwrap();
                match target {
                    "weights" => drop(Model::load(folder).unwrap()),
                    "gguf" => drop(Model::load(&folder.join(file)).unwrap()),
                    _ => drop(Vocabulary::load(folder, 1 << 20).unwrap()),
                }
            });
        }
    }

    #[test]
    fn a_trace_with_other_bits_gets_right_checksums() {
        let bytes =
            TARGETS.iter().find(|target| target.name == "trace").unwrap().seeds().unwrap().swap_remove(0);
        assert_eq!(with_checksums(&bytes), bytes);
        let read = |bytes: &[u8]| tokens_of(bytes).is_some();
        // Some bit of the header's seed can be changed.
        let changed = (16..64).map(|at| {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            bytes
        });
        let changed: Vec<Vec<u8>> = changed.collect();
        assert!(changed.iter().all(|bytes| !read(bytes)));
        assert!(changed.iter().any(|bytes| read(&with_checksums(bytes))));
    }
}
