//! Tokens and texts: the options of a `tokenizer.json` that have an effect.

use std::fs;

use crate::common::model;
use ndp_model::{Continuation, GenerateOptions, SoftwareBackend, Vocabulary, generate};
use serde_json::{Value, json};

fn load(json: &str, vocab_size: usize) -> ndp_files::Result<Vocabulary> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("tokenizer.json"), json).unwrap();
    Vocabulary::load(dir.path(), vocab_size)
}

fn loaded(json: &Value) -> Vocabulary {
    load(&json.to_string(), 1000).unwrap()
}

/// Parts of words over bytes, as OPT and Llama 3 have them.
fn byte_level() -> Value {
    let bytes =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": bytes, "post_processor": null, "decoder": bytes,
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "Ġ": 2, "ab": 3, "Ġab": 4, "â": 5, "Ĥ": 6, "¬": 7},
            "merges": [["a", "b"], ["Ġ", "ab"]]}
    })
}

/// Parts of words with a mark for the space before them, and tokens of bytes.
fn marked(normalizer: &Value, pre_tokenizer: &Value, decoder: &Value) -> Value {
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [{"id": 1, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true}],
        "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "decoder": decoder,
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, "merges": [["▁", "a"]],
            "vocab": {"<unk>": 0, "<s>": 1, "<0xE2>": 2, "<0x82>": 3, "<0xAC>": 4, "▁": 5, "a": 6, "▁a": 7, "b": 8}}
    })
}

fn llama_2() -> Value {
    let replace =
        |from: &str, to: &str| json!({"type": "Replace", "pattern": {"String": from}, "content": to});
    marked(
        &json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, replace(" ", "▁")]}),
        &Value::Null,
        &json!({"type": "Sequence", "decoders": [replace("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}),
    )
}

fn metaspace() -> Value {
    let mark = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true});
    marked(&Value::Null, &mark, &json!({"type": "Sequence", "decoders": [{"type": "ByteFallback"}, mark]}))
}

#[test]
fn text_goes_to_tokens_and_back() {
    let vocabulary = loaded(&byte_level());
    let tokens = vocabulary.tokens(b"ab abb").unwrap();
    assert_eq!(tokens, [3, 4, 1]);
    assert_eq!(vocabulary.text(&tokens).unwrap(), "ab abb");
    let refused = vocabulary.tokens(b"\xFF").unwrap_err().to_string();
    assert!(refused.contains("tokenizer.json") && refused.contains("utf-8"), "{refused}");
    let refused = load("{", 17).unwrap_err().to_string();
    assert!(refused.contains("tokenizer.json: not a tokenizer"), "{refused}");
}

#[test]
fn options_for_training_and_batches_change_no_prompt() {
    let text = b"ab ab ab ab ab ab ab ab";
    let expected = loaded(&byte_level()).tokens(text).unwrap();
    assert_eq!(expected, [3, 4, 4, 4, 4, 4, 4, 4]);
    let truncation = json!({"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0});
    let impossible = json!({"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 1});
    let padding = json!({"strategy": {"Fixed": 16}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
        "pad_type_id": 0, "pad_token": "!"});
    for (key, value) in [("truncation", truncation), ("truncation", impossible), ("padding", padding)] {
        let mut json = byte_level();
        json[key] = value;
        assert_eq!(loaded(&json).tokens(text).unwrap(), expected, "{key}");
    }
    for dropout in [0.5, 1.0] {
        let mut json = byte_level();
        json["model"]["dropout"] = json!(dropout);
        assert_eq!(loaded(&json).tokens(text).unwrap(), expected, "dropout {dropout}");
    }
}

#[test]
fn a_continuation_keeps_the_space_before_its_first_word() {
    for json in [llama_2(), metaspace()] {
        let vocabulary = loaded(&json);
        let prompt = vocabulary.tokens("a€ a".as_bytes()).unwrap();
        assert_eq!(prompt, [1, 7, 2, 3, 4, 7]);
        assert_eq!(vocabulary.continuation(&prompt, &[7, 8, 8, 7]).unwrap(), " abb a");
        assert_eq!(vocabulary.continuation(&prompt, &[8]).unwrap(), "b");
        assert_eq!(vocabulary.continuation(&prompt, &[]).unwrap(), "");
        assert_eq!(vocabulary.continuation(&[1], &[7, 7]).unwrap(), "a a");
    }
}

#[test]
fn a_generated_text_is_decoded_with_its_prompt() {
    for json in [llama_2(), metaspace()] {
        let mut model = model(9, true, 5);
        model.vocabulary = loaded(&json);
        let options = GenerateOptions::new(30, 300, 3);
        let generation = generate(&model, &mut SoftwareBackend::default(), b"a b", &options, |_| {}).unwrap();
        let all = [model.vocabulary.tokens(b"a b").unwrap(), generation.tokens].concat();
        assert_eq!(format!("a b{}", generation.text), model.vocabulary.text(&all).unwrap());
        assert!(generation.text.contains(" a"), "{:?}", generation.text);
    }
}

#[test]
fn a_stream_gives_the_same_text_and_holds_back_parts_of_characters() {
    for (json, tokens, parts) in [
        (llama_2(), [7, 2, 3, 4, 7], [" a", "", "", "€", " a"]),
        (metaspace(), [7, 2, 3, 4, 7], [" a", "", "", "€", " a"]),
        (byte_level(), [4, 5, 6, 7, 4], [" ab", "", "", "€", " ab"]),
    ] {
        let vocabulary = loaded(&json);
        let prompt = vocabulary.tokens(b"a").unwrap();
        let mut stream = Continuation::new(&vocabulary, prompt.clone());
        let mut given: Vec<String> = tokens.iter().map(|&token| stream.push(token)).collect();
        assert_eq!(given, parts);
        given.push(stream.finish());
        assert_eq!(given.concat(), vocabulary.continuation(&prompt, &tokens).unwrap());

        let mut stream = Continuation::new(&vocabulary, prompt.clone());
        let given: String = tokens[..3].iter().map(|&token| stream.push(token)).collect();
        assert_eq!(given, parts[0]);
        assert_eq!(given + &stream.finish(), vocabulary.continuation(&prompt, &tokens[..3]).unwrap());
    }
    let euro = "€".as_bytes();
    let [first, rest] = [&euro[..1], &euro[1..]].map(|part| Vocabulary::Bytes.tokens(part).unwrap());
    assert_eq!(Vocabulary::Bytes.continuation(&first, &rest).unwrap(), "€");
}

#[test]
fn tokens_beyond_the_model_s_are_a_warning() {
    let json = byte_level().to_string();
    assert_eq!(load(&json, 8).unwrap().beyond(8), None);
    let vocabulary = load(&json, 5).unwrap();
    let warning = vocabulary.beyond(5).unwrap();
    assert!(warning.contains("tokens up to 7, but config.json says vocab_size = 5"), "{warning}");
    assert_eq!(vocabulary.tokens(b"ab ab").unwrap(), [3, 4]);
    assert_eq!(Vocabulary::Bytes.beyond(5), None);
}

#[test]
fn a_tokenizer_that_breaks_the_library_is_an_error() {
    // Not JSON: a control character in a string, a missing colon.
    for json in ["{\"version\": \"1.0\n\"}", r#"{"decoder": {"type" "Fuse"}}"#] {
        let said = load(json, 1000).unwrap_err().to_string();
        assert!(said.contains("tokenizer.json: not a tokenizer: ") && said.contains("at line "), "{said}");
    }
    // Merged tokens that are shorter than their prefix.
    let mut json = byte_level();
    json["model"]["continuing_subword_prefix"] = json!("##");
    let said = load(&json.to_string(), 1000).unwrap_err().to_string();
    assert!(said.ends_with("tokenizer.json: not a tokenizer: its parts contradict each other"), "{said}");
    // Accepted but unusable: the decoder cuts more characters than the text has.
    let mut json = byte_level();
    json["decoder"] = json!({"type": "Strip", "content": "a", "start": 1, "stop": 1});
    let said = loaded(&json).text(&[0]).unwrap_err().to_string();
    let expected =
        "tokenizer.json: cannot be used: decoding tokens [0] fails: its parts contradict each other";
    assert!(said.ends_with(expected), "{said}");
}

#[test]
fn characters_without_tokens_are_refused_by_name() {
    let refused = |json: &Value, text: &str| {
        let said = loaded(json).tokens(text.as_bytes()).unwrap_err().to_string();
        said.split_once("tokenizer.json: ").unwrap().1.to_owned()
    };
    let advice = "which the model would not see: leave them out";
    let mut json = byte_level();
    assert_eq!(
        refused(&json, "日本ab日 !"),
        format!("the tokenizer has no tokens for '!', '日', '本', {advice}")
    );
    assert_eq!(
        refused(&json, "abcdefghijkl"),
        format!(
            "the tokenizer has no tokens for 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j' and 2 more, {advice}"
        )
    );
    // Two of three bytes have tokens.
    assert_eq!(refused(&json, "ab€ ₃a"), format!("the tokenizer has no tokens for '₃', {advice}"));
    // One word, whose space mark covers the lost character.
    let mut marks = metaspace();
    marks["model"]["unk_token"] = Value::Null;
    marks["model"]["byte_fallback"] = json!(false);
    for text in ["日", "日a", "a日  ", "▁日"] {
        assert_eq!(
            refused(&marks, text),
            format!("the tokenizer has no tokens for '日', {advice}"),
            "{text}"
        );
    }
    // Spaces and newlines may be dropped; a file may have a token for unknown text.
    assert_eq!(loaded(&json).tokens(b"ab\n ab").unwrap(), [3, 4]);
    assert_eq!(loaded(&llama_2()).tokens("a日 a".as_bytes()).unwrap(), [1, 7, 0, 7]);
    json["model"]["unk_token"] = json!("b");
    assert_eq!(loaded(&json).tokens(b"a!").unwrap(), [0, 1]);
    json["post_processor"] =
        json!({"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}});
    assert_eq!(refused(&json, "abababababab"), "the tokenizer gives no tokens for the text 'abababab...'");
    assert!(loaded(&json).tokens(b"").unwrap().is_empty());
}

#[test]
fn numbers_that_no_token_has_are_not_dropped_from_a_text() {
    for (json, expected) in [(byte_level(), "ab\u{FFFD} ab"), (llama_2(), "a\u{FFFD} a")] {
        let vocabulary = loaded(&json);
        let known = vocabulary.tokens(expected.replace('\u{FFFD}', "").as_bytes()).unwrap();
        let (last, first) = known.split_last().unwrap();
        assert_eq!(vocabulary.text(&[first, &[999], &[*last]].concat()).unwrap(), expected);
    }
}

/// `vocab.json`, `merges.txt` and `tokenizer_config.json`.
fn parts(vocab: &Value, merges: &str, config: &Value) -> ndp_files::Result<Vocabulary> {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("vocab.json", vocab.to_string()),
        ("merges.txt", merges.into()),
        ("tokenizer_config.json", config.to_string()),
    ] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    Vocabulary::load(dir.path(), 1000)
}

#[test]
fn a_vocabulary_and_merges_are_a_tokenizer() {
    let vocab = json!({
        "a": 0, "b": 1, "Ġ": 2, "ab": 3, "Ġab": 4, "</s>": 5, "1": 6, "2": 7, "12": 8, "Ã": 9, "¤": 10, "Ì": 11, "Ī": 12,
        "/": 15, "<": 16, ">": 17, "d": 18, "e": 19, "n": 20, "s": 21, "|": 22
    });
    let merges = "#version: 0.2\na b\nĠ ab\n1 2\n";
    let added =
        json!({"13": {"content": "<|end|>", "special": true}, "14": {"content": "<b>", "special": false}});
    let opt = json!({
        "tokenizer_class": "GPT2Tokenizer", "bos_token": {"content": "</s>"}, "eos_token": "</s>",
        "add_bos_token": true, "added_tokens_decoder": added
    });
    let vocabulary = parts(&vocab, merges, &opt).unwrap();
    let tokens = vocabulary.tokens("ab ab12</s><|end|><b>".as_bytes()).unwrap();
    assert_eq!(tokens, [5, 3, 4, 8, 5, 13, 14]);
    assert_eq!(vocabulary.text(&tokens).unwrap(), "ab ab12<b>");
    // Digits by themselves, and NFC: a with a diaeresis is two bytes in one form, and one byte more in the other.
    let qwen = parts(&vocab, merges, &json!({"tokenizer_class": "Qwen2TokenizerFast"})).unwrap();
    assert_eq!(qwen.tokens("ab12".as_bytes()).unwrap(), [3, 6, 7]);
    assert_eq!(qwen.tokens("a\u{308}".as_bytes()).unwrap(), [9, 10]);
    assert_eq!(vocabulary.tokens("a\u{308}".as_bytes()).unwrap(), [5, 0, 11, 12]);
    for (merges, config, expected) in [
        (
            merges,
            json!({"tokenizer_class": "CLIPTokenizer"}),
            "tokenizer_class = CLIPTokenizer, expected GPT2Tokenizer or",
        ),
        (
            merges,
            json!({}),
            "tokenizer_class = (absent), expected GPT2Tokenizer or Qwen2Tokenizer, or a tokenizer.json",
        ),
        (
            merges,
            json!({"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": true}),
            "add_prefix_space = true, expected false",
        ),
        (
            merges,
            json!({"tokenizer_class": "GPT2Tokenizer", "add_bos_token": true, "bos_token": "<s>"}),
            "bos_token = <s>, expected a token",
        ),
        (
            "a b\nab",
            json!({"tokenizer_class": "GPT2Tokenizer"}),
            "merges.txt: merge 1 = 'ab', expected two parts of a token",
        ),
    ] {
        let said = parts(&vocab, merges, &config).unwrap_err().to_string();
        assert!(said.contains(expected), "{said}");
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("merges.txt"), merges).unwrap();
    let said = Vocabulary::load(dir.path(), 1000).unwrap_err().to_string();
    assert!(said.contains("has merges.txt, but no vocab.json: expected both, or a tokenizer.json"), "{said}");
}
